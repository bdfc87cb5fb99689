"""The extension surface of JAX: each program runs with xjax as jax and on the real JAX, and prints the same."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.compat.test_install import output
from tests.oracle import real_jax
from tests.sampling import one_in

# Names that a program may use without an import.
START = """
import jax, jax.numpy as jnp, numpy as np
import jax.core, jax.api_util, jax.extend.core as jex_core
from jax.extend import linear_util as lu
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, partial_eval as pe

def show(*xs):
    print(*[np.asarray(x).tolist() if hasattr(x, "shape") else x for x in xs])
"""

SCALE = """
scale_p = Primitive("scale")
scale_p.def_impl(lambda x, *, by: x * by)
scale_p.def_abstract_eval(lambda x, *, by: jax.core.ShapedArray(x.shape, x.dtype))
mlir.register_lowering(scale_p, mlir.lower_fun(lambda x, *, by: x * by, multiple_results=False))
batching.primitive_batchers[scale_p] = lambda args, dims, *, by: (scale_p.bind(*args, by=by), dims[0])

def scale_jvp(primals, tangents, *, by):
    (x,), (dx,) = primals, tangents
    return scale_p.bind(x, by=by), scale_p.bind(ad.instantiate_zeros(dx), by=by)

ad.primitive_jvps[scale_p] = scale_jvp
ad.primitive_transposes[scale_p] = lambda ct, x, *, by: [scale_p.bind(ct, by=by)]
scale = lambda x: scale_p.bind(x, by=3.0)
x = jnp.arange(6.0).reshape(2, 3)
"""

PROGRAMS = {
    "a primitive under all transforms": SCALE + """
show(scale(x), jax.jit(scale)(x), jax.vmap(scale, 1)(x), jax.grad(lambda x: scale(x).sum())(x))
show(*jax.jvp(scale, (x,), (x + 1,)), jax.jit(jax.hessian(lambda x: (scale(x) ** 2).sum()))(x[0]))
show(jax.lax.scan(lambda c, r: (scale(c) + r, c), jnp.zeros(3), x)[0])
show(jax.make_jaxpr(scale)(x).eqns[0].primitive.name, jax.eval_shape(scale, x).shape)
show(scale_p in ad.primitive_jvps, jex_core.primitives.sin_p in ad.primitive_jvps)
""",
    "several results": """
both_p = Primitive("both")
both_p.multiple_results = True
both_p.def_impl(lambda x, y: [x + y, x * y])
both_p.def_abstract_eval(lambda x, y: [x, y])
mlir.register_lowering(both_p, mlir.lower_fun(lambda x, y: [x + y, x * y], multiple_results=True))

def both_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, map(ad.instantiate_zeros, tangents)
    return both_p.bind(x, y), [dx + dy, dx * y + x * dy]

ad.primitive_jvps[both_p] = both_jvp
batching.primitive_batchers[both_p] = lambda args, dims: (
    both_p.bind(*[batching.bdim_at_front(x, d, 3) for x, d in zip(args, dims)]), [0, 0])
f = lambda x, y: sum(both_p.bind(x, y))
x = jnp.arange(3.0)
show(*both_p.bind(x, x), jax.jit(f)(x, x + 1), jax.grad(lambda x: f(x, x).sum())(x), jax.vmap(f, (0, None))(x, 2.0))
""",
    "helpers of rules": """
mine_p = Primitive("mine")
mine_p.def_impl(lambda x, y: jnp.multiply(x, y))
mine_p.def_abstract_eval(lambda x, y: x)
mlir.register_lowering(mine_p, mlir.lower_fun(jnp.multiply, multiple_results=False))
ad.defbilinear(mine_p, lambda ct, x, y: mine_p.bind(ct, y), lambda ct, x, y: mine_p.bind(x, ct))
batching.defbroadcasting(mine_p)
x = jnp.arange(1.0, 4.0)
show(*jax.grad(lambda x, y: mine_p.bind(x, y).sum(), (0, 1))(x, x + 1), jax.vmap(mine_p.bind)(x, x))
sine_p = Primitive("sine")
sine_p.def_impl(jnp.sin)
sine_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(sine_p, mlir.lower_fun(jnp.sin, multiple_results=False))
ad.defjvp(sine_p, lambda dx, x: dx * jnp.cos(x))
batching.defvectorized(sine_p)
show(jnp.round(jax.vmap(jax.grad(sine_p.bind))(x), 4))
line_p = Primitive("line")
line_p.def_impl(lambda x: x + x)
line_p.def_abstract_eval(lambda x: x)
ad.deflinear(line_p, lambda ct: [line_p.bind(ct)])
show(jax.grad(lambda x: line_p.bind(x).sum())(x), *jax.jvp(line_p.bind, (x,), (x,)))
""",
    "missing rules": """
bare_p = Primitive("bare")
bare_p.def_abstract_eval(lambda x: x)
f = lambda x: bare_p.bind(x)
for call in (lambda: f(1.0), lambda: jax.jit(f)(1.0), lambda: jax.grad(f)(1.0), lambda: jax.vmap(f)(jnp.ones(3))):
    try:
        call()
    except NotImplementedError as error:
        print("bare" in str(error))
""",
    "a rule by MLIR builders": """
try:
    from jaxlib.mlir.dialects import stablehlo as hlo
except ImportError:
    from jax._src.lib.mlir.dialects import hlo
cube_p = Primitive("cube")
cube_p.def_abstract_eval(lambda x: x)
cube_p.def_impl(lambda x: jax.jit(cube_p.bind)(x))

def cube_lowering(ctx, x):
    two = mlir.ir_constant(np.full(ctx.avals_in[0].shape, 2, np.float32))
    return [hlo.AddOp(hlo.MulOp(hlo.MulOp(x, x).result, x).result, two).result]

mlir.register_lowering(cube_p, cube_lowering)
x = jnp.arange(3.0)
show(cube_p.bind(x), jax.jit(lambda x: cube_p.bind(x) + cube_p.bind(x + 1))(x))
""",
    "an interpreter": """
def evaluate(jaxpr, consts, *args):
    env = {}
    read = lambda v: v.val if isinstance(v, jex_core.Literal) else env[v]
    env.update(zip(jaxpr.invars, args))
    env.update(zip(jaxpr.constvars, consts))
    for eqn in jaxpr.eqns:
        out = eqn.primitive.bind(*map(read, eqn.invars), **eqn.primitive.get_bind_params(eqn.params))
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return [read(v) for v in jaxpr.outvars]

f = lambda x: jnp.sum(jax.nn.relu(jnp.tanh(x)) * jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x))
closed = jax.make_jaxpr(f)(jnp.arange(3.0))
show(jnp.allclose(evaluate(closed.jaxpr, closed.consts, jnp.ones(3))[0], f(jnp.ones(3))))
show(jnp.allclose(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, jnp.ones(3))[0], f(jnp.ones(3))))
show(jnp.allclose(jex_core.jaxpr_as_fun(closed)(jnp.ones(3))[0], f(jnp.ones(3))))
show(isinstance(closed, jex_core.ClosedJaxpr), isinstance(closed.jaxpr, jex_core.Jaxpr))
show(isinstance(closed.jaxpr.eqns[0], jex_core.JaxprEqn), isinstance(closed.jaxpr.invars[0], jex_core.Var))
v = closed.jaxpr.invars[0]
same = jex_core.Jaxpr([], [v], [v], [], debug_info=closed.jaxpr.debug_info)
show(jax.core.eval_jaxpr(same, [], jnp.ones(2))[0])
""",
    "functions and their transformations": """
@lu.transformation
def doubled(*args):
    out = yield args, {}
    yield [2 * y for y in out]

@lu.transformation_with_aux
def counted(*args, **kwargs):
    out = yield args, kwargs
    yield out, len(out)

info = jax.api_util.debug_info("test", lambda d, k: d, ({"a": 1.0},), {"k": 2.0})
wrapped = lu.wrap_init(lambda d, k: (d["a"] + k, d), debug_info=info)
leaves, tree = jax.tree.flatten((({"a": 1.0},), {"k": 2.0}))
flat, out_tree = jax.api_util.flatten_fun(wrapped, tree)
flat, count = counted(doubled(flat))
show(*flat.call_wrapped(*leaves), count(), str(out_tree()).replace("PyTreeDef", ""))
show(jax.api_util.safe_map(lambda x, y: x + y, [1, 2], [3, 4]))
""",
    "tracing with known values": """
wrap = lambda f: lu.wrap_init(f, debug_info=jax.api_util.debug_info("test", f, (0.0, 0.0), {}))
aval = jax.core.ShapedArray((3,), np.dtype("float32"))
known, unknown = pe.PartialVal.known(jnp.ones(3)), pe.PartialVal.unknown(aval)
program, outs, consts = pe.trace_to_jaxpr_nounits(wrap(lambda x, y: [x * 2, x + y]), [known, unknown])
show(*[out.is_known() for out in outs], outs[0].get_known(), outs[1].get_aval().shape)
program, avals, consts = pe.trace_to_jaxpr_dynamic(wrap(lambda x, y: [jnp.sin(x), y * 2]), [aval, aval])
program, used = pe.dce_jaxpr(program, [False, True])
show(used, len(program.eqns), [a.shape for a in avals], jax.core.eval_jaxpr(program, consts, jnp.ones(3))[0])
kinds = lambda x, y: [y] if show(*[isinstance(z, pe.JaxprTracer) for z in (x, y)]) is None else [x]
pe.trace_to_jaxpr_nounits(wrap(kinds), [known, unknown])
""",
    "types, symbolic zeros and traces of values": """
aval, number = jax.typeof(jnp.ones((2, 3))), jax.typeof(1.0)
show(*[str(aval.sharding.spec), aval.sharding.mesh.empty, aval.sharding.update(spec=aval.sharding.spec[1:]).spec[0]])
row = jax.core.ShapedArray(shape=(3,), dtype=aval.dtype, sharding=aval.sharding.update(spec=aval.sharding.spec[1:]))
show(row.shape, aval.update(shape=(4,), weak_type=True).weak_type, number.strip_weak_type().weak_type)
show(aval.to_tangent_aval() == aval, jax.typeof(1).to_tangent_aval().dtype == jax.dtypes.float0)
show(aval.str_short(short_dtypes=True), ad.Zero(aval).instantiate(), ad.Zero(number).instantiate().weak_type)
show(jax.custom_derivatives.SymbolicZero.from_primal_value(jnp.ones(2)).shape)
show(jax.jit(lambda x: x + 1).lower(1.0).compiler_ir(dialect="hlo").as_hlo_text().startswith("HloModule"))
show(jax.jit(lambda x: x + 1)._cache_size())

def check(x):
    with jex_core.take_current_trace() as trace:
        show(x._trace is trace, isinstance(x._trace, jax.core.Trace))
    return x * 2.0

jax.jit(check)(1.0), jax.grad(check)(1.0), jax.vmap(check)(jnp.ones(2)), jax.jvp(check, (1.0,), (1.0,))
""",
    "an interpreter as a trace": """
class Counter(jax.core.Trace):
    def __init__(self, parent):
        super().__init__()
        self.parent, self.tag, self.names = parent, jex_core.TraceTag(), []

    def process_primitive(self, primitive, tracers, params):
        values = [t.value if isinstance(t, Counted) else t for t in tracers]
        self.names.append(primitive.name)
        out = primitive.bind_with_trace(self.parent, values, [jax.typeof(v) for v in values], params)
        return [Counted(self, y) for y in out] if primitive.multiple_results else Counted(self, out)

class Counted(jax.core.Tracer):
    def __init__(self, trace, value):
        super().__init__(trace, jax.typeof(value))
        self.value = value

x = jnp.ones(2)
with jex_core.take_current_trace() as parent:
    trace = Counter(parent)
    with jex_core.set_current_trace(trace):
        out = jax.lax.neg(jax.lax.sin(Counted(trace, x)))
show(trace.names, out.value.shape, isinstance(out, jax.core.Tracer), isinstance(1.0, jax.core.Tracer))
states = []
state = jex_core.get_opaque_trace_state
jax.jit(lambda x: states.append(state()) or x)(1.0)
show(state() == state(), states[0] == state())
""",
    "stax and optimizers": """
from jax.example_libraries import optimizers, stax
from jax.example_libraries.stax import Dense, Relu, randn
init, apply = stax.serial(Dense(8), Relu, Dense(2), stax.LogSoftmax)
shape, params = init(jax.random.key(0), (-1, 3))
x, y = np.ones((4, 3), np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]
loss = lambda params: -(apply(params, x) * y).sum(1).mean()
opt_init, update, get = optimizers.adam(optimizers.exponential_decay(0.01, 10, 0.5))
step = jax.jit(lambda i, state: update(i, jax.grad(loss)(get(state)), state))
state = opt_init(params)
for i in range(5):
    state = step(i, state)
show(shape, np.round(loss(params), 4), np.round(loss(get(state)), 4))
""",
    "generators": """
import jax.extend.random as jer
key = jax.random.key(3)
for impl in (jer.threefry_prng_impl, jer.rbg_prng_impl, jer.unsafe_rbg_prng_impl):
    keys = jer.random_seed(np.arange(3), impl)
    show(impl.name, impl.tag, impl.key_shape, jax.random.key_data(keys), jax.random.bits(jer.seed_with_impl(impl, 5)))
words = jax.random.key_data(key)
impl = jer.threefry_prng_impl
show(impl.seed(np.int32(7)), impl.fold_in(words, jnp.uint32(2)))
show(impl.split(words, (2,)), impl.random_bits(words, 32, (3,)))
show(jer.threefry_2x32((words[0], words[1]), np.arange(5, dtype=np.uint32)))
show(jer.threefry_2x32((words[0], words[1]), np.arange(6, dtype=np.uint32).reshape(2, 3)))

def draw(words, width, shape):
    return (words[0] + jnp.arange(np.prod(shape), dtype=np.uint32)).reshape(shape).astype(f"uint{width}")

mine = jer.define_prng_impl(
    key_shape=(1,), seed=lambda x: jnp.asarray(x).astype(np.uint32)[None], random_bits=draw, name="mine", tag="m",
    split=lambda words, shape: draw(words, 32, shape)[..., None] * 3, fold_in=lambda words, x: words ^ jnp.uint32(x))
k = jax.random.key(7, impl=mine)
show(jax.random.key_data(k), jax.random.bits(k, (3,)), jax.random.key_data(jax.random.split(k)))
show(jax.jit(jax.random.bits)(jax.random.fold_in(k, 2)), jax.random.uniform(k, (2,)))
show(jax.vmap(jax.random.bits)(jax.random.split(k, 3)), jax.random.key_data(jax.random.key(np.int32(4), impl=mine)))
""",
    "what libraries recognize": """
import jax._src.xla_bridge as bridge
print(type(jax.jit(abs)).__name__, list(bridge._backends))
jnp.ones(3)
print(list(bridge._backends))
for name in ("tpu", "coffee"):
    try:
        jax.devices(name)
    except RuntimeError as error:
        print("Unknown backend" in str(error))
""",
    "backends": """
import jax.extend.backend as jeb
client = jeb.get_backend()
show(client.platform, jeb.get_backend("cpu") is client, jeb.get_backend(client) is client, list(jeb.backends())[-1:])
show(jeb.get_default_device() == jax.devices()[0], len(client.devices()) == jax.device_count())
jax.jit(lambda x: x + 1)(1.0)
jeb.clear_in_memory_compilation_cache()
cleared = []
class Cache:
    def cache_clear(self): cleared.append(1)
jeb.register_backend_cache(Cache(), "mine")
show(jax.jit(lambda x: x + 1)(1.0))
""",
    "flags of the command line": """
import importlib.util, sys
sys.argv = ["p", "--jax_enable_x64", "--other", "--jax_default_matmul_precision=float32", "--", "--jax_debug_nans"]
if importlib.util.find_spec("absl"):
    jax.config.parse_flags_with_absl()
    jax.config.parse_flags_with_absl()
    show(jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision, jax.config.jax_debug_nans)
show("end")
""",
    "flags of app.run": """
import importlib.util
if importlib.util.find_spec("absl"):
    from absl import app
    jax.config.config_with_absl()
    argv = ["program", "a", "--nojax_debug_infs", "--jax_enable_x64=true"]
    try:
        app.run(lambda rest: show(rest, jax.config.jax_debug_infs, jax.config.jax_enable_x64), argv)
    except SystemExit:
        pass
show("end")
""",
    "objects that hold an array": """
class Variable:
    def __init__(self, value): self.value = value
    def __jax_array__(self): return self.value
    def __getattr__(self, name): return getattr(self.value, name)

def f(x):
    v = Variable(x)
    rows = jnp.concatenate([jnp.reshape(v, (1, -1)), jnp.stack([v, v]).reshape(2, -1)])
    return (jnp.ones((2, 2)) @ jnp.asarray(v)).sum() + (rows * jnp.einsum("ij,jk", v, v).ravel()).sum() + jnp.var(v)

x = jnp.arange(4.0).reshape(2, 2)
show(f(x), jax.grad(f)(x), jax.jit(jax.grad(f))(x), jax.vmap(f)(x[None]))
show(jax.grad(lambda x: (jnp.ones(2) * jnp.array([Variable(x)])).sum())(2.0))
""",
    "nodes that recognize placeholders": """
class Node:                         # numbers are static, except for placeholders of type `object`
    def __init__(self, **fields): self.fields = fields

def flatten(node):
    names, values = list(node.fields), list(node.fields.values())
    dynamic = [hasattr(x, "shape") or type(x) is object for x in values]
    static = tuple(None if d else x for x, d in zip(values, dynamic))
    return [x if d else None for x, d in zip(values, dynamic)], (tuple(names), static, tuple(dynamic))

def unflatten(aux, children):
    names, static, dynamic = aux
    return Node(**{n: c if d else s for n, s, d, c in zip(names, static, dynamic, children)})

jax.tree_util.register_pytree_node(Node, flatten, unflatten)
node = Node(x=jnp.arange(3.0), n=2)
f = lambda node: Node(x=node.fields["x"] * node.fields["n"], n=3)
show(jax.vmap(f)(node).fields["x"], jax.jit(f)(node).fields["x"], jax.eval_shape(f, node).fields["x"].shape)
g = lambda node: (node.fields["x"] * node.fields["n"]).sum()
show(jax.grad(g)(node).fields["x"], jax.vmap(g, in_axes=(0,))(node))
show(jax.lax.scan(lambda c, _: (Node(x=c.fields["x"] + 1, n=2), c.fields["x"]), node, None, length=2)[1])
show(len(jax.make_jaxpr(jax.jit(f))(node).jaxpr.invars))
""",
    "shapes of other libraries, attributes of operations, static arguments": """
class Shape:
    def __init__(self, *sizes): self.sizes = sizes
    def __iter__(self): return iter(self.sizes)
    def __len__(self): return len(self.sizes)

show(jax.random.normal(jax.random.key(0), Shape(2, 3)).shape, jex_core.primitives.sin_p.call_primitive)
f = jax.jit(lambda a, b: show(type(b) is int) or a, static_argnums=(), static_argnames=("b",))
f(1.0, b=2), f(1.0, 2)
with jax.checking_leaks():
    show(jax.eval_shape(lambda x: jnp.sin(x), 1.0).shape)
""",
    "products of two formats of 8 bits": """
x = jnp.asarray([[1.0, 2, 3], [4, 5, 6]], jnp.float8_e5m2)
y = jnp.asarray([[1.0, 2], [3, 4], [0.5, 6]], jnp.float8_e4m3fn)
for dtype in (jnp.float32, jnp.bfloat16):
    f = lambda x, y: jax.lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=dtype)
    show(f(x, y), jax.jit(f)(x, y), jax.vmap(f)(x[None], y[None]), f(x, y).dtype)
show(jax.jit(lambda x: jax.lax.transpose(x, tuple(np.argsort([1, 0]))))(jnp.ones((2, 3))).shape)
""",
    "errors of prefixes": """
from jax._src.tree_util import prefix_errors
(error,) = prefix_errors({"x": 1, "y": [2]}, {"x": [1], "y": 2})
show("in_axes['y']" in str(error("in_axes")), type(error("axes")), prefix_errors(1, [2]))
""",
}


def on_real_jax(program):
    real_jax()
    process = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("name", one_in(3, PROGRAMS))
def test_same_as_on_the_real_jax(name):
    program = textwrap.dedent(START + PROGRAMS[name])
    want = on_real_jax(program)
    assert want.strip() and output(code="import xjax\nxjax.install_as_jax()\n" + program) == want
