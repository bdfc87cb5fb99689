"""Meshes of devices, and how an array is cut over them."""

from xjax.core.public import attributes_of
from xjax.runtime.mesh import AxisType, Mesh, PartitionSpec
from xjax.runtime.sharding import GSPMDSharding, NamedSharding, Sharding, SingleDeviceSharding

__all__ = [
    "AxisType", "GSPMDSharding", "Mesh", "NamedSharding", "PartitionSpec", "Sharding", "SingleDeviceSharding"]

__getattr__ = attributes_of(__name__)
