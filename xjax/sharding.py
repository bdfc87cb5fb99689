"""Meshes of devices, and how an array is cut over them."""

from xjax.core.public import attributes_of
from xjax.runtime.mesh import AxisType, Mesh, PartitionSpec, set_mesh
from xjax.runtime.sharding import (
    GSPMDSharding,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)
from xjax.runtime.sharding_constraint import reshard

__all__ = [
    "AxisType", "GSPMDSharding", "Mesh", "NamedSharding", "PartitionSpec", "Sharding", "SingleDeviceSharding",
    "make_single_device_sharding", "reshard", "set_mesh"]

__getattr__ = attributes_of(__name__)
