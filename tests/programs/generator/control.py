"""Control flow, custom derivative rules and calls under transforms: constructs that contain functions.

Each construct writes one line. `compose(writer, n)` writes n random lines; constructs call it, so programs nest.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.programs.generator.program import FLOATS, Function, Leaf, Signature, Tree, step_text, tree_text
from tests.programs.generator.transforms import apply, draw_step
from tests.programs.generator.writer import Writer

Compose = Callable[[Writer, int], None]
CALL_TRANSFORMS = ("jit", "remat", "vmap", "grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev")


def some_leaf(w: Writer) -> Leaf:
    """A small type, mostly float64; sometimes empty."""
    shape = tuple(w.rng.choice((1, 2, 2, 3, 3, 4)) for _ in range(w.rng.choice((0, 1, 1, 2))))
    if shape and w.rng.random() < 0.03:
        shape = (0, *shape[1:])
    return Leaf(w.rng.choice(("float64",) * 8 + ("float32", "int32")), shape)


def some_tree(w: Writer, floats: bool = False) -> Tree:
    """A type for the result of a nested function: a leaf, or a small tree."""
    def leaf():
        t = some_leaf(w)
        return Leaf("float64", t.shape) if floats and t.dtype not in FLOATS else t
    return w.rng.choice((
        lambda: leaf(), lambda: leaf(), lambda: (leaf(), leaf()), lambda: {"b": leaf(), "a": [leaf()]},
        lambda: (leaf(),)))()


def nested(w: Writer, compose: Compose, types: tuple[Tree, ...], out: Tree, closure: bool = True, name: str = "",
           result: str = "{}") -> Function:
    """A function of arguments of these types with a result of type `out`, which `result` may wrap."""
    inner = w.inner(closure)
    params = tuple((w.name("p"), t) for t in types)
    for param, t in params:
        inner.add(param, t)
    _float_in_scope(inner)
    compose(inner, w.rng.randint(1, 2))
    text = tree_text(out, inner.fitted)
    return inner.function(params, result.format(text), out, name)


def _float_in_scope(w: Writer) -> None:
    """Make sure that a float is in scope: operations convert floats into any type they need."""
    if w.pick(lambda t: t.dtype in FLOATS) is None:
        w.env.append(("jnp.full((), 0.8, 'float64')", Leaf("float64", ())))


def predicate(w: Writer) -> str:
    x = w.operand("b", lambda t: t.shape == ())
    if x is not None and w.rng.random() < 0.6:
        return x[0]
    return f"(jnp.sum({w.operand('f')[0]}) > 0.3)"


def _operands(w: Writer, most: int = 2) -> tuple[list[str], tuple[Leaf, ...]]:
    chosen = [w.pick(lambda t: True) for _ in range(w.rng.randint(1, most))]
    return [x for x, _ in chosen], tuple(t for _, t in chosen)


def cond(w: Writer, compose: Compose) -> None:
    """``lax.cond`` on a drawn predicate, with operands passed and closed over."""
    texts, types = _operands(w)
    out = some_tree(w)
    branches = [nested(w, compose, types, out) for _ in range(2)]
    call = f"lax.cond({predicate(w)}, {branches[0].name}, {branches[1].name}, {', '.join(texts)})"
    w.line("cond", call, out, tuple(branches))


def switch(w: Writer, compose: Compose) -> None:
    """``lax.switch`` among two to four branches; the index may be out of range."""
    texts, types = _operands(w)
    out = some_tree(w)
    branches = [nested(w, compose, types, out) for _ in range(w.rng.randint(2, 4))]
    index = w.pick(lambda t: t.dtype == "int32" and t.shape == ())
    index = index[0] if index else f"jnp.floor(2 * jnp.abs(jnp.sum({w.operand('f')[0]}))).astype('int32')"
    call = f"lax.switch({index}, [{', '.join(b.name for b in branches)}], {', '.join(texts)})"
    w.line("switch", call, out, tuple(branches))


def scan(w: Writer, compose: Compose) -> None:
    """``lax.scan`` with a tree as carry, over a stacked value or for a number of steps."""
    carry, made = some_tree(w), some_tree(w)
    start = tree_text(carry, w.fitted)
    xs = w.pick(lambda t: len(t.shape) and t.shape[0] > 0)
    if xs is not None and w.rng.random() < 0.7:
        text, length = xs[0], xs[1].shape[0]
        slice_type = Leaf(xs[1].dtype, xs[1].shape[1:])
    else:
        length = w.rng.randint(1, 3)
        text, slice_type = f"jnp.arange({length})", Leaf("int64", ())
    f = nested(w, compose, (carry, slice_type), (carry, made))
    options = w.rng.choice(("", "", ", reverse=True", ", unroll=2", ", unroll=True"))
    stacked = _stacked(made, length)
    w.line("scan", f"lax.scan({f.name}, {start}, {text}{options})", (carry, stacked), (f,))


def _stacked(tree: Tree, length: int) -> Tree:
    if isinstance(tree, Leaf):
        return Leaf(tree.dtype, (length, *tree.shape))
    if isinstance(tree, dict):
        return {k: _stacked(v, length) for k, v in tree.items()}
    return type(tree)(_stacked(v, length) for v in tree)


def while_loop(w: Writer, compose: Compose) -> None:
    """``lax.while_loop`` that counts, and may stop sooner on a value."""
    carry = some_tree(w)
    start = tree_text(carry, w.fitted)
    inner = w.inner()
    param = w.name("p")
    inner.add(f"{param}[1]", carry)
    _float_in_scope(inner)
    compose(inner, w.rng.randint(1, 2))
    result = f"({param}[0] + 1, {tree_text(carry, inner.fitted)})"
    f = inner.function(((param, (Leaf("int64", ()), carry)),), result, (Leaf("int64", ()), carry))
    limit = w.pick(lambda t: t.dtype == "int32" and t.shape == ())
    limit = f"{limit[0]} % 4" if limit and w.rng.random() < 0.6 else str(w.rng.randint(0, 3))
    stop = w.rng.choice(("", f" & (jnp.sum({w.operand('f')[0]}) + c[0] < 2.5)"))
    call = f"lax.while_loop(lambda c: (c[0] < {limit}){stop}, {f.name}, (jnp.zeros((), 'int64'), {start}))"
    w.line("while_loop", call, (Leaf("int64", ()), carry), (f,))


def fori_loop(w: Writer, compose: Compose) -> None:
    """``lax.fori_loop``, with static bounds or, outside of reverse mode, a computed one."""
    carry = some_tree(w)
    start = tree_text(carry, w.fitted)
    f = nested(w, compose, (Leaf("int32", ()), carry), carry)
    limit = w.pick(lambda t: t.dtype == "int32" and t.shape == ())
    dynamic = limit is not None and not w.settings.reverse and w.rng.random() < 0.4
    bound = f"{limit[0]} % 3 + 1" if dynamic else str(w.rng.randint(0, 3))
    w.line("fori_loop", f"lax.fori_loop(0, {bound}, {f.name}, {start})", carry, (f,))


def map_(w: Writer, compose: Compose) -> None:
    """``lax.map`` over the leading axis of a value."""
    xs = w.pick(lambda t: len(t.shape) and t.shape[0] > 0)
    if xs is None:
        return
    made = some_tree(w)
    f = nested(w, compose, (Leaf(xs[1].dtype, xs[1].shape[1:]),), made)
    w.line("map", f"lax.map({f.name}, {xs[0]})", _stacked(made, xs[1].shape[0]), (f,))


# ---------------------------------------------------------------- custom rules

def _custom(w: Writer, compose: Compose) -> tuple[Function, str, str]:
    """A function of floats without closure, the text of its arguments, and a name."""
    chosen = [w.pick(lambda t: t.dtype in FLOATS) for _ in range(w.rng.randint(1, 2))]
    f = nested(w, compose, tuple(t for _, t in chosen), some_tree(w, floats=True), closure=False)
    return f, ", ".join(x for x, _ in chosen), w.name("c")


def _scale(w: Writer, of: str) -> str:
    """A factor in a rule; in concrete programs, chosen by a Python condition on a value."""
    if w.settings.concrete and w.rng.random() < 0.7:
        return f"(2.0 if jnp.sum({of}) > 0.2 else 0.5)"
    return "1.5"


def custom_jvp(w: Writer, compose: Compose) -> None:
    """A function whose rule scales the tangent, so that ignoring the rule changes the result."""
    f, args, name = _custom(w, compose)
    times = "jax.tree_util.tree_map(lambda d: {} * d, {})"
    scaled = times.format(_scale(w, "primals[0]"), "d_out")
    if w.rng.random() < 0.25:
        rule = (f"{name} = jax.custom_jvp(lambda n, *xs: {times.format('n', f'{f.name}(*xs)')}, nondiff_argnums=(0,))",
                f"@{name}.defjvp", f"def {name}_rule(n, primals, tangents):",
                f"    out, d_out = jax.jvp({f.name}, primals, tangents)",
                f"    return {times.format('n', 'out')}, {scaled}")
        call = f"{name}(2, {args})"
    else:
        rule = (f"{name} = jax.custom_jvp({f.name})", f"@{name}.defjvp", f"def {name}_rule(primals, tangents):",
                f"    out, d_out = jax.jvp({f.name}, primals, tangents)", f"    return out, {scaled}")
        call = f"{name}({args})"
    w.line("custom_jvp", call, f.type, (f, *rule))


def custom_vjp(w: Writer, compose: Compose) -> None:
    """A function whose backward pass scales the cotangents; the residuals are the arguments or the pullback itself."""
    f, args, name = _custom(w, compose)
    keep_pullback = w.rng.random() < 0.4
    forward = (f"    out, pull = jax.vjp({f.name}, *xs)", f"    return out, {'pull' if keep_pullback else 'xs'}")
    pull = "kept" if keep_pullback else f"jax.vjp({f.name}, *kept)[1]"
    of = "jax.tree_util.tree_leaves(ct)[0]"
    rule = (f"{name} = jax.custom_vjp({f.name})", f"def {name}_fwd(*xs):", *forward, f"def {name}_bwd(kept, ct):",
            f"    return jax.tree_util.tree_map(lambda d: {_scale(w, of)} * d, {pull}(ct))",
            f"{name}.defvjp({name}_fwd, {name}_bwd)")
    w.line("custom_vjp", f"{name}({args})", f.type, (f, *rule))


def custom_gradient(w: Writer, compose: Compose) -> None:
    """``jax.custom_gradient`` around a function that returns its value and a closure."""
    f, args, name = _custom(w, compose)
    rule = ("@jax.custom_gradient", f"def {name}(*xs):", f"    out, pull = jax.vjp({f.name}, *xs)",
            "    return out, lambda ct: jax.tree_util.tree_map(lambda d: 1.5 * d, pull(ct))")
    w.line("custom_gradient", f"{name}({args})", f.type, (f, *rule))


# ---------------------------------------------------------------- calls

def call(w: Writer, compose: Compose) -> None:
    """A nested function under one or two transforms, called on values of fitting types."""
    types = tuple(some_leaf(w) for _ in range(w.rng.randint(0, 1)))
    types = (Leaf("float64", some_leaf(w).shape), *types)
    out = some_tree(w, floats=w.rng.random() < 0.7)
    f = nested(w, compose, types, out)
    signature, stack, inner = Signature(types, out), [], f.name
    choices = [n for n in CALL_TRANSFORMS if not (w.settings.reverse and n.startswith("jac"))]
    for _ in range(w.rng.choice((1, 1, 2))):
        step = draw_step(w.rng, w.rng.choice(choices), signature)
        if step is not None:
            signature, stack = apply(step, signature), [*stack, step]
    if not stack:
        return
    texts = [tree_text(a, w.fitted) for a in signature.args]
    for step in stack:
        inner = step_text(step, inner)
    w.line("call", f"{inner}({', '.join(texts)})", signature.out, (f,), tuple(stack))


CONSTRUCTS = {
    "cond": cond, "switch": switch, "scan": scan, "while_loop": while_loop, "fori_loop": fori_loop, "map": map_,
    "custom_jvp": custom_jvp, "custom_vjp": custom_vjp, "custom_gradient": custom_gradient, "call": call}
REVERSE_ONLY = ("custom_vjp", "custom_gradient")
