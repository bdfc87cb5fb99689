"""Mistakes with derivatives and random numbers."""

from tests.gallery.mistake import Mistake

MISTAKES = (
    Mistake("The gradient of an integer", """\
A derivative exists for floating-point numbers only. `3` is an integer, `3.0` is not.""", """\
xjax.grad(lambda x: x ** 2)(3)
""", """\
print(xjax.grad(lambda x: x ** 2)(3.0))
"""),
    Mistake("The gradient of an array", """\
`grad` is the gradient of one number. `vmap` of `grad` has one for each element.""", """\
xjax.grad(lambda x: x ** 2)(jnp.arange(3.0))
""", """\
print(xjax.grad(lambda x: jnp.sum(x ** 2))(jnp.arange(3.0)))
print(xjax.vmap(xjax.grad(lambda x: x ** 2))(jnp.arange(3.0)))
"""),
    Mistake("A loss with a second result", "`has_aux=True` says that only the first result is differentiated.", """\
def loss(w):
    predictions = w * 2
    return jnp.sum(predictions), predictions

xjax.grad(loss)(jnp.ones(3))
""", """\
def loss(w):
    predictions = w * 2
    return jnp.sum(predictions), predictions

gradient, predictions = xjax.grad(loss, has_aux=True)(jnp.ones(3))
print(gradient, predictions)
"""),
    Mistake("The gradient of an argument that was not passed", "`argnums` counts positional arguments from 0.", """\
xjax.grad(lambda x, y: x * y, argnums=2)(3.0, 2.0)
""", """\
print(xjax.grad(lambda x, y: x * y, argnums=1)(3.0, 2.0))
"""),
    Mistake("A NaN in the gradient of `where`", """\
`where` drops the value, but the derivative of the dropped branch is infinite at 0, and 0 times infinity is NaN.
So a first `where` keeps the argument inside of the domain. Without checked mode the gradient is NaN.""", """\
def root(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)

with xjax.checking("nan"):
    xjax.grad(root)(0.0)
""", """\
def root(x):
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)

with xjax.checking("nan"):
    print(xjax.grad(root)(0.0))
"""),
    Mistake("A custom rule with too few cotangents", """\
A backward rule returns a tuple with one cotangent for each argument. None means zero. See [custom
derivatives](custom_derivatives.md).""", """\
@xjax.custom_vjp
def clip(x, low, high):
    return jnp.clip(x, low, high)

clip.defvjp(lambda x, low, high: (clip(x, low, high), None), lambda residuals, g: g)
xjax.grad(clip)(3.0, 0.0, 2.0)
""", """\
@xjax.custom_vjp
def clip(x, low, high):
    return jnp.clip(x, low, high)

clip.defvjp(lambda x, low, high: (clip(x, low, high), None), lambda residuals, g: (g, None, None))
print(xjax.grad(clip)(3.0, 0.0, 2.0))
"""),
    Mistake("The gradient of a loop without a known length", """\
The backward pass needs all steps of the loop, so their number must be known. See [control
flow](control_flow.md).""", """\
def doubled(x):
    return lax.while_loop(lambda x: x < 10, lambda x: x * 2, x)

xjax.grad(doubled)(3.0)
""", """\
def doubled(x):
    return lax.fori_loop(0, 4, lambda i, x: jnp.where(x < 10, x * 2, x), x)

print(xjax.grad(doubled)(3.0))
"""),
    Mistake("A random key that is used twice", """\
The same key has the same numbers. Without checked mode nothing is reported, and `x` and `noise` are correlated.
See [random numbers](random_numbers.md).""", """\
with xjax.checking("keys"):
    key = random.key(0)
    x = random.normal(key, (3,))
    noise = random.normal(key, (3,))
""", """\
with xjax.checking("keys"):
    first, second = random.split(random.key(0))
    x = random.normal(first, (3,))
    noise = random.normal(second, (3,))
print(bool((x == noise).any()))
"""),
    Mistake("A seed in place of a key", """\
NumPy and PyTorch have a hidden generator. Here the first argument is a key.""", """\
random.normal(0, (3,))
""", """\
print(random.normal(random.key(0), (3,)).shape)
"""),
)
