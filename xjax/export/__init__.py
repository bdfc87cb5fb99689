"""Functions saved as StableHLO: `export` and `deserialize`. Files are those of `jax.export`, in both directions."""

from xjax.core.public import attributes_of
from xjax.core.symbolic.dims import is_symbolic_dim
from xjax.core.symbolic.scope import SymbolicScope, symbolic_dim_bounds, symbolic_shape
from xjax.export.checks import DisabledSafetyCheck
from xjax.export.exported import (
    Exported,
    deserialize,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xjax.export.exporting import default_export_platform, export
from xjax.export.specs import symbolic_args_specs
from xjax.export.trees import register_namedtuple_serialization, register_pytree_node_serialization

__all__ = ["DisabledSafetyCheck", "Exported", "SymbolicScope", "default_export_platform", "deserialize", "export",
           "is_symbolic_dim", "maximum_supported_calling_convention_version",
           "minimum_supported_calling_convention_version", "register_namedtuple_serialization",
           "register_pytree_node_serialization", "symbolic_args_specs", "symbolic_dim_bounds", "symbolic_shape"]

__getattr__ = attributes_of(__name__)
