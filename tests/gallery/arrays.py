"""Mistakes with arrays, their shapes, indices and dtypes."""

from tests.gallery.mistake import Mistake

MISTAKES = (
    Mistake("Shapes that do not broadcast", """\
Axes are aligned from the last one, as in NumPy and PyTorch. A vector with one value for each row needs a second
axis.""", """\
x, offset = jnp.ones((3, 4)), jnp.arange(3.0)
x + offset
""", """\
x, offset = jnp.ones((3, 4)), jnp.arange(3.0)
print((x + offset[:, None]).shape)
"""),
    Mistake("A matrix product with a transposed matrix", """\
`torch.nn.Linear` stores `[outputs, inputs]`. `xnn.Dense` and most programs for JAX store `[inputs, outputs]`.""", """\
x, w = jnp.ones((32, 8)), jnp.ones((16, 8))
x @ w
""", """\
x, w = jnp.ones((32, 8)), jnp.ones((16, 8))
print((x @ w.T).shape)
"""),
    Mistake("A wrong axis", "Axes are counted from 0. The last axis is also -1.", """\
x = jnp.ones((2, 3))
jnp.sum(x, axis=2)
""", """\
x = jnp.ones((2, 3))
print(jnp.sum(x, axis=-1))
"""),
    Mistake("A reshape with another number of elements", """\
One size may be -1, but the others must divide the number of elements.""", """\
images = jnp.ones((10, 28, 28))
images.reshape(64, -1)
""", """\
images = jnp.ones((10, 28, 28))
print(images.reshape(len(images), -1).shape)
"""),
    Mistake("A list passed for an array", """\
NumPy converts lists silently. In xjax and JAX a list is a tree of many scalars, and its conversion is slow, so
it is written.""", """\
jnp.sum([1.0, 2.0])
""", """\
print(jnp.sum(jnp.array([1.0, 2.0])))
"""),
    Mistake("Rows of different lengths", """\
An array is a full rectangle. Pad short rows, and pass a mask to the layers or losses.""", """\
jnp.array([[1, 2], [3]])
""", """\
rows = [[1, 2], [3]]
padded = np.zeros((2, 2), int)
for row, values in zip(padded, rows):
    row[:len(values)] = values
print(jnp.array(padded))
"""),
    Mistake("An index outside of the array", """\
A constant index is checked at once. An index that is computed in a compiled function is clipped, as in JAX;
[checked mode](../checked_mode.md) stops there.""", """\
x = jnp.arange(3.0)
x[3]
""", """\
x = jnp.arange(3.0)
print(x[2], x.at[3].get(mode="fill", fill_value=0.0))
"""),
    Mistake("A float as an index", "`/` returns a float in Python. `//` returns an integer.", """\
x = jnp.arange(6.0)
x[len(x) / 2]
""", """\
x = jnp.arange(6.0)
print(x[len(x) // 2])
"""),
    Mistake("Assignment to an element", """\
Arrays cannot be changed. `x.at[...]` returns a changed copy, and inside of `jit` nothing is copied. [Mutable
arrays](../mutable_arrays.md) are another way.""", """\
x = jnp.arange(3.0)
x[0] = 10.0
""", """\
x = jnp.arange(3.0)
x = x.at[0].set(10.0)
print(x)
"""),
    Mistake("float64 without the option for it", """\
Numbers have 32 bits unless the program asks for 64 at its start. See [numerical
precision](numerical_precision.md).""", """\
x = jnp.zeros(3, "float64")
print(x.dtype)
""", """\
with xjax.enable_x64(True):
    x = jnp.zeros(3, "float64")
print(x.dtype)
"""),
    Mistake("An integer that does not fit", "An `int32` ends at 2,147,483,647.", """\
jnp.asarray(2**40)
""", """\
print(jnp.asarray(2.0**40))
"""),
    Mistake("A dtype that becomes wider by accident", """\
A product of `float16` and `float32` is `float32`. Strict promotion finds such places.""", """\
weights, x = jnp.ones(3, "float16"), jnp.ones(3, "float32")
with xjax.numpy_dtype_promotion("strict"):
    weights * x
""", """\
weights, x = jnp.ones(3, "float16"), jnp.ones(3, "float32")
with xjax.numpy_dtype_promotion("strict"):
    print((weights * x.astype(weights.dtype)).dtype)
"""),
    Mistake("The truth value of an array", "`if` needs one bool. `where` chooses for each element.", """\
x = jnp.array([1.0, -1.0])
if x > 0:
    x = x * 2
""", """\
x = jnp.array([1.0, -1.0])
print(jnp.where(x > 0, x * 2, x), bool((x > 0).any()))
"""),
    Mistake("A misspelt function", "The message has the nearest name.", """\
jnp.lingspace(0, 1, 5)
""", """\
print(jnp.linspace(0, 1, 5))
"""),
)
