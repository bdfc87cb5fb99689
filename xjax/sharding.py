"""Meshes of devices, and shardings of arrays over them."""

from xjax.core.public import attributes_of
from xjax.runtime.placement.abstract_mesh import AbstractDevice, AbstractMesh
from xjax.runtime.placement.current_mesh import get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from xjax.runtime.placement.mesh import AxisType, Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec, UnreducedKind
from xjax.runtime.placement.sharding import (
    GSPMDSharding,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)
from xjax.runtime.sharding_constraint import reshard

__all__ = [
    "AbstractDevice", "AbstractMesh", "AxisType", "GSPMDSharding", "Mesh", "NamedSharding", "PartitionSpec", "Sharding",
    "SingleDeviceSharding", "UnreducedKind", "get_abstract_mesh", "get_mesh", "make_single_device_sharding", "reshard",
    "set_mesh", "use_abstract_mesh"]

__getattr__ = attributes_of(__name__)
