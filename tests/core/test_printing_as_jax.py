"""Programs print as in JAX: JAX's jaxprs, rebuilt as our programs, give the same text."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from xjax.core.printing import format_eqn, format_jaxpr
from xjax.core.types import ShapedArray

jax = real_jax()
jex = real_jax("extend.core").extend.core
jnp, lax = jax.numpy, jax.lax

# Parameters of JAX's sharding machinery, which our programs do not have. They are removed from the jaxprs before JAX
# prints them; removing them from the text would change the line breaks.
SHARDING_ONLY = {"sharding", "out_sharding", "memory_space"}

# Parameters that JAX hides if they have the default value, or prints in another form; our programs lack them.
JAX_ONLY = {"in_shardings", "out_shardings", "in_layouts", "out_layouts", "ctx_mesh",
            "compiler_options_kvs", "accuracy", "out_dtype", "jvp_jaxpr_fun", "fwd_jaxpr_thunk"}

X = np.ones(3, np.float32)
M = np.ones((4, 3), np.float32)
S = np.float32(2.0)
N = np.int32(2)


# ------------------------------------------------------------------------------------ rebuilding


class Rebuild:
    """From a JAX program: the same program without sharding parameters (`bare`), and our program (`ours`)."""

    def __init__(self):
        self.memo, self.keep = {}, []           # keep: live objects, so that ids in the memo stay unique

    def _once(self, kind, x, make):
        key = kind, id(x)
        if key not in self.memo:
            self.keep.append(x)
            self.memo[key] = make(x)
        return self.memo[key]

    def _value(self, rebuild, value):
        if isinstance(value, jex.Jaxpr):
            return rebuild(value)
        if isinstance(value, jex.ClosedJaxpr):
            closed = jex.ClosedJaxpr if rebuild == self.bare else ClosedJaxpr
            return closed(rebuild(value.jaxpr), value.consts)
        if isinstance(value, tuple):
            items = [self._value(rebuild, v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    def bare(self, jaxpr):
        return self._once("bare", jaxpr,
                          lambda j: j.replace(eqns=[self.bare_eqn(e) for e in j.eqns]))

    def bare_eqn(self, eqn):
        kept = {k: v for k, v in params_of(eqn).items() if k not in SHARDING_ONLY}
        return eqn.replace(params={k: self._value(self.bare, v) for k, v in kept.items()})

    def ours(self, jaxpr):
        return self._once("ours", jaxpr, lambda j: Jaxpr(
            map(self.atom, j.constvars), map(self.atom, j.invars),
            map(self.our_eqn, j.eqns), map(self.atom, j.outvars)))

    def our_eqn(self, eqn):
        def build(eqn):
            dropped = SHARDING_ONLY | JAX_ONLY
            kept = {k: v for k, v in params_of(eqn).items() if k not in dropped}
            params = {k: self._value(self.ours, v) for k, v in kept.items()}
            params |= custom_rule_names(eqn.params)
            return Eqn(list(map(self.atom, eqn.invars)), list(map(self.atom, eqn.outvars)),
                       SimpleNamespace(name=eqn.primitive.name), params)

        return self._once("eqn", eqn, build)

    def atom(self, v):
        if isinstance(v, jex.Literal):
            return Literal(v.val, our_aval(v.aval))
        return self._once("var", v, lambda v: Var(our_aval(v.aval)))


def params_of(eqn):
    """The parameters; for a scan of JAX 0.12, with the counts instead of two trees of its implementation."""
    params = dict(eqn.params)
    if "ft_in" in params:
        consts, carry, _ = map(list, params.pop("ft_in").unpack())
        params |= {"num_carry": len(carry), "num_consts": len(consts)}
        del params["ft_out"]
    return params


def our_aval(aval):
    return ShapedArray(aval.shape, aval.dtype, aval.weak_type)


def custom_rule_names(params):
    """Our custom_jvp_call and custom_vjp_call have the name and the user's functions themselves as parameters."""
    names = {}
    for ours, theirs in (("jvp", "jvp_jaxpr_fun"), ("fwd", "fwd_jaxpr_thunk"), ("bwd", "bwd")):
        if theirs in params:
            names[ours] = named(params[theirs].debug_info.func_name)
    if "jvp_jaxpr_fun" in params or "fwd_jaxpr_thunk" in params:
        names["name"] = params["call_jaxpr"].jaxpr.debug_info.func_name
    return names


def named(name):
    def function():
        pass

    function.__name__ = name
    return function


# ------------------------------------------------------------------------------------ programs

PROGRAMS = {}


def program(*args, x64=False):
    """Add a function, applied to `args`, to the table."""

    def add(f):
        assert f.__name__ not in PROGRAMS
        PROGRAMS[f.__name__] = (f, args, x64)
        return f

    return add


@program(X)
def no_output_but_equations(x):
    jnp.sin(x)


@program(X)
def same_output_twice(x):
    y = x + 1
    return y, y, x, x


@program(M)
def reshapes(m):
    return (m.reshape(2, 6), m.T, m[None], jnp.squeeze(m[:1]), jnp.concatenate([m, m], 1),
            jnp.broadcast_to(m, (2, 4, 3)))


@program(M)
def indexing(m):
    return (m[1], m[::2, 1:], m[:, [0, 2]], m[3, jnp.array([1, 0])], m.at[1].set(0.0),
            m.at[:, 1].add(2.0))


@program(M, M)
def dots(a, b):
    return (a @ b.T, lax.dot(a, b.T, precision="highest"),
            lax.dot(a, b.T, preferred_element_type=jnp.bfloat16))


@program(np.ones((1, 8, 8, 3), np.float32), np.ones((3, 3, 3, 4), np.float32))
def convolution(x, w):
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=layout)


@program(M)
def reductions(m):
    return (m.sum(), m.max(0), m.mean(1), jnp.argmax(m, 1), jnp.cumsum(m, 0), jnp.all(m > 0),
            jnp.sort(m), jnp.var(m))


@program(M)
def conversions(m):
    return (m.astype(jnp.bfloat16), m.astype(int), m > 0, lax.bitcast_convert_type(m, jnp.uint32),
            m + 1j)


@program(M)
def creation(m):
    return jnp.zeros_like(m), jnp.arange(5), jnp.full((2, 2), 7), jnp.eye(3), jnp.linspace(0, 1, 5)


@program(X)
def literals_narrow(x):
    types = (np.float16, jnp.bfloat16, np.int8, np.uint8, np.int16, np.uint16, np.uint32,
             np.complex64, np.float32)
    return [lax.convert_element_type(x, t) * np.asarray(3, t) for t in types], x.astype(bool) & True


@program(X, x64=True)
def literals_wide(x):
    types = (np.float64, np.int64, np.uint64, np.complex128)
    return [x.astype(t) * np.asarray(3, t) for t in types], x * 0.1, x.astype(int) + 2**40


@program(X)
def literals_special(x):
    return (x * 0.1, x + np.inf, x - np.nan, x * np.float32(1e-30), x * 1e20, x * -0.0,
            x > 16777216, x * (1 - 2j))


@jax.jit
def affine(x, y):
    return x * 2 + y


@jax.jit
def pair(x):
    return x + 1, x * 2


@program(X)
def jit_options(x):
    donating = jax.jit(lambda x, y: x + 1, keep_unused=True, donate_argnums=0)
    return donating(x, x), jax.jit(jnp.sin, inline=True)(x)


@program(X)
def jit_lambda_twice(x):
    f = jax.jit(lambda x: x * 3)
    return f(f(x))


@program(X)
def jit_same_name(x):
    f, g, h = (jax.jit(partial(lambda n, x: x * n, n)) for n in (1.0, 2.0, 3.0))
    return f(f(x)) + g(g(x)) + h(x)


@program(X)
def jit_named_like_a_variable(x):
    @jax.jit
    def b(x):
        return jnp.sin(x)

    @jax.jit
    def d(x):
        return b(b(x) + 1) * 2

    return d(d(x)) + b(x)


@program(X)
def jit_shared_inside_shared(x):
    inner = jax.jit(lambda x: x + 1)
    outer = jax.jit(lambda x: inner(x) * 2)
    return outer(x) + outer(x + 1)


def chain(n, x):
    for _ in range(n):
        x = jnp.sin(x)
    return x


@program(X)
def jit_large_with_constant(x):
    c = np.arange(3, dtype=np.float32)
    return jax.jit(lambda x: chain(12, x * c))(x) + c


@program(X)
def jit_and_scan_large(x):
    @jax.jit
    def body(x):
        return lax.scan(lambda c, _: (chain(12, c), None), x, None, length=4)[0]

    return body(x)


@program(M, M)
def layer_gradient(w, x):
    def loss(w):
        return jnp.mean(jax.nn.log_softmax(jax.nn.gelu(x @ w.T)) ** 2)

    return jax.value_and_grad(loss)(w)


@program(N, X)
def switch(i, x):
    return lax.switch(i, [lambda x: x, jnp.cos, lambda x: chain(3, x), lambda x: chain(11, x)], x)


@program(X, M)
def scanned_gradient(x, m):
    return jax.grad(lambda x: lax.scan(lambda c, t: (jnp.sin(c) * t, None), x, m)[0].sum())(x)


@jax.custom_jvp
def soft(x):
    return jnp.log1p(jnp.exp(x))


@soft.defjvp
def soft_rule(primals, tangents):
    return soft(*primals), tangents[0] * jax.nn.sigmoid(*primals)


@jax.custom_vjp
def clipped(x, y):
    return x * y


def clipped_fwd(x, y):
    return clipped(x, y), (x, y)


def clipped_bwd(res, ct):
    return ct * res[1], ct.clip(-1, 1)


clipped.defvjp(clipped_fwd, clipped_bwd)


@program(X)
def custom_jvp_inside(x):
    return jax.jit(lambda x: soft(soft(x)))(x) + soft(x), jax.grad(lambda x: soft(x).sum())(x)


@program(X)
def custom_jvp_large(x):
    f = jax.custom_jvp(partial(chain, 11))
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return f(x)


@program(X)
def activations(x):
    nn = jax.nn
    return [f(x) for f in (nn.relu, nn.gelu, nn.silu, nn.elu, nn.softplus, nn.relu6)]


@program(X)
def rematerialised(x):
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())
    return jax.grad(f)(x)


@program(X)
def rematerialised_with_policy(x):
    policy = jax.checkpoint_policies.everything_saveable
    return jax.checkpoint(lambda x: jnp.sin(x).sum(), policy=policy)(x)


@program(M[:1])
def parallel(m):
    return jax.pmap(lambda x: lax.psum(jnp.sin(x), "i") / lax.axis_index("i"), axis_name="i")(m)


@program(M)
def named_axis(m):
    return jax.vmap(lambda x: lax.psum(x, "i") + lax.all_gather(x, "i").sum(), axis_name="i")(m)


@program(np.ones((0, 2), np.float32), np.array(True), np.zeros(2, np.complex64),
         np.zeros(1, jnp.float8_e4m3fn))
def odd_types(empty, flag, z, tiny):
    return empty.sum(0), ~flag, z.real, tiny.astype(jnp.float16)


@program(X)
def a_function_with_a_rather_long_name_that_makes_lines_break(x):
    @jax.jit
    def an_inner_function_whose_name_alone_takes_up_about_eighty_columns_of_the_line(x):
        return jnp.sin(x)

    return an_inner_function_whose_name_alone_takes_up_about_eighty_columns_of_the_line(x)


ONE_LINERS = {
    "identity": (lambda x: x, X),
    "literal_output": (lambda: 3,),
    "no_output": (lambda x: (), X),
    "arithmetic": (lambda x, y: x * 2.0 + y / x - jnp.exp(-y) ** 2, X, X),
    "one_line": (jnp.sin, X),
    "several_outputs": (lambda x: (x, x + 1, {"a": x * 2, "b": (x, 3.0)}), X),
    "constant": (lambda x: x + np.arange(3.0, dtype=np.float32), X),
    "several_constants": (
        lambda x, y: (x + np.arange(3), y * np.ones((2, 3), np.float32), x * np.float32(2)),
        X, X),
    "long_params": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "SAME"), X),
    "dynamic_indexing": (
        lambda m, i: (m[i], lax.dynamic_update_slice(m, m[:1], (i, 0)), jnp.take(m, i, axis=1)),
        M, N),
    "batched_dot": (
        lambda a, b: (jnp.einsum("bij,bjk->bik", a, b), jnp.einsum("bij,bjk->", a, b)),
        np.ones((2, 4, 3), np.float32), np.ones((2, 3, 5), np.float32)),
    "where_literals": (lambda x: jnp.where(x > 0, x, 0) + jnp.where(x > 1, x, 1.0), X),
    "jit_once": (lambda x: affine(x, x) + 1, X),
    "jit_twice": (lambda x, y: affine(affine(x, y), y), X, X),
    "jit_with_literal": (lambda x: (affine(x, 1.0), affine(2.0, x)), X),
    "jit_nested": (lambda x: jax.jit(lambda y: jax.jit(lambda z: jnp.sin(z) * y)(y + 1))(x), X),
    "jit_forwards_input": (lambda x: jax.jit(lambda y: (y, jnp.sin(y), y))(x), X),
    "jit_unused_output": (lambda x: pair(x)[0], X),
    "jit_unused_output_inside": (lambda x: jax.jit(lambda y: pair(y)[1])(x), X),
    "jit_of_ten_equations": (lambda x: jax.jit(partial(chain, 10))(x), X),
    "jit_of_eleven_equations": (lambda x: jax.jit(partial(chain, 11))(x), X),
    "scan_with_large_body": (
        lambda x: lax.scan(lambda c, _: (chain(12, c), c), x, None, length=4),
        X),
    "loss_grad": (lambda x: jax.grad(lambda x: (jnp.tanh(x) ** 2).sum())(x), X),
    "mapped": (lambda m: jax.vmap(lambda x: jnp.dot(x, x) + x[0])(m), M),
    "mapped_gradient": (lambda m: jax.vmap(jax.grad(lambda x: jax.nn.relu(x).sum()))(m), M),
    "hessian": (lambda x: jax.hessian(lambda x: jnp.prod(jnp.sin(x)))(x), X),
    "branches": (lambda p, x: lax.cond(p > 0, jnp.sin, lambda x: x * 2, x), S, X),
    "branches_of_jit": (
        lambda i, x: lax.switch(i, [lambda x: affine(x, x), lambda x: affine(x, x) + 1], x),
        N, X),
    "empty_branch": (lambda p: lax.cond(p > 0, lambda: 1.0, lambda: 2.0), S),
    "loop": (lambda x: lax.while_loop(lambda x: x < 10, lambda x: x + 1, x), S),
    "loop_with_constants": (
        lambda s, x: lax.while_loop(lambda c: c[0] < s, lambda c: (c[0] + 1, c[1] * x), (0.0, x)),
        S, X),
    "counted": (lambda x: lax.fori_loop(0, 10, lambda i, x: x * i, x), X),
    "scanned": (lambda x, m: lax.scan(lambda c, t: (c + t, pair(t)[0]), x, m), X, M),
    "scanned_reverse": (
        lambda x, m: lax.scan(lambda c, t: (c * t, c), x, m, reverse=True, unroll=2),
        X, M),
    "custom_jvp": (soft, X),
    "custom_vjp": (lambda x: clipped(x, x + 1), X),
    "custom_vjp_gradient": (lambda x: jax.grad(lambda x: clipped(x, x).sum())(x), X),
    "custom_vjp_forward_kept": (lambda x: jax.linearize(clipped, x, x)[1](x, x), X),
    "parallel_gradient": (
        lambda m: jax.pmap(jax.grad(lambda x: lax.pmean(x * x, "i").sum()), axis_name="i")(m),
        M[:1]),
    "forty_inputs": (lambda *xs: xs, *[X] * 40),
    "forty_operands": (
        lambda *xs: (jnp.concatenate(xs), jax.jit(lambda *xs: xs[::-1])(*xs)),
        *[M] * 30),
    "many_outputs": (lambda x: [x * float(i) for i in range(60)], X),
    "names_of_two_letters": (lambda x: chain(40, x), X),
    "names_of_three_letters": (lambda x: chain(720, x), X),
    "float0": (
        lambda x, i: jax.jvp(lambda x, i: x * i, (x, i), (x, np.zeros((), jax.dtypes.float0))),
        X, N),
    "linear_algebra": (lambda m: (jnp.linalg.svd(m), jnp.linalg.solve(m.T @ m, m.T)), M),
    "fourier": (lambda m: (jnp.fft.fft2(m), jnp.fft.irfft(jnp.fft.rfft(m))), M),
    "random_bits": (
        lambda key: jax.extend.random.threefry_2x32(key, jnp.arange(10, dtype=jnp.uint32)),
        np.array([0, 7], np.uint32)),
}
PROGRAMS.update((name, (f, args, False)) for name, (f, *args) in ONE_LINERS.items())


# ------------------------------------------------------------------------------------ tests


def traced(name):
    f, args, x64 = PROGRAMS[name]
    with jax.enable_x64(x64):
        return jax.make_jaxpr(f)(*args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_text(name):
    closed, rebuild = traced(name), Rebuild()
    expected = str(rebuild.bare(closed.jaxpr))
    assert format_jaxpr(rebuild.ours(closed.jaxpr)) == expected
    assert str(ClosedJaxpr(rebuild.ours(closed.jaxpr), closed.consts)) == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_text_of_equations(name):
    closed, rebuild = traced(name), Rebuild()
    for eqn in closed.eqns[:30]:
        expected = str(rebuild.bare_eqn(eqn))
        assert format_eqn(rebuild.our_eqn(eqn)) == expected
        assert str(rebuild.our_eqn(eqn)) == expected


# ------------------------------------------------------------------------------------ pretty_print

def nested(lib, x):
    double = lib.jit(lambda y: y * 2)
    y = lib.lax.sin(x)
    return double(double(y)) + lib.lax.dot_general(
        x, y, (((0,), (0,)), ((), ())))


def with_a_constant(lib, x):
    return lib.jit(lambda y: y + 1)(x * np.arange(3, dtype=np.float32))


@pytest.mark.parametrize("f", [nested, with_a_constant])
@pytest.mark.parametrize("options", [
    {}, {"source_info": True}, {"print_shapes": False}, {"width": 40}, {"width": 200}, {"print_effects": True},
    {"use_color": False}, {"source_info": True, "annotation_prefix": " // ", "width": 50, "print_shapes": False}],
    ids=str)
def test_pretty_print_as_jax(f, options):
    ours, theirs = (lib.make_jaxpr(partial(f, lib))(X) for lib in (xjax, jax))
    assert ours.pretty_print(**options) == theirs.pretty_print(**options)
    assert ours.jaxpr.pretty_print(**options) == theirs.jaxpr.pretty_print(**options)


def test_pretty_print_of_all_parameters():
    program = xjax.make_jaxpr(partial(nested, xjax))(X)
    assert "precision=None" in program.pretty_print(custom_pp_eqn_rules=False)
    assert "precision" not in program.pretty_print()
    printing = xjax.make_jaxpr(lambda x: xjax.debug.print("{}", x))(1.0)
    assert printing.pretty_print(print_effects=True).endswith(": { debug } }")
    assert_refused(lambda: program.pretty_print(use_color=True), NotImplementedError, "pretty_print")


def scoped(lib, x):
    with lib.named_scope("outer"), lib.named_scope("in/ner"):
        x = lib.lax.sin(x)
    return lib.named_call(lib.jit(lib.lax.cos), name="called")(x) + lib.lax.integer_pow(x, 3)


def test_named_scopes_as_jax():
    ours, theirs = (lib.make_jaxpr(partial(scoped, lib))(1.0) for lib in (xjax, jax))
    assert ours.pretty_print(name_stack=True) == theirs.pretty_print(name_stack=True)
    scopes = [[str(eqn.source_info.name_stack) for eqn in program.eqns] for program in (ours, theirs)]
    assert scopes[0] == scopes[1] == ["outer/in/ner", "called", "", ""]


def test_named_scopes_are_in_compiled_programs():
    def f(x):
        with xjax.named_scope("loop"):
            return xjax.lax.fori_loop(0, 3, lambda i, y: xjax.lax.sin(y), x)

    lowered = xjax.jit(f).lower(1.0)
    assert "loop" not in lowered.as_text() and 'loc("loop/' in lowered.as_text(debug_info=True)
    assert 'op_name="loop/' in lowered.compile().as_text()
    with xjax.named_scope('a "quoted" scope'):
        assert float(xjax.jit(lambda x: xjax.named_call(xjax.lax.neg, name='"')(x))(1.0)) == -1.0


# ------------------------------------------------------------------------------------ constants

CONSTANTS = {
    "array": lambda lib, a, b: lambda x: x * a + a,
    "NumPy array": lambda lib, a, b: lambda x: x * X + X,
    "NumPy scalar": lambda lib, a, b: lambda x: x * S + np.array(2, np.float32),
    "array of rank 0": lambda lib, a, b: lambda x: x * a[0] + a[0],
    "jit": lambda lib, a, b: lib.jit(lambda x: x * a),
    "jit, read twice": lambda lib, a, b: lambda x: lib.jit(lambda x: x * a + a)(x) + 1.0,
    "jit, two": lambda lib, a, b: lib.jit(lambda x: x * a + b),
    "jit, NumPy": lambda lib, a, b: lambda x: lib.jit(lambda x: x * X)(x) + X,
    "jit, scalars": lambda lib, a, b: lib.jit(lambda x: x * S + np.array(2, np.float32) + a[0]),
    "jit, read outside too": lambda lib, a, b: lambda x: lib.jit(lambda x: x * a)(x) + a,
    "jit, called twice": lambda lib, a, b: (lambda f: lambda x: f(f(x)))(lib.jit(lambda x: x * a)),
    "jit, one array in two": lambda lib, a, b: lambda x: lib.jit(lambda x: x * a)(x) + lib.jit(lambda x: x + a)(x),
    "jit in jit": lambda lib, a, b: lib.jit(lambda x: lib.jit(lambda x: x + a)(x) * a),
    "jit in jit, read inside": lambda lib, a, b: lib.jit(lambda x: lib.jit(lambda x: x + a)(x) * b),
    "jit, an argument": lambda lib, a, b: lambda x: lib.jit(lambda a, x: x * a)(a, x),
    "jit, returned": lambda lib, a, b: lambda x: lib.jit(lambda: a)(),
    "returned": lambda lib, a, b: lambda x: (a, a, x),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_stand_where_jax_has_them(name):
    programs = [lib.make_jaxpr(CONSTANTS[name](lib, lib.numpy.arange(3.0), lib.numpy.ones(3)))(X)
                for lib in (xjax, jax)]
    assert str(programs[0]) == str(programs[1])
    ours, theirs = ([np.asarray(x).tolist() for x in program.consts] for program in programs)
    assert ours == theirs


def test_a_program_with_constants_inside_is_run():
    a = xjax.numpy.arange(3.0)
    program = xjax.make_jaxpr(CONSTANTS["jit in jit"](xjax, a, a))(X)
    for run in (program, xjax.jit(program), lambda x: xjax.vmap(program)(x[None]),
                lambda x: xjax.jvp(program, (x,), (x,))[0]):
        np.testing.assert_array_equal(np.ravel(run(X)[0]), (X + np.arange(3)) * np.arange(3))
