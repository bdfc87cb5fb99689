"""Lowerings of operations for GPUs: the rules of `Primitive(lower_on={"gpu": ...})`; see `xjax.ops.cpu`."""
