"""Treescope: printed forms of arrays, traced values and trees with arrays in them."""

import jax
import jax.numpy as jnp
import treescope

X = jnp.arange(24.0).reshape(4, 6)
TREE = {"weights": X, "layers": [jnp.ones(3, jnp.bfloat16), None], "key": jax.random.key(0)}


def texts():
    for value in (X, X[0], X.astype(int), TREE, jnp.float32(3), jax.ShapeDtypeStruct((2, 3), "float32")):
        text = treescope.render_to_text(value)
        yield len(text.splitlines())
        yield "float32" in text


def traced():
    lines = []
    jax.jit(lambda x: lines.append(treescope.render_to_text({"x": x})) or x)(X)
    jax.vmap(lambda x: lines.append(treescope.render_to_text([x])) or x)(X)
    for text in lines:
        yield "Tracer" in text


def pages():
    for value in (X, TREE):
        yield "treescope" in treescope.render_to_html(value)
    yield "script" in treescope.render_array(X)._repr_html_()


PROGRAMS = [texts, traced, pages]
