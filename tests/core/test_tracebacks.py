"""Tracebacks of errors in user's functions: they show the user's lines, and no frame of xjax or xnn."""

import functools
import traceback

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from xjax import lax
from xjax.core.config import Override
from xjax.sharding import PartitionSpec as P

X, LONG = np.ones((5, 4), np.float32), np.ones(7, np.float32)
MODEL = xnn.serial(xnn.Dense(3), xnn.Relu, xnn.residual(xnn.serial(xnn.Dense(3), xnn.Relu)), xnn.Dense(2))


def wrong(*args):
    return jnp.asarray(args[-1]) @ LONG


def wrong_body(carry, row):
    return carry, row @ LONG


@functools.cache
def params():
    return xjax.jit(MODEL.init, static_argnums=1)(xjax.random.key(0), (-1, 3))[1]


# name -> a call that runs `wrong` or `wrong_body`, or passes a wrong argument to a layer
CALLS = {
    "jit": lambda: xjax.jit(wrong)(X),
    "jit of scan": lambda: xjax.jit(lambda x: lax.scan(wrong_body, 0.0, x))(X),
    "lower": lambda: xjax.jit(wrong).lower(X),
    "eval_shape": lambda: xjax.eval_shape(wrong, X),
    "make_jaxpr": lambda: xjax.make_jaxpr(wrong)(X),
    "grad": lambda: xjax.grad(wrong)(X),
    "value_and_grad of jit": lambda: xjax.value_and_grad(xjax.jit(wrong))(X),
    "vjp": lambda: xjax.vjp(wrong, X),
    "jvp": lambda: xjax.jvp(wrong, (X,), (X,)),
    "linearize": lambda: xjax.linearize(wrong, X),
    "linear_transpose": lambda: xjax.linear_transpose(wrong, X),
    "jacfwd": lambda: xjax.jacfwd(wrong)(X),
    "hessian": lambda: xjax.hessian(wrong)(X),
    "vmap": lambda: xjax.vmap(wrong)(X),
    "pmap": lambda: xjax.pmap(wrong)(X[:1]),
    "shard_map": lambda: xjax.shard_map(wrong, mesh=xjax.make_mesh((1,), "i"), in_specs=P(), out_specs=P())(X),
    "checkpoint": lambda: xjax.grad(xjax.checkpoint(wrong))(X),
    "scan": lambda: lax.scan(wrong_body, 0.0, X),
    "map": lambda: lax.map(wrong, X),
    "cond": lambda: lax.cond(True, wrong, wrong, X),
    "switch": lambda: lax.switch(0, [wrong, wrong], X),
    "while_loop": lambda: lax.while_loop(lambda x: True, wrong, X),
    "fori_loop": lambda: lax.fori_loop(0, 3, wrong, X),
    "associative_scan": lambda: lax.associative_scan(wrong, X),
    "layer": lambda: MODEL.apply(params(), X),
    "layer in jit": lambda: xjax.jit(MODEL.apply)(params(), X),
    "layer in grad of jit": lambda: xjax.grad(xjax.jit(lambda p: MODEL.apply(p, X).sum()))(params()),
    "init": lambda: MODEL.init(xjax.random.key(0), (-1, "3")),
}


def files_of(call):
    with pytest.raises(Exception) as caught:
        call()
    return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]


def is_inner(file):
    return "/tests/" not in file and ("/xjax/" in file or "/xnn/" in file)


@pytest.mark.parametrize("name", CALLS)
def test_no_inner_frames(name):
    files = files_of(CALLS[name])
    assert files and not any(map(is_inner, files)), files


@pytest.mark.parametrize("name", ["jit of scan", "layer in jit", "hessian"])
def test_the_option_shows_them(name):
    with Override("traceback_filtering", "off"):
        assert sum(map(is_inner, files_of(CALLS[name]))) > 5
