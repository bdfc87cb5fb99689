"""Functions on pytrees under short names: `tree.map`, `tree.leaves` ... (see `xjax.tree_util` for registration)."""

from xjax.core.public import attributes_of
from xjax.core.tree import tree_all as all
from xjax.core.tree import tree_broadcast as broadcast
from xjax.core.tree import tree_flatten as flatten
from xjax.core.tree import tree_flatten_with_path as flatten_with_path
from xjax.core.tree import tree_leaves as leaves
from xjax.core.tree import tree_leaves_with_path as leaves_with_path
from xjax.core.tree import tree_map as map
from xjax.core.tree import tree_map_with_path as map_with_path
from xjax.core.tree import tree_reduce as reduce
from xjax.core.tree import tree_reduce_associative as reduce_associative
from xjax.core.tree import tree_structure as structure
from xjax.core.tree import tree_transpose as transpose
from xjax.core.tree import tree_unflatten as unflatten
from xjax.core.tree_nodes import static_field as static

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce",
    "reduce_associative", "static", "structure", "transpose", "unflatten"]

__getattr__ = attributes_of(__name__)
