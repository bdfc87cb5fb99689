"""`jax.extend.core.primitives`: the operations of programs, under JAX's names."""

from xjax.core.primitive import all_primitives
from xjax.ops.makers import accumulate_p as add_jaxvals_p
from xjax.runtime.device_put import device_put_p
from xjax.runtime.jit_primitive import jit_p
from xjax.runtime.sharding_constraint import sharding_constraint_p
from xjax.transforms.custom_jvp import custom_jvp_call_p
from xjax.transforms.custom_vjp import custom_vjp_call_p
from xjax.transforms.remat import remat_p

__all__ = ["add_jaxvals_p", "custom_jvp_call_p", "custom_vjp_call_p", "device_put_p", "jit_p", "remat_p",
           "sharding_constraint_p"]


class _NotHere:
    """An operation of JAX that programs of xjax do not contain."""

    multiple_results = True

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


call_p, closed_call_p = _NotHere("call"), _NotHere("closed_call")


def __getattr__(name: str) -> object:
    p = all_primitives().get(name.removesuffix("_p"))
    if p is None or not name.endswith("_p"):
        raise AttributeError(name)
    return p
