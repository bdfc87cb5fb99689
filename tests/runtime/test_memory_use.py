"""The error when a device has no memory left; test_placement and test_memory cover live arrays and programs."""

import numpy as np
import pytest

import xjax
from tests.refusals import assert_refused
from xjax import numpy as jnp
from xjax.errors import JaxRuntimeError
from xjax.runtime.arrays.memory_use import size_text

HUGE = 1 << 44                          # elements: no machine has 64 TiB
CALLS = {
    "an operation": lambda: jnp.zeros(HUGE, jnp.float32),
    "a program": lambda: xjax.jit(lambda x: x[:, None] + x)(jnp.ones(1 << 22)),
    "an outer sum": lambda: jnp.ones(1 << 22)[:, None] + jnp.ones(1 << 22),
    "a host array": lambda: xjax.device_put(np.broadcast_to(np.float32(1), (HUGE,))),
    "a map": lambda: xjax.pmap(lambda x: x[:, None] + x)(jnp.ones((2, 1 << 22))),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_says_what_holds_memory_and_what_to_do(name):
    rows = 3000 + [*CALLS].index(name)  # for this test alone: a traceback may keep the arrays of other tests alive
    kept = [jnp.full((rows, 1000), 1.0) for _ in range(3)]
    texts = ["RESOURCE_EXHAUSTED: Out of memory allocating", "wanted   ", " TiB", "compiled programs ",
             f"3 of f32[{rows},1000]: 34.", "xjax.checkpoint"]
    assert_refused(lambda: CALLS[name]().block_until_ready(), JaxRuntimeError, texts)
    with pytest.raises(JaxRuntimeError) as caught:
        np.asarray(CALLS[name]())
    assert "[4194304,4194304]" not in str(caught.value)             # the array that got no memory is not listed
    assert float(kept[2].sum()) == rows * 1000                      # and the process works further


def test_arrays_in_the_memory_of_the_host_take_none_of_the_device():
    x = xjax.device_put(np.ones((511, 3), np.float32), jnp.ones(1).sharding.with_memory_kind("pinned_host"))
    with pytest.raises(JaxRuntimeError) as caught:
        CALLS["an operation"]().block_until_ready()
    assert "f32[511,3]" not in str(caught.value)
    assert x.shape == (511, 3)


def test_sizes():
    assert [size_text(n) for n in (0, 1023, 1024, 3 << 19, 1 << 50)] == [
        "0 bytes", "1,023 bytes", "1.0 KiB", "1.5 MiB", "1,024.0 TiB"]
