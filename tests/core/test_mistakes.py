"""The most common mistakes of users: each raises the class of JAX's error, with a message that names the function, the
argument and the passed value, and has a `fix:`."""

from __future__ import annotations

import functools
import operator
import sys
import traceback

import numpy as np
import pytest

import xjax
from tests.compare import builtin_class, outcome
from tests.oracle import VERSION, real_jax
from tests.refusals import assert_refused


class Layer:
    """A class that is not registered as a pytree."""

    def __call__(self, x):
        return x


def names_of(library):
    """The namespace of the expressions below."""
    return {"jax": library, "jnp": library.numpy, "lax": library.lax, "random": library.random, "nn": library.nn,
            "np": np, "op": operator, "x": library.numpy.ones(3), "key": library.random.key(0), "Layer": Layer,
            "partial": functools.partial}


# (expression of the user, class of the error, parts of the message; "fix: " is always required)
MISTAKES = [
    # -- arguments of transformed functions
    ("jax.jit(lambda x, s: x)(1., 'relu')", TypeError, "jit `<lambda>`: argument `s`", "'relu'", "static_argnames='s'",
     "static_argnums"),
    ("jax.jit(lambda x, *, act: x)(1., act='relu')", TypeError, "argument `act` of type str", "static_argnames='act'"),
    ("jax.jit(lambda f, x: f(x))(jnp.sin, 1.)", TypeError, "argument `f`", "static_argnames='f'"),
    ("jax.jit(lambda c, x: x)({'name': 'a'}, 1.)", TypeError, "argument `c['name']` of type str", "of its own"),
    ("jax.jit(lambda *xs: xs[0])(1, 'a')", TypeError, "argument `xs[1]` of type str"),
    ("jax.jit(lambda x, n, s: x, static_argnums=1)(1., 2, 'a')", TypeError, "argument `s`"),
    ("jax.jit(lambda self, x: x)(Layer(), 1.)", TypeError, "argument `self` of type", "register_dataclass",
     "static_argnums=0"),
    ("jax.jit(lambda x: x)(np.array([None, 1]))", TypeError, "dtype object", "use a bool, integer"),
    ("jax.jit(lambda x: x)({1, 2})", TypeError, "argument `x` of type set", "array(sorted(x))"),
    ("jax.jit(lambda x: x)(i for i in range(2))", TypeError, "argument `x` of type generator", "array(list(x))"),
    ("jax.jit(lambda x: jax.jit(lambda y, s: y)(x, 'a'))(1.)", TypeError, "argument `s`"),
    ("jax.jit(lambda x: x).lower('a')", TypeError, "argument `x` of type str"),
    ("jax.eval_shape(lambda s, x: x, 'a', 1.)", TypeError, "eval_shape of `<lambda>`", "argument `s`"),
    ("jax.make_jaxpr(lambda s, x: x)('a', 1.)", TypeError, "make_jaxpr of `<lambda>`", "argument `s`"),
    ("jax.checkpoint(lambda s, x: x)('a', 1.)", TypeError, "checkpoint of `<lambda>`", "argument `s`"),
    ("jax.vmap(lambda x: x)('a')", TypeError, "vmap of `<lambda>`", "argument `x` of type str"),
    ("jax.pmap(lambda x: x)('a')", TypeError, "pmap of `<lambda>`", "argument `x` of type str"),
    ("jax.vjp(lambda x: x, 'a')", TypeError, "vjp of `<lambda>`", "argument `x` of type str"),
    ("jax.grad(lambda x: x)('a')", TypeError, "grad of `<lambda>`", "argument 0"),
    ("jax.jit(3)", TypeError, "jit: needs a function", "jit(f)(x)"),
    ("jax.vmap(3)", TypeError, "vmap: needs a function"),
    ("jax.pmap(3)", TypeError, "pmap: needs a function"),
    ("jax.grad(jnp.sin(1.))", TypeError, "grad: needs a function", "not grad(f(x))"),
    ("jax.jit(lambda x: 'a')(1)", TypeError, "returned a value of type str"),
    ("jax.jit(lambda x: x.at[0])(x)", TypeError, "IndexUpdate", "x.at[0]"),
    ("jax.jit(lambda x: x, static_argnums=0)([1, 2])", ValueError, "static argument 0 is not hashable", "list [1, 2]"),
    ("jax.jit(lambda num: 1, static_argnames='nmu')(1)", ValueError, "'nmu'", "did you mean 'num'?"),
    ("jax.jit(lambda x: 1, static_argnums=2)(1)", ValueError, "static_argnums names argument 2"),
    ("jax.jit(lambda x: x, static_argnums='x')(1)", TypeError, "static_argnums must be an int", "static_argnames"),
    ("jax.jit(lambda x: x, static_argnames=0)(1)", TypeError, "static_argnames must be a string", "static_argnums"),
    ("jax.jit(lambda x: x, donate_argnums=3)(1)", ValueError, "donate_argnums names argument 3"),
    ("jax.jit(lambda x: x)({'a': 1, 2: 3})", ValueError, "keys of a dict cannot be sorted"),
    ("jax.jit(lambda x: x)(2**40)", OverflowError, "1099511627776 does not fit"),
    # -- static shapes
    ("jax.jit(lambda n: jnp.arange(n))(3)", TypeError, "numpy.arange: `stop`", "shapes and axes are static",
     "argument `n`", "static_argnums"),
    ("jax.jit(lambda n: jnp.arange(n, 9))(3)", TypeError, "`start` must be known"),
    ("jax.jit(lambda n: jnp.arange(0, 9, n))(3)", TypeError, "`step` must be known"),
    ("jax.jit(lambda n: jnp.zeros(n))(3)", TypeError, "numpy.zeros: `shape`", "static", "argument `n`"),
    ("jax.jit(lambda n: jnp.ones((n, 2)))(3)", TypeError, "numpy.ones: `shape`", "static"),
    ("jax.jit(lambda n: jnp.linspace(0, 1, n))(3)", TypeError, "numpy.linspace: `num`", "static"),
    ("jax.jit(lambda n: jnp.eye(n))(3)", TypeError, "numpy.eye", "static"),
    ("jax.jit(lambda x, n: x.reshape(n, -1))(x, 3)", TypeError, "numpy.reshape: `shape`", "static", "argument `n`"),
    ("jax.jit(lambda x, n: jnp.broadcast_to(x, (n, 3)))(x, 2)", TypeError, "numpy.broadcast_to: `shape`", "static"),
    ("jax.jit(lambda x, n: jnp.tile(x, n))(x, 2)", TypeError, "numpy.tile: `reps`", "static"),
    ("jax.jit(lambda x, n: jnp.split(x, n))(x, 3)", TypeError, "numpy.split: `indices_or_sections`", "static"),
    ("jax.jit(lambda x, n: jnp.sum(x, axis=n))(x, 0)", TypeError, "numpy.sum: `axis`", "static"),
    ("jax.jit(lambda x, n: jnp.expand_dims(x, n))(x, 0)", TypeError, "numpy.expand_dims: `axis`", "static"),
    ("jax.jit(lambda x, n: jnp.repeat(x, n))(x, 2)", TypeError, "total_repeat_length"),
    ("jax.jit(lambda x, n: x[:n])(x, 2)", IndexError, "stop of a slice", "dynamic_slice"),
    ("jax.jit(lambda x, n: nn.one_hot(x, n))(1, 4)", TypeError, "nn.one_hot: `num_classes`", "static"),
    ("jax.jit(lambda k, n: random.normal(k, (n,)))(key, 4)", TypeError, "random.normal: `shape`", "static"),
    ("jax.jit(lambda k, n: random.split(k, n))(key, 4)", TypeError, "random.split: `num`", "static"),
    ("jax.vmap(lambda n: jnp.ones(n))(jnp.arange(2))", TypeError, "in vmap of", "x.shape"),
    ("jax.jit(lambda x: x[x > 0])(x)", IndexError, "boolean mask", "numpy.where"),
    ("jax.jit(lambda x: jnp.nonzero(x))(x)", TypeError, "numpy.nonzero", "size=n"),
    ("jax.jit(lambda x: jnp.unique(x))(x)", TypeError, "numpy.unique", "size=n"),
    ("jax.jit(lambda x: jnp.where(x > 0))(x)", TypeError, "size=n", "where(condition, x, y)"),
    # -- values that are not known yet
    ("jax.jit(lambda x: 1 if x > 0 else 2)(1.)", TypeError, "bool() of a traced value", "lax.cond", "lax.while_loop"),
    ("jax.jit(lambda x: x > 0 and x < 1)(1.)", TypeError, "bool() of", "& and |"),
    ("jax.vmap(lambda x: x if x > 0 else 0)(x)", TypeError, "bool() of", "in vmap of"),
    ("jax.jit(lambda x: sum(range(x)))(3)", TypeError, "an index from", "lax.fori_loop", "argument `x`"),
    ("jax.jit(lambda x: [1, 2][x])(1)", TypeError, "an index from", "indexing of an array"),
    ("jax.jit(lambda x: {1: 2}[x])(1)", TypeError, "unhashable", "argument `x`", "lax.switch"),
    ("jax.jit(lambda x: float(x))(1.)", TypeError, "float() of a traced value", "argument `x`"),
    ("jax.jit(lambda x: int(x))(1)", TypeError, "int() of a traced value"),
    ("jax.jit(lambda x: x.item())(1)", TypeError, "item() of a traced value"),
    ("jax.jit(lambda x: np.sin(x))(1.)", TypeError, "a NumPy array from", "xjax.numpy functions"),
    ("jax.jit(lambda x: np.linalg.norm(x))(x)", TypeError, "a NumPy array from", "used at <string>:1"),
    ("jax.jit(lambda x: f'{x:.2f}')(1.)", TypeError, "a formatted text of a traced value", "jax.debug.print"),
    ("jax.vmap(lambda x: f'{x:.2f}')(x)", TypeError, "a formatted text of", "jax.debug.print"),
    ("lax.fori_loop(0, 3, lambda i, c: f'{i:d}', 0)", TypeError, "a formatted text of", "argument `i`", "debug.print"),
    ("lax.scan(lambda c, x: (f'{c:8.3f}', x), 0., x)", TypeError, "a formatted text of", "debug.print"),
    ("jax.jit(lambda x: '%.2f' % x)(1.)", TypeError, "float() of a traced value"),
    ("f'{x:.2f}'", TypeError, "formats one number, not an array", "f32[3]"),
    ("jax.jit(lambda x: x.numpy())(1.)", AttributeError, "has no attribute 'numpy'", "numpy.asarray(x)"),
    ("jax.jit(lambda x: x.block_until_ready())(1.)", AttributeError, "block_until_ready", "outside of jit"),
    # -- operators
    ("x * 'a'", TypeError, "x * y: a str is not an array", "f32[3]", "'a'"),
    ("'a' * x", TypeError, "y * x: a str is not an array"),
    ("x + None", TypeError, "x + y: a NoneType is not an array", "without `return`"),
    ("None - x", TypeError, "y - x: a NoneType is not an array"),
    ("x + [1, 2, 3]", TypeError, "x + y: a list is not an array", "xjax.numpy.array(y)"),
    ("[1, 2, 3] @ x", TypeError, "y @ x: a list is not an array"),
    ("x / (1, 2, 3)", TypeError, "x / y: a tuple is not an array"),
    ("x == [1, 2, 3]", TypeError, "x == y: a list is not an array"),
    ("x * {'a': 1}", TypeError, "a dict is not an array", "xjax.tree.map"),
    ("x - {1}", TypeError, "a set is not an array", "array(sorted(y))"),
    ("x < 'a'", TypeError, "x < y: a str is not an array"),
    ("x ** jnp.sin", TypeError, "a function is not an array", "the result of the function"),
    ("divmod(x, 'a')", TypeError, "a str is not an array"),
    ("jax.jit(lambda x: x * 'a')(x)", TypeError, "x * y: a str is not an array"),
    ("jax.grad(lambda x: (x * [1, 2, 3]).sum())(x)", TypeError, "x * y: a list is not an array"),
    ("x > 0 & x < 1", TypeError, "float32", "f32[3]", "(x > 0) & (y > 0)"),
    ("-jnp.array(True)", TypeError, "lax.neg", "bool[]", "~x"),
    ("jnp.array(True) - True", TypeError, "lax.sub", "x ^ y"),
    ("x + jnp.ones(2)", TypeError, "incompatible shapes", "(3,)", "(2,)", "x[:, None]"),
    ("jax.lax.broadcast_shapes((2,), (3,))", ValueError, "Incompatible shapes for broadcasting", "(2,)", "(3,)"),
    ("jnp.broadcast_shapes((2,), (3,))", ValueError, "Incompatible shapes for broadcasting", "(2,)", "(3,)"),
    ("x @ jnp.ones(2)", TypeError, "contracting dimensions differ", "f32[3]", "f32[2]"),
    ("x @ 2", ValueError, "0-d arguments", "with *"),
    ("bool(x > 0)", ValueError, "more than one element is ambiguous", "x.any()", "& and |"),
    ("float(x)", TypeError, "only an array of one element", "f32[3]"),
    ("range(x)", TypeError, "only a 0-d integer array can be an index"),
    # -- in place
    ("op.setitem(x, 0, 1)", TypeError, "x[0] = 1: arrays are immutable", "x.at[0].set(1)"),
    ("op.setitem(x, 0, x[0] + 1)", TypeError, "x[0] = value", ".add(number) in place of +="),
    ("op.setitem(x, slice(None), 0)", TypeError, "x[:] = 0", "x.at[:].set(0)"),
    ("jax.jit(lambda x: op.setitem(x, 0, 1.))(x)", TypeError, "arrays are immutable", "x.at[0].set(1.0)"),
    ("op.delitem(x, 0)", TypeError, "del x[0]: arrays are immutable", "numpy.delete(x, 0"),
    ("x.at(0)", TypeError, "x.at: is indexed, not called", "x.at[index].set(values)"),
    ("op.setitem(x.at, 0, 1)", TypeError, "x.at[index] = value", "x.at[0].set(1)"),
    ("x.at[0] + 1", TypeError, "x.at[...]: is not an array", "x.at[0].add(values)"),
    ("x + x.at[0]", TypeError, "x.at[...]: is not an array", "x.at[0].add(values)"),
    ("jnp.sum(x.at[0])", TypeError, "numpy.sum", "read with x[index]"),
    ("x.at[0](1)", TypeError, "x.at[...]: is not a function", "x.at[0].set(values)"),
    ("x.at[0].sett(1)", AttributeError, "'sett'", "did you mean 'set'?"),
    ("x.at[0].sub(1)", AttributeError, "'sub'", "subtract"),
    ("x.at.set(1)", AttributeError, "x.at: has no attribute 'set'", "x.at[index].set(...)"),
    ("x.at[0].set(jnp.ones(2))", ValueError, "x.at[0].set", "f32[2]"),
    ("x.at['a'].set(1)", TypeError, "a string cannot index"),
    ("jnp.put(x, 0, 1)", ValueError, "numpy.put", "inplace=False"),
    ("jnp.sum(x, out=x)", NotImplementedError, "numpy.sum: `out`"),
    # -- indices
    ("x[0, 0]", IndexError, "2 axes are indexed, but the array has 1"),
    ("x[1.]", TypeError, "must be an integer", "astype('int32')"),
    ("x[1.:2.]", TypeError, "start of a slice must be an integer", "int(1.0)"),
    ("x[[0, 1]]", TypeError, "a list is ambiguous as an index", "numpy.array(index)"),
    ("x['a']", TypeError, "a string cannot index"),
    ("x[jnp.array([True, False])]", IndexError, "boolean mask", "bool[2]"),
    ("x[..., ...]", IndexError, "more than one ellipsis"),
    # -- names
    ("jnp.consine(1.)", AttributeError, "xjax.numpy: it has no `consine`", "did you mean 'cos'?"),
    ("jnp.random.normal()", AttributeError, "no `random`", "xjax.random"),
    ("jnp.relu(x)", AttributeError, "no `relu`", "use xjax.nn.relu."),
    ("jnp.trapz(x)", AttributeError, "no `trapz`", "use xjax.numpy.trapezoid."),
    ("jnp.norm(x)", AttributeError, "use xjax.numpy.linalg.norm."),
    ("jnp.float46", AttributeError, "did you mean 'float64'?"),
    ("jax.tree_map(abs, x)", AttributeError, "no `tree_map`", "use xjax.tree.map."),
    ("jax.grda(abs)", AttributeError, "did you mean 'grad'?"),
    ("jax.arange(3)", AttributeError, "use xjax.numpy.arange."),
    ("random.randn(3)", AttributeError, "use xjax.random.normal(key, shape)."),
    ("random.seed(0)", AttributeError, "use xjax.random.key(seed)"),
    ("nn.Dense(3)", AttributeError, "no `Dense`", "xnn"),
    ("x.append(1)", AttributeError, "'Array' object has no attribute 'append'", "xjax.numpy.append(x, values)"),
    ("x.exp()", AttributeError, "no attribute 'exp'", "use xjax.numpy.exp(x)."),
    ("x.unsqueeze(0)", AttributeError, "no attribute 'unsqueeze'", "x[:, None]"),
    ("jax.jit(lambda x: x.exp())(x)", AttributeError, "no attribute 'exp'", "use xjax.numpy.exp(x)."),
    ("jax.config.update('jax_enable_x46', True)", AttributeError, "jax_enable_x46", "did you mean 'jax_enable_x64'?"),
    ("jax.config.jax_enable_x46", AttributeError, "jax_enable_x46", "did you mean 'jax_enable_x64'?"),
    # -- arguments of NumPy's functions
    ("jnp.zeros(None)", TypeError, "numpy.zeros: `shape` must be an integer or a sequence of integers", "None"),
    ("jnp.zeros(2, 3)", TypeError, "numpy.zeros: 3 is not a dtype", "(2, 3)"),
    ("jnp.ones(2.)", TypeError, "numpy.ones: `shape` must be an integer", "2.0", "pass 2, or n // m"),
    ("jnp.ones(3, dtype='flot32')", TypeError, "'flot32' is not a dtype", "did you mean 'float32'?"),
    ("x.astype(3)", TypeError, "numpy.astype: 3 is not a dtype"),
    ("jnp.array([1, 2], [3, 4])", TypeError, "numpy.array: [3, 4] is not a dtype"),
    ("jnp.ones(2, dtype=object)", TypeError, "dtype object"),
    ("jnp.arange(None)", TypeError, "numpy.arange", "NoneType"),
    ("jnp.array([[1, 2], [3]])", ValueError, "differ in shape", "(2,)", "(1,)"),
    ("jnp.array('a')", TypeError, "numpy.array", "'a'"),
    ("jnp.array({'a': 1})", TypeError, "numpy.array", "xjax.tree.map"),
    ("jnp.array(2**40)", OverflowError, "does not fit i32", "jax_enable_x64"),
    ("jnp.sum([1, 2])", TypeError, "numpy.sum: requires an array", "[1, 2]", "xjax.numpy.array(x)"),
    ("jnp.sum(i for i in range(3))", TypeError, "generator", "array(list(x))"),
    ("jnp.sin(None)", TypeError, "numpy.sin: requires an array", "None"),
    ("jnp.add(x, 'a')", TypeError, "numpy.add: requires an array", "'a'"),
    ("jnp.exp(jnp)", TypeError, "numpy.exp", "of type module"),
    ("lax.add(1, 'a')", TypeError, "lax.add: a value of type str is not an array"),
    ("lax.sin('a')", TypeError, "lax.sin: a value of type str is not an array"),
    ("jax.device_put('a')", TypeError, "device_put: a value of type str is not an array"),
    ("lax.sqrt(4)", TypeError, "lax.sqrt: does not accept dtype int32", "astype"),
    ("lax.add(x, jnp.arange(3))", TypeError, "one dtype", "f32[3]", "i32[3]"),
    ("jnp.reshape(x, (2, 2))", TypeError, "cannot turn 3 elements into shape (2, 2)"),
    ("x.reshape(2, -1)", TypeError, "cannot turn 3 elements"),
    ("jnp.sum(x, axis=1)", ValueError, "numpy.sum: `axis` 1 is out of bounds"),
    ("jnp.max(1, 2)", ValueError, "numpy.max: `axis` 2", "maximum(x, y) compares two values"),
    ("jnp.max(x, x)", TypeError, "numpy.max: `axis` must be an integer", "f32[3]", "maximum(x, y)"),
    ("jnp.concatenate(x, x)", ValueError, "numpy.concatenate", "concatenate([x, y])"),
    ("jnp.stack(x, x)", TypeError, "numpy.stack: `axis` must be an integer", "[x, y]"),
    ("jnp.concatenate([jnp.ones((2, 3)), jnp.ones((3, 2))])", TypeError, "differ in size", "f32[2,3]", "f32[3,2]"),
    ("jnp.stack([x, jnp.ones(2)])", ValueError, "numpy.stack", "f32[3]", "f32[2]"),
    ("jnp.where(x > 0, 1)", TypeError, "numpy.where", "where(condition, x, y)"),
    ("jnp.einsum('ij,jk->ik', x, x)", ValueError, "does not fit an operand with 1 axes"),
    ("jnp.split(x, 2)", ValueError, "numpy.split", "array_split"),
    ("jnp.tile(x, 2.5)", TypeError, "numpy.tile: `reps` must be an integer", "2.5"),
    ("jnp.repeat(x, jnp.arange(2))", ValueError, "numpy.repeat: `repeats`", "pass 3 numbers"),
    ("jnp.linspace(0, 1, 2.5)", TypeError, "numpy.linspace: `num` must be an integer", "2.5"),
    ("jnp.fft.fft('a')", TypeError, "numpy.fft.fft", "requires an array"),
    ("jnp.eye(2.)", TypeError, "numpy.eye: `N` must be an integer", "pass 2"),
    ("jnp.linalg.inv(jnp.ones((2, 3)))", ValueError, "numpy.linalg.inv", "f32[2,3]"),
    ("jnp.take(x, 1.)", TypeError, "numpy.take: the indices must be integers"),
    # -- random keys
    ("random.normal((3,))", TypeError, "random.normal", "(3,)", "random.key(seed)"),
    ("random.normal(0, (3,))", TypeError, "random.normal", "random.key(seed)"),
    ("random.normal(random.split(key), (3,))", ValueError, "takes one key, but got several", "vmap"),
    ("random.normal(key, 'a')", TypeError, "random.normal: `shape`", "'a'"),
    ("random.uniform(key, 0, 1)", TypeError, "random.uniform: 1 is not a dtype"),
    ("random.key('a')", TypeError, "random.key: a value of type str is not an array"),
    ("random.split(key, 2.)", TypeError, "random.split: `num` must be an integer", "pass 2"),
    ("random.choice(key, [1, 2])", TypeError, "random.choice", "xjax.numpy.array(x)"),
    ("np.asarray(key)", TypeError, "keys are not numbers", "random.key_data"),
    # -- control flow
    ("lax.scan(lambda c, x: c + x, 0., x)", TypeError, "`<lambda>` must return a pair (carry, y)", "(carry, None)"),
    ("lax.scan(lambda c, x: (jnp.stack([c, c]), x), 0., x)", TypeError, "the carry changes type", "f32[]", "f32[2]"),
    ("lax.scan(lambda c, x: ({'b': c['a']}, x), {'a': 0.}, x)", TypeError, "the carry changes structure", "'a'", "'b'"),
    ("lax.scan(lambda c, x: (c, x), 0., (x, jnp.ones(2)))", ValueError, "xs[0]", "3 rows", "2 rows"),
    ("lax.scan(lambda c, x: (c, x), 0.)", ValueError, "number of steps is unknown", "length"),
    ("lax.while_loop(lambda c: c, lambda c: c + 1, 0)", TypeError, "must return one bool scalar", "i32[]"),
    ("lax.while_loop(lambda c: c[0] < 3, lambda c: c[0] + 1, (0, 1))", TypeError, "while_loop", "a tuple of 2"),
    ("lax.fori_loop(0, 3, lambda i, c: None, 0)", TypeError, "fori_loop: the carry changes structure", "None"),
    ("lax.cond(True, lambda x: x, lambda x: x + 1., 1)", TypeError, "return different types", "f32[]", "i32[]"),
    ("lax.cond(True, 1, 2)", TypeError, "cond: `true_fun` must be a function"),
    ("lax.cond(x > 0, lambda: 1, lambda: 2)", TypeError, "the predicate must be a scalar", "bool[3]", "numpy.where"),
    ("lax.switch(0, lambda: 1)", TypeError, "switch: `branches` must be a sequence", "[f, g]"),
    ("lax.dynamic_slice(x, 0, (2,))", TypeError, "lax.dynamic_slice: `start_indices` must be a sequence"),
    ("lax.expand_dims(x, 0)", TypeError, "lax.expand_dims: `dimensions` must be a sequence", "(3,)"),
    ("jax.ShapeDtypeStruct(3, 'float32')", TypeError, "ShapeDtypeStruct: `shape` must be a sequence"),
    ("lax.psum(x, 'i')", NameError, "unbound axis name: i", "axis_name='i'"),
    # -- transforms
    ("jax.vmap(lambda x, y: x)(x, jnp.ones(2))", ValueError, "inconsistent sizes", "x: f32[3]", "y: f32[2]"),
    ("jax.vmap(lambda x: x)(1.)", ValueError, "cannot map axis 0 of an array with 0 axes"),
    ("jax.vmap(lambda x, y: x, in_axes=(0,))(x, x)", ValueError, "in_axes has 1 entries for 2"),
    ("jax.vmap(lambda x: x, in_axes=({'a': 0},))({'b': x})", ValueError, "in_axes", "'a'", "'b'"),
    ("jax.grad(lambda x: x)(1)", TypeError, "floating-point inputs", "int32", "2.0 instead of 2"),
    ("jax.grad(lambda x: x)(x)", TypeError, "must return a scalar", "f32[3]", "jacrev"),
    ("jax.grad(lambda x: (x, x))(1.)", TypeError, "must return one scalar", "has_aux=True"),
    ("jax.grad(lambda x: x, has_aux=True)(1.)", TypeError, "pair (value, aux)"),
    ("jax.jvp(lambda x: x, 1., 1.)", TypeError, "must be tuples or lists", "jvp(f, (x,), (dx,))"),
    ("jax.vjp(lambda x: x, 1.)[1](x)", ValueError, "expected  f32[]", "given     f32[3]"),
    ("jax.grad(jax.custom_vjp(lambda x: x))(1.)", AttributeError, "custom_vjp `<lambda>`", "defvjp"),
    ("jax.grad(jax.custom_jvp(lambda x: x))(1.)", AttributeError, "custom_jvp `<lambda>`", "defjvp"),
    ("jax.tree.map(lambda x: x, {'a': 1}, {'b': 1})", ValueError, "tree_map", "'a'", "'b'"),
    ("jax.devices('coffee')", RuntimeError, "unknown platform 'coffee'", "cpu"),
]
# Rows for which JAX raises another class: reason -> expressions.
OTHERWISE = {
    "the class is NumPy's": ["op.delitem(x, 0)", "jnp.take(x, 1.)"],
    "a TypeError, since the type is wrong": ["jax.pmap(lambda x: x)('a')"],
}
DIFFERENT = {expression for expressions in OTHERWISE.values() for expression in expressions}


@pytest.fixture(scope="module")
def ours():
    return names_of(xjax)


@pytest.fixture(scope="module")
def theirs():
    return names_of(real_jax("random", "nn"))


@pytest.mark.parametrize("row", MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_explained(row, ours):
    expression, kind, *words = row
    assert_refused(lambda: eval(expression, ours), kind, words)


@pytest.mark.parametrize("expression", [row[0] for row in MISTAKES])
def test_a_mistake_has_the_class_that_jax_raises(expression, ours, theirs):
    ours_raised, expected = outcome(eval, expression, ours).error, outcome(eval, expression, theirs).error
    assert expected is not None, f"JAX {VERSION} returns a value"
    assert isinstance(ours_raised, builtin_class(expected)) == (expression not in DIFFERENT), f"JAX raises {expected!r}"


@pytest.mark.parametrize(("name", "is_suggested"), [("unsqueeze", False), ("reshap", True)])
def test_python_suggests_a_name_only_where_the_message_has_no_fix(name, is_suggested):
    """For `x.unsqueeze` it would suggest `squeeze`, after the fix."""
    with pytest.raises(AttributeError) as caught:
        getattr(xjax.numpy.ones(3), name)
    text = "".join(traceback.format_exception_only(caught.value))
    assert ("Did you mean" in text) == (is_suggested and sys.version_info >= (3, 12)), text
