"""Transformations, callbacks and trees: each applied to a simple function or tree, values compared with JAX's.

NumPy has no such functions. The first argument of each `call` is the transformation of one library; `library_of` gives
the rest of that library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.values.row import library_of, rows

ARRAYS = ("f8[3]", "f4[2,3]", "c8[2]", "bf[2]")
REALS = ("f8[3]", "f4[2,2]", "bf[2]")
ANY = ("f4[2,3]:wide", "i4[3]:wide", "c8[2]", "b1[]")


def curve(x: Any) -> Any:
    """A function of numbers whose derivatives of every order differ."""
    return x ** 3 * 0.25 + 2 / (x * x + 1)


def total(x: Any, w: Any = 1) -> Any:
    return (curve(x) * w).sum()


def with_aux(x: Any) -> Any:
    return total(x), {"aux": x * 2}


# -- derivatives --------------------------------------------------------------------------------------------------

def gradients(f: Any, x: Any) -> Any:
    x = library_of(f).numpy.asarray(x)                  # NumPy computes with bfloat16 otherwise
    return f(total)(x), f(total, 1)(x, x * x), f(total, (0, 1))(x, x), f(with_aux, has_aux=True)(x)


def of_vectors(f: Any, x: Any) -> Any:
    """Derivatives of functions of vectors: of one argument and of a tree."""
    return (f(lambda y: y * y.sum())(x), f(lambda t: {"v": t["a"] * t["b"][0]})({"a": x, "b": [x]}),
            f(lambda y: (curve(y), y.sum()), has_aux=True)(x))


def pushed(f: Any, x: Any, dx: Any) -> Any:
    return (f(curve, (x,), (dx,)), f(lambda y, z: {"s": y * z, "t": (y,)}, (x, dx), (dx, x)),
            f(with_aux, (x,), (dx,), has_aux=True))


def pulled(f: Any, x: Any, ct: Any) -> Any:
    y, back = f(curve, x)
    several, back_several = f(lambda y, z: [y * z, z + 1], x, ct)
    return y, back(ct), several, back_several([ct, x])


def linear(f: Any, x: Any, dx: Any) -> Any:
    y, push = f(lambda y, z: curve(y) * z, x, dx)
    return y, push(dx, x), f(with_aux, x, has_aux=True)[1](dx)


def both_ways(f: Any, x: Any, ct: Any) -> Any:
    fwd, bwd = f(lambda y, z: curve(y) * z, argnums=(0, 1))
    y, residuals = fwd(x, ct)
    return y, bwd(residuals, ct)


PAIRS = ("f8[3] f8[3]", "f4[2,2] f4[2,2]", "c8[2] c8[2]")

DERIVATIVES = [
    *rows("", "grad value_and_grad", *REALS, call=gradients),
    *rows("", "grad value_and_grad", "c8[2]:positive", "c16[2]:positive", call=lambda f, z: f(total, holomorphic=True)(
        z), id="holomorphic"),
    *rows("", "jacfwd jacrev jacobian hessian", "f8[3]", "f4[2]", call=of_vectors),
    *rows("", "jvp", *PAIRS, call=pushed, grad=PAIRS[:1]),
    *rows("", "vjp", *PAIRS, call=pulled, grad=PAIRS[:1]),
    *rows("", "linearize", *PAIRS, call=linear, grad=PAIRS[:1]),
    *rows("", "fwd_and_bwd", *PAIRS, call=both_ways),
    *rows("", "linear_transpose", *ARRAYS[:3], call=lambda f, x: f(lambda y: [y * 3, y[::-1]], x)([x, x * 2])),
    *rows("", "checkpoint remat", *REALS, call=lambda f, x: (f(curve)(x), library_of(f).grad(f(total))(x)),
          grad=("f8[3]",)),
]

# -- custom rules -------------------------------------------------------------------------------------------------


def with_rule(f: Any, x: Any) -> Any:
    """A rule that differs from the derivative, so results show which one is used."""
    result = f(lambda y: (curve(y), lambda ct: ct * y * 7))
    return result(x), library_of(f).vjp(result, x)[1](x)


def closed_over(f: Any, x: Any) -> Any:
    """A function of y that also depends on x, the variable of differentiation."""
    def value(x: Any) -> Any:
        converted, consts = f(lambda y: y * curve(x), x)
        return converted(x * 2, *consts).sum()
    return value(x), library_of(f).grad(value)(x)


def divided(f: Any, r: Any, x: Any) -> Any:
    def apply(y: Any) -> Any:
        return f(lambda r, y: y / r, lambda r, ct: ct / r, r, y)
    return apply(x), library_of(f).vjp(apply, x)[1](x), library_of(f).jvp(apply, (x,), (r,))


def values_of_primals(f: Any, x: Any) -> Any:
    """Inside the forward rule of a custom_vjp with symbolic zeros."""
    lib = library_of(f)
    g = lib.custom_vjp(lambda t: t["a"] * t["b"])

    def forward(t: Any) -> Any:
        values = f(t)
        return values["a"] * values["b"], values
    g.defvjp(forward, lambda values, ct: ({"a": ct * 5, "b": values["a"]},), symbolic_zeros=True)
    return lib.vjp(lambda x: g({"a": x, "b": curve(x)}), x)[1](x)


CUSTOM = [
    *rows("", "custom_gradient", "f8[3]", "f4[2]", call=with_rule),
    *rows("", "closure_convert", "f8[3]", "f4[2]", call=closed_over, grad=("f8[3]",)),
    *rows("custom_derivatives", "linear_call", "f8[3]:positive f8[3]", "f4[2]:positive f4[2]", call=divided),
    *rows("custom_derivatives", "zero_from_primal", *ARRAYS, call=lambda f, x: (f(x), f({"a": [x, x * 2]}))),
    *rows("custom_derivatives", "custom_vjp_primal_tree_values", "f8[3]", call=values_of_primals),
    *rows("custom_batching", "sequential_vmap", *ARRAYS[:2], call=lambda f, x: (
        f(curve)(x), library_of(f).vmap(f(lambda y, z: (curve(y), y * z)), (0, None))(x, x[0]))),
    *rows("ad_checkpoint", "checkpoint_name", *ANY, call=lambda f, x: (f(x, "a"), f([x, x], "b"))),
]

# -- the rest of the top level ------------------------------------------------------------------------------------


def mapped(f: Any, x: Any) -> Any:
    """Over first and last axes, several arguments, and a named axis."""
    sums = f(lambda y: y / library_of(f).lax.psum(2, "i") + library_of(f).lax.psum(y, "i"), axis_name="i")(x)
    return (f(curve)(x), sums, f(lambda y, z: {"a": y + z}, (0, None), out_axes=-1)(x, x[0]),
            f(f(curve, 0, -1, axis_size=x.shape[1]), axis_name="j")(x) if x.ndim > 1 else x)


def typed(f: Any, x: Any) -> Any:
    out = f(lambda y, z: (curve(y).sum(0), [y == z]), x, x)
    return [np.zeros(a.shape, a.dtype) for a in (out[0], *out[1])]


def called_back(f: Any, x: Any) -> Any:
    return [f(lambda y: np.sort(y, -1) * 2, x, x, vmap_method=method) for method in (
        "sequential", "expand_dims", "broadcast_all")]


def cut(f: Any, x: Any) -> Any:
    """Over two devices, with unchanged values."""
    lib = library_of(f)
    sharding = lib.NamedSharding(lib.make_mesh((2,), ("i",)), lib.P("i"))
    return f(x, sharding)


def in_parts(f: Any, x: Any) -> Any:
    lib = library_of(f)
    mesh, spec = lib.sharding.Mesh(np.array(lib.devices()[:2]), ("i",)), lib.P("i")
    return f(lambda y: y * 2 + lib.lax.psum(y.sum(), "i"), mesh=mesh, in_specs=spec, out_specs=spec)(x)


def within(f: Any, x: Any) -> Any:
    """A computation under an option whose value does not affect it."""
    with f(True):
        return curve(x)


TOP = [
    *rows("", "vmap", "f8[3]", "f4[2,3]", "c8[3,2]", call=mapped),
    *rows("", "jit", *ARRAYS, call=lambda f, x: (
        f(curve)(x), f(lambda n, y: y * n, static_argnums=0)(3, x),
        f(lambda y, n: y + n, static_argnames="n")(x, n=2))),
    *rows("", "pmap", "f4[2,3]", "c8[4]", "i4[3]", jit=False, call=lambda f, x: (
        f(lambda y: y * 2 + 1)(x), f(lambda y, z: y - z, in_axes=(0, None))(x, x[0]),
        f(lambda y: y + library_of(f).lax.psum(y, "i"), axis_name="i")(x))),
    *rows("", "eval_shape", *ARRAYS, "i4[2,2]", call=typed),
    *rows("", "typeof", *ANY, call=lambda f, x: np.zeros(f(x).shape, f(x).dtype)),
    *rows("", "pure_callback", "f8[3]", "f4[2,3]", "i4[4]", call=called_back),
    *rows("", "device_put reshard", "f4[4]", "c8[2,3]", call=cut, jit=False, id="sharded"),
    *rows("", "shard_map", "f4[4]", "c8[2,3]", call=in_parts),
    *rows("", "named_call", *ARRAYS[:2], call=lambda f, x: (f(curve)(x), f(curve, name="part")(x))),
    *rows("", "device_put device_get block_until_ready", *ANY, call=lambda f, x: f({"a": x, "b": [x, 2.0]}),
          jit=False),
    *rows("", "allow_f16_reductions auto_pcast remove_size_one_mesh_axis_from_type thread_guard", "f4[3]", call=within),
    *rows("", "named_scope", "f4[3]", call=lambda f, x: (f("scope")(curve)(x), within(lambda _: f("scope"), x))),
]

# -- trees --------------------------------------------------------------------------------------------------------

LEAVES = ("f4[2] i4[2]", "c8[2] f8[3]")


def nested(x: Any, y: Any) -> Any:
    """A tree of every kind of node, and the same with other leaves."""
    return {"b": [x, (y, None)], "a": (x, {"c": y})}, {"b": [y, (x, None)], "a": (y, {"c": x})}


def texts(f: Any, paths: Any) -> np.ndarray:
    """Paths as numbers, which can be compared."""
    return np.frombuffer(" ".join(library_of(f).tree_util.keystr(path) for path in paths).encode(), np.uint8)


def with_paths(f: Any, x: Any, y: Any) -> Any:
    result = f(nested(x, y)[0])
    pairs = result[0] if isinstance(result, tuple) else result
    return [leaf for _, leaf in pairs], texts(f, [path for path, _ in pairs])


def counted(f: Any, x: Any, y: Any) -> Any:
    tree, other = nested(x, y)
    structure = f(tree)
    return np.array([structure.num_leaves, structure.num_nodes, structure == f(other), structure == f([x])])


def turned(f: Any, x: Any, y: Any) -> Any:
    structure = library_of(f).tree.structure
    return f(structure([0, 0]), structure({"a": 0, "b": 0}), [{"a": x, "b": y}, {"a": y, "b": x}])


def put_back(f: Any, x: Any, y: Any) -> Any:
    leaves, structure = library_of(f).tree.flatten(nested(x, y)[0])
    return f(structure, leaves[::-1])


def folded(f: Any, x: Any, y: Any) -> Any:
    tree = nested(x, y[0])[0]
    return f(lambda a, b: a * 2 + b, tree), f(lambda a, b: a * 2 + b, tree, 5)


def on_path(f: Any, x: Any, y: Any) -> Any:
    return f(lambda path, a, b: (a, b, np.int32(len(path))), *nested(x, y))


# The functions of `tree`, in `tree_util` under names that begin with "tree_".
CALLS = {
    "leaves": lambda f, x, y: (f(nested(x, y)), f([x, (y, y)], is_leaf=lambda t: isinstance(t, tuple))),
    "flatten": lambda f, x, y: f(nested(x, y))[0],
    "leaves_with_path flatten_with_path": with_paths,
    "map": lambda f, x, y: (f(lambda a, b: (a, b), *nested(x, y)), f(lambda a: a * 2, [x, None])),
    "map_with_path": on_path,
    "reduce": folded,
    "reduce_associative": lambda f, x, y: (f(lambda a, b: a * 2 - b, [x] * 3), f(
        lambda a, b: a * b, [y, (y,)], identity=1)),
    "structure": counted,
    "transpose": turned,
    "unflatten": put_back,
    "broadcast": lambda f, x, y: f({"a": x, "b": 2}, {"a": [y, (y,)], "b": {"c": y}}),
}


def one_level(f: Any, x: Any, y: Any) -> Any:
    tree = nested(x, y)[0]
    return [list(f(t)[0]) for t in (tree["a"], tree["b"], {"k": x})]


def one_level_with_keys(f: Any, x: Any, y: Any) -> Any:
    pairs = list(f(nested(x, y)[0])[0])
    return [child for _, child in pairs], texts(f, [(key,) for key, _ in pairs])


def facts(*trees: Any) -> Any:
    """The results of a function of structures or leaves, as numbers: one for each of these trees."""
    return lambda f, x, y: np.array([f(tree(library_of(f).tree_util.tree_structure, x, y)) for tree in trees])


def children(f: Any, x: Any, y: Any) -> Any:
    structure = library_of(f).tree_util.tree_structure
    return np.array([part.num_leaves for part in f(structure(nested(x, y)[0]))])


def tupled(f: Any, x: Any, y: Any) -> Any:
    lib = library_of(f)
    a, b = (lib.tree_util.tree_structure(t) for t in nested(x, y))
    return lib.tree_util.tree_unflatten(f([a, b]), [x, y] * 4)


TREES = [
    *(row for names, call in CALLS.items() for row in rows("tree", names, *LEAVES, call=call)),
    *(row for names, call in CALLS.items() for row in rows(
        "tree_util", " ".join(f"tree_{name}" for name in names.split()), *LEAVES, call=call)),
    # The truth of traced values is unknown.
    *(row for name in ("tree.all", "tree_util.tree_all") for row in rows(
        "", name, "b1[] b1[]", call=lambda f, x, y: np.array([f([x, (y,)]), f({"a": x}), f(None)]), jit=False)),
    *rows("tree_util", "flatten_one_level", *LEAVES, call=one_level),
    *rows("tree_util", "flatten_one_level_with_keys", *LEAVES, call=one_level_with_keys),
    *rows("tree_util", "all_leaves", *LEAVES, call=facts(lambda _, x, y: [x, y], lambda _, x, y: [x, (y,)])),
    *rows("tree_util", "treedef_is_leaf", *LEAVES, call=facts(lambda structure, x, _: structure(x),
                                                              lambda structure, x, _: structure([x]))),
    *rows("tree_util", "treedef_children", *LEAVES, call=children),
    *rows("tree_util", "treedef_tuple", *LEAVES, call=tupled),
]

ROWS = [*DERIVATIVES, *CUSTOM, *TOP, *TREES]
