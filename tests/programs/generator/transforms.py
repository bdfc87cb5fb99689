"""The transforms: the drawing of their settings for a function of given types, and the types of the result."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.programs.generator.program import FLOATS, INEXACT, Leaf, Signature, Step, Tree, leaves, map_tree

Settings = dict[str, Any]
# A Jacobian has (size of the results) * (size of the arguments) elements.
_JACOBIAN_LIMIT = 150
_SIZE_LIMIT = 2000


@dataclass(frozen=True)
class Transform:
    """`draw` gives settings, or None if the transform does not fit the function; `type` gives the new signature."""

    draw: Callable[[random.Random, Signature], Settings | None]
    type: Callable[[Signature, Settings], Signature]
    reverse: bool = False
    derivative: bool = False


def apply(step: Step, signature: Signature) -> Signature:
    return TRANSFORMS[step.name].type(signature, step.settings)


def draw_step(rng: random.Random, name: str, signature: Signature, axis: tuple[str, int] | None = None) -> Step | None:
    """Settings for this transform; None if it does not fit a function of this signature.

    axis: (name, size) of the axis that the function uses in collectives; the step must be a vmap or pmap.
    """
    settings = TRANSFORMS[name].draw(rng, signature)
    if settings is None:
        return None
    if axis is not None:
        settings = {**settings, "size": axis[1], "axis_name": axis[0]}
    out = TRANSFORMS[name].type(signature, settings)
    if sum(leaf.size for leaf in leaves((out.args, out.out))) > _SIZE_LIMIT:
        return None
    return Step(name, settings)


def _differentiable(rng: random.Random, sig: Signature, dtypes: tuple[str, ...] = INEXACT) -> tuple[int, ...] | None:
    """Some arguments whose leaves all have these dtypes."""
    good = [i for i, a in enumerate(sig.args) if all(leaf.dtype in dtypes for leaf in leaves(a))]
    if not good or not any(leaf.dtype in dtypes for leaf in leaves(sig.out)):
        return None
    return tuple(sorted(rng.sample(good, rng.randint(1, min(2, len(good))))))


def _draw_wrt(**choices: tuple) -> Callable[[random.Random, Signature], Settings | None]:
    """A function that draws `wrt` and one value for each of the choices."""
    def draw(rng, sig):
        wrt = _differentiable(rng, sig)
        return wrt and {"wrt": wrt, **{k: rng.choice(v) for k, v in choices.items()}}
    return draw


def _draw_jacobian(rng: random.Random, sig: Signature) -> Settings | None:
    wrt = _differentiable(rng, sig, FLOATS)
    if wrt is None:
        return None
    size_in = sum(leaf.size for i in wrt for leaf in leaves(sig.args[i]))
    size_out = sum(leaf.size for leaf in _real(sig.out))
    return {"wrt": wrt} if size_in * size_out <= _JACOBIAN_LIMIT else None


def _real(tree: Tree) -> list[Leaf]:
    return [leaf for leaf in _sorted_leaves(tree) if leaf.dtype in FLOATS]


def _sorted_leaves(tree: Tree) -> list[Leaf]:
    """Leaves in the order in which both libraries flatten them: dicts by key."""
    if isinstance(tree, Leaf):
        return [tree]
    values = [tree[k] for k in sorted(tree)] if isinstance(tree, dict) else tree
    return [leaf for v in values for leaf in _sorted_leaves(v)]


def _picked(sig: Signature, settings: Settings) -> tuple[Tree, ...]:
    return tuple(sig.args[i] for i in settings["wrt"])


def _type_grad(sig: Signature, s: Settings) -> Signature:
    grads = _picked(sig, s)
    out = {"grad": grads, "value_and_grad": (Leaf("float64", ()), grads), "aux": (grads, sig.out)}[s["kind"]]
    return Signature(sig.args, out)


def _type_jvp(sig: Signature, s: Settings) -> Signature:
    return Signature(sig.args, (sig.out, [leaf for leaf in _sorted_leaves(sig.out) if leaf.dtype in INEXACT]))


def _type_vjp(sig: Signature, s: Settings) -> Signature:
    return Signature(sig.args, (sig.out, _picked(sig, s)))


def _type_jacobian(forward: bool) -> Callable[[Signature, Settings], Signature]:
    def type_rule(sig, s):
        def block(leaf):
            return tuple(map_tree(lambda x: Leaf(leaf.dtype if forward else x.dtype, leaf.shape + x.shape), a)
                         for a in _picked(sig, s))
        return Signature(sig.args, [block(leaf) for leaf in _real(sig.out)])
    return type_rule


def _insert(tree: Tree, axis: int | None, size: int) -> Tree:
    """The types with one more axis of this size; a negative axis counts from the end of the larger shape."""
    if axis is None:
        return tree

    def one(leaf: Leaf) -> Leaf:
        k = axis if axis >= 0 else len(leaf.shape) + 1 + axis
        return Leaf(leaf.dtype, (*leaf.shape[:k], size, *leaf.shape[k:]))
    return map_tree(one, tree)


def _draw_mapped(sizes: tuple[int, ...], negative: bool = True) -> Callable[..., Settings | None]:
    def draw_axis(rng, tree):
        rank = min((len(leaf.shape) for leaf in leaves(tree)), default=0)
        return rng.choice((0, 0, rng.randint(0, rank), -rng.randint(1, rank + 1) if negative else 0))

    def draw(rng, sig):
        in_axes = [draw_axis(rng, a) if rng.random() < 0.75 else None for a in sig.args]
        if all(a is None for a in in_axes):
            k = rng.randrange(len(in_axes))
            in_axes[k] = draw_axis(rng, sig.args[k])
        if isinstance(sig.out, tuple) and not isinstance(sig.out, Leaf) and rng.random() < 0.4:
            out_axes = tuple(draw_axis(rng, part) for part in sig.out)
        else:
            out_axes = draw_axis(rng, sig.out)
        return {"in_axes": tuple(in_axes), "out_axes": out_axes, "size": rng.choice(sizes)}
    return draw


def _type_mapped(sig: Signature, s: Settings) -> Signature:
    args = tuple(_insert(a, axis, s["size"]) for a, axis in zip(sig.args, s["in_axes"], strict=True))
    if isinstance(s["out_axes"], tuple):
        out = tuple(_insert(part, axis, s["size"]) for part, axis in zip(sig.out, s["out_axes"], strict=True))
    else:
        out = _insert(sig.out, s["out_axes"], s["size"])
    return Signature(args, out)


def _draw_over(**choices: tuple) -> Callable[[random.Random, Signature], Settings | None]:
    def draw(rng, sig):
        over = tuple(sorted(rng.sample(range(len(sig.args)), rng.randint(1, len(sig.args)))))
        return {"over": over, "size": rng.choice((1, 2, 2, 3)), **{k: rng.choice(v) for k, v in choices.items()}}
    return draw


def _type_over(carry: bool) -> Callable[[Signature, Settings], Signature]:
    def type_rule(sig, s):
        args = tuple(_insert(a, 0, s["size"]) if i in s["over"] else a for i, a in enumerate(sig.args))
        out = _insert(sig.out, 0, s["size"])
        return Signature(args, (Leaf("float64", ()), out) if carry else out)
    return type_rule


def _same(sig: Signature, s: Settings) -> Signature:
    return sig


def _draw_remat(rng: random.Random, sig: Signature) -> Settings:
    policies = (None, None, "dots_saveable", "nothing_saveable", "everything_saveable")
    return {"policy": rng.choice(policies), "prevent_cse": rng.choice((True, True, False))}


TRANSFORMS = {
    "jit": Transform(lambda rng, sig: {}, _same),
    "remat": Transform(_draw_remat, _same),
    "grad": Transform(_draw_wrt(kind=("grad", "value_and_grad", "aux")), _type_grad, True, True),
    "vjp": Transform(_draw_wrt(), _type_vjp, True, True),
    "jvp": Transform(_draw_wrt(), _type_jvp, derivative=True),
    "linearize": Transform(_draw_wrt(calls=(1, 2)), _type_jvp, derivative=True),
    "jacfwd": Transform(_draw_jacobian, _type_jacobian(True), derivative=True),
    "jacrev": Transform(_draw_jacobian, _type_jacobian(False), True, True),
    "vmap": Transform(_draw_mapped((1, 2, 2, 3, 3)), _type_mapped),
    # JAX 0.10.2 mishandles negative axes of pmap: out_axes=-1 gives (8, 1, 1) for (2, 1) on 4 devices, in_axes=-2
    # raises.
    "pmap": Transform(_draw_mapped((2, 4), negative=False), _type_mapped),
    "scan": Transform(_draw_over(reverse=(False, False, True), unroll=(1, 1, 2)), _type_over(True)),
    "map": Transform(_draw_over(batch_size=(None, None, 2)), _type_over(False)),
}
