"""Mistakes with compiled functions, control flow, mapped functions and devices."""

from tests.gallery.mistake import Mistake

COMPILED = (
    Mistake("`if` of a traced value", """\
`jit` traces the function with types, without values. The branch would depend on a value. Mark the argument as
static if it has few values.""", """\
@xjax.jit
def leaky(x):
    if x > 0:
        return x
    return 0.1 * x

leaky(-1.0)
""", """\
@xjax.jit
def leaky(x):
    return jnp.where(x > 0, x, 0.1 * x)

print(leaky(-1.0))
"""),
    Mistake("A Python loop over a traced number", """\
A loop of Python is unrolled while tracing, so it needs the number of steps.""", """\
@xjax.jit
def power(x, n):
    result = 1.0
    for _ in range(n):
        result = result * x
    return result

power(2.0, 3)
""", """\
@xjax.jit
def power(x, n):
    return lax.fori_loop(0, n, lambda i, result: result * x, 1.0)

print(power(2.0, 3))
"""),
    Mistake("`int` or `float` of a traced value", """\
Dtypes are converted by `astype`, which is an operation of the program.""", """\
@xjax.jit
def bucket(x):
    return int(x / 10)

bucket(25.0)
""", """\
@xjax.jit
def bucket(x):
    return (x / 10).astype("int32")

print(bucket(25.0))
"""),
    Mistake("A function of NumPy in a compiled function", "NumPy computes now, but the values are known later.", """\
@xjax.jit
def wave(x):
    return np.sin(x)

wave(0.0)
""", """\
@xjax.jit
def wave(x):
    return jnp.sin(x)

print(wave(0.0))
"""),
    Mistake("A boolean mask in a compiled function", """\
The number of True elements, and so the shape, would depend on values.""", """\
@xjax.jit
def total(x):
    return x[x > 0].sum()

total(jnp.array([1.0, -2.0, 3.0]))
""", """\
@xjax.jit
def total(x):
    return jnp.where(x > 0, x, 0).sum()

print(total(jnp.array([1.0, -2.0, 3.0])))
"""),
    Mistake("A shape from a traced number", "Shapes are part of the program: each size is a program of its own.", """\
@xjax.jit
def positions(n):
    return jnp.arange(n)

positions(3)
""", """\
from functools import partial

@partial(xjax.jit, static_argnames="n")
def positions(n):
    return jnp.arange(n)

print(positions(3))
"""),
    Mistake("A traced value that is kept", """\
The list has the tracer after the function has ended. Return such values. `xjax.checking_leaks()` names the
holder.""", """\
history = []

@xjax.jit
def step(x):
    history.append(x * 2)
    return x + 1

step(1.0)
print(history[0] + 1)
""", """\
history = []

@xjax.jit
def step(x):
    return x + 1, x * 2

x, value = step(1.0)
history.append(value)
print(history[0] + 1)
"""),
    Mistake("A side effect in a compiled function", """\
Python runs once, while tracing, so `print` shows a tracer, and only at the first call. `debug.print` belongs to
the program.""", """\
@xjax.jit
def step(x):
    print("x is", x)
    return x + 1

step(1.0)
step(2.0)
""", """\
@xjax.jit
def step(x):
    xjax.debug.print("x is {}", x)
    return x + 1

step(1.0)
step(2.0)
xjax.effects_barrier()
"""),
    Mistake("A static argument that cannot be hashed", "Programs are looked up by their static arguments.", """\
reshape = xjax.jit(lambda x, shape: x.reshape(shape), static_argnums=1)
reshape(jnp.ones(6), [2, 3])
""", """\
reshape = xjax.jit(lambda x, shape: x.reshape(shape), static_argnums=1)
print(reshape(jnp.ones(6), (2, 3)).shape)
"""),
    Mistake("A string as an argument", "Arguments are arrays, unless they are static.", """\
@xjax.jit
def pool(x, mode):
    return x.mean() if mode == "mean" else x.max()

pool(jnp.arange(3.0), "mean")
""", """\
from functools import partial

@partial(xjax.jit, static_argnames="mode")
def pool(x, mode):
    return x.mean() if mode == "mean" else x.max()

print(pool(jnp.arange(3.0), "mean"))
"""),
    Mistake("`jit` of a method", """\
`self` is the first argument, so its class must be a pytree. With a static `self`, changes of its attributes
would not be seen.""", """\
class Line:
    def __init__(self, slope):
        self.slope = slope

    def __repr__(self):
        return "Line"

    @xjax.jit
    def at(self, x):
        return self.slope * x

Line(2.0).at(3.0)
""", """\
import dataclasses

@xjax.tree_util.register_dataclass
@dataclasses.dataclass
class Line:
    slope: float

    @xjax.jit
    def at(self, x):
        return self.slope * x

print(Line(2.0).at(3.0))
"""),
    Mistake("A donated array that is used again", """\
Donation gives the memory of an argument to the result. See [performance](performance.md).""", """\
update = xjax.jit(lambda w: w + 1, donate_argnums=0)
weights = jnp.ones(3)
update(weights)
print(weights)
""", """\
update = xjax.jit(lambda w: w + 1, donate_argnums=0)
weights = jnp.ones(3)
weights = update(weights)
print(weights)
"""),
    Mistake("`jit` inside of a loop", """\
Each step makes a new function, which is compiled again. See [recompilation](../recompiles.md).""", """\
for step in range(6):
    double = xjax.jit(lambda x: 2 * x)
    double(1.0)
""", """\
double = xjax.jit(lambda x: 2 * x)
for step in range(6):
    double(1.0)
print(double.cache_info().traces)
"""),
)

CONTROL_FLOW = (
    Mistake("A carry of `scan` that changes its type", """\
Each step passes its result to the next one, so both have one type.""", """\
def step(total, x):
    total = (total + x).astype("bfloat16")
    return total, total

lax.scan(step, jnp.zeros(()), jnp.arange(3.0))
""", """\
def step(total, x):
    total = total + x
    return total, total.astype("bfloat16")

print(lax.scan(step, jnp.zeros(()), jnp.arange(3.0)))
"""),
    Mistake("Branches of `cond` with different results", "The types of the result are part of the program.", """\
lax.cond(True, lambda x: x, lambda x: jnp.stack([x, x]), 1.0)
""", """\
print(lax.cond(True, lambda x: jnp.stack([x, 0 * x]), lambda x: jnp.stack([x, x]), 1.0))
"""),
    Mistake("A body with the wrong parameters", "`fori_loop` passes the number of the step, then the carry.", """\
lax.fori_loop(0, 3, lambda x: x * 2, 1.0)
""", """\
print(lax.fori_loop(0, 3, lambda i, x: x * 2, 1.0))
"""),
    Mistake("Arrays of different lengths in `scan`", """\
All arrays are read row by row, so they have equally many rows.""", """\
def step(total, pair):
    x, y = pair
    return total + x * y, None

lax.scan(step, 0.0, (jnp.ones(3), jnp.ones(4)))
""", """\
def step(total, pair):
    x, y = pair
    return total + x * y, None

print(lax.scan(step, 0.0, (jnp.ones(3), jnp.ones(4)[:3])))
"""),
)

MAPPED = (
    Mistake("Mapped arguments of different sizes", """\
`in_axes` names the axis of each argument; None passes the whole argument.""", """\
x, w = jnp.ones((4, 3)), jnp.ones(3)
xjax.vmap(jnp.dot)(x, w)
""", """\
x, w = jnp.ones((4, 3)), jnp.ones(3)
print(xjax.vmap(jnp.dot, in_axes=(0, None))(x, w))
"""),
    Mistake("Trees of different structures", "The second tree lacks an entry, or has another name for it.", """\
params, grads = {"w": 1.0, "b": 2.0}, {"w": 0.5}
xjax.tree.map(lambda p, g: p - g, params, grads)
""", """\
params, grads = {"w": 1.0, "b": 2.0}, {"w": 0.5, "b": 0.0}
print(xjax.tree.map(lambda p, g: p - g, params, grads))
"""),
    Mistake("More rows than devices", """\
`pmap` places one row on each device. This program has four CPU devices, by
`xjax.config.update("jax_num_cpu_devices", 4)` at its start.""", """\
xjax.pmap(jnp.sum)(jnp.ones((8, 3)))
""", """\
print(xjax.pmap(xjax.vmap(jnp.sum))(jnp.ones((8, 3)).reshape(4, 2, 3)))
"""),
    Mistake("An axis that its devices do not divide", "Each device has a block of the same size.", """\
from xjax.sharding import NamedSharding, PartitionSpec as P

rows = NamedSharding(xjax.make_mesh((4,), ("rows",)), P("rows"))
xjax.device_put(jnp.ones((6, 2)), rows)
""", """\
from xjax.sharding import NamedSharding, PartitionSpec as P

rows = NamedSharding(xjax.make_mesh((4,), ("rows",)), P("rows"))
padded = jnp.pad(jnp.ones((6, 2)), ((0, 2), (0, 0)))
print(xjax.device_put(padded, rows).sharding.spec)
"""),
    Mistake("A sum over an axis without a name", """\
`psum` adds over a named axis of `vmap`, `pmap` or `shard_map`.""", """\
share = xjax.vmap(lambda x: x / lax.psum(x, "batch"))
share(jnp.array([1.0, 3.0]))
""", """\
share = xjax.vmap(lambda x: x / lax.psum(x, "batch"), axis_name="batch")
print(share(jnp.array([1.0, 3.0])))
"""),
)
