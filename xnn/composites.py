"""The common part of all composites: parameters, state, cache and keys of the children.

A composite is described by two functions of the same form: `walk` calls its children on shapes, and `forward` calls
them on values. `combine` derives `init` and `apply` from the two, and the functions of state and cache if a child has
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import xjax
from xjax.errors import api_boundary, bad, did_you_mean
from xjax.typing import Params, PRNGKey, PyTree
from xnn.checks import check_entries
from xnn.covariance.evaluation import kernel_after
from xnn.covariance.kernel import Kernel, NeedsPairs, Pair, of_points
from xnn.inputs import Input, bind, is_slot, joined
from xnn.layer import CacheFns, Layer, LayerLike, Parts, StateFns, as_layer, call_text, init_types, note_path
from xnn.rng import Rng, fold_in

Pack = Callable[[list], Any]


def combine(name: str, children: Mapping[Any, LayerLike], walk: Callable, forward: Callable,
            pack: Pack | None = None, *, rebuild: Callable | None = None,
            inputs: Sequence[Input | str] | None = None, passes: Iterable[str] = (),
            settings: Mapping[str, Any] | None = None, sized_by: Sequence[str] = (), has_kernel: bool = True) -> Layer:
    """The Layer of a combinator, from one function for shapes and one for values.

    The result has the inputs, the state, the cache and the random keys of its children. For one structure with a
    function of its own, `composite` is shorter: it needs no `walk`.

    Args:
      name: its name in messages; each child is ``name[key]`` there.
      children: key -> layer; the only child of a wrapper has the key None.
      walk: ``(visit, in_shape, shapes) -> out_shape``; ``visit(key, in_shape)`` gives the shape of a child's output.
        `shapes` has the shapes of further inputs.
      forward: ``(call, x, values) -> y``; ``call(key, x)`` applies a child to x and its further inputs, which it takes
        from `values`, the inputs of the composite by name. ``call(key, x, mask=mask)`` passes another value.
        `call.rng` and `call.train` are those of the current call.
      pack: makes the container of parameters, states or caches from a list with one entry for each child; None: the
        entry itself for the key None, a tuple for the keys 0, 1, ..., else a dict.
      rebuild: ``{key: layer} -> Layer``, the same composite with other children, or with some of them; None: calls
        `combine` with the same functions.
      inputs: the inputs after x, names or `xnn.inputs.Input`s; None: those of the children. Inputs of the children
        must be among them or in `passes`.
      passes: names of inputs of the children that `forward` passes itself.
      settings: as in `Layer`.
      sized_by: extra inputs whose shapes `walk` takes, in addition to those of the children.
      has_kernel: whether `forward` maps kernels of infinite width too; False: `Layer.kernel` refuses the layer.
    Raises: ValueError for a child with an input that the composite does not have.

    >>> from xnn import Dense, combine
    >>> def mean_of(*layers):
    ...     children = dict(enumerate(layers))
    ...     def walk(visit, in_shape, shapes):
    ...         return [visit(key, in_shape) for key in children][0]
    ...     def forward(call, x, values):
    ...         return sum(call(key, x) for key in children) / len(children)
    ...     return combine("mean_of", children, walk, forward)
    >>> mean_of(Dense(3), Dense(3)).init(random.key(0), (-1, 2))[0]
    (-1, 3)
    """
    children = {key: as_layer(child, place(name, key)) for key, child in children.items()}
    passes = tuple(passes)
    own = None if inputs is None else tuple(Input(one) if isinstance(one, str) else one for one in inputs)
    inputs = _inputs_of_composite(name, children, own, passes)
    pack = pack or _container(children)
    rebuild = rebuild or (lambda some: combine(name, some, walk, forward, inputs=own, passes=passes, settings=settings,
                                               sized_by=sized_by, has_kernel=has_kernel))
    keys = tuple(children)

    @api_boundary
    def init(rng, in_shape, **shapes):
        entries = {}

        def visit(key, shape, /, **sizes):
            key_rng = rng if key is None else fold_in(rng, keys.index(key))
            shape, entries[key] = init_child(place(name, key), children[key], key_rng, shape, {**shapes, **sizes})
            return shape

        shape = walk(visit, in_shape, shapes)
        return shape, pack([entries[key] for key in keys])

    def bound(extra, named):
        return bind(name, inputs, extra, named, lambda wanted: _passing_hint(name, children, wanted))

    def run(params, memory, x, values, options):
        calls = Calls(name, children, entries_of(name, "params", params, keys), values, memory, **options)
        return forward(calls, x, values), calls

    @api_boundary
    def apply(params, x, *extra, rng=None, train=False, **named):
        values = bound(extra, named)
        return run(params, None, x, values, {"rng": rng, "train": train})[0]

    @api_boundary
    def init_state(in_shape, rng=None, **shapes):
        states = {}

        def visit(key, shape, /, **sizes):
            child, known = children[key], taken_by(children[key], {**shapes, **sizes})
            states[key] = child.init_state(shape, rng if key is None else fold_in(rng, keys.index(key)), **known)
            return init_types(child, shape, **known)[0]

        walk(visit, in_shape, shapes)
        return pack([states[key] for key in keys])

    @api_boundary
    def apply_with_state(params, state, x, *extra, rng=None, train=False, **named):
        values = bound(extra, named)
        memory = State(entries_of(name, "state", state, keys))
        y, _ = run(params, memory, x, values, {"rng": rng, "train": train})
        return y, pack([memory.entries[key] for key in keys])

    def init_cache(batch, length):
        return pack([child.init_cache(batch, length) for child in children.values()])

    def apply_with_cache(params, cache, x, *extra, state=(), **named):
        values = bound(extra, named)
        states = entries_of(name, "state", state, keys) if has_state else dict.fromkeys(keys, ())
        memory = Cache(entries_of(name, "cache", cache, keys), states)
        y, _ = run(params, memory, x, values, {"rng": None, "train": False})
        return y, pack([memory.entries[key] for key in keys])

    @of_points
    def kernel_rule(x, **values):
        defaults = {one.name: Pair(one.default, one.default) for one in inputs if not one.is_required}
        return forward(KernelCalls(name, children, {**defaults, **values}), x, {**defaults, **values})

    has_state = any(child.state for child in children.values())
    has_cache = any(child.cache for child in children.values())
    sizes = dict.fromkeys([*sized_by, *(key for child in children.values() for key in child.sized_by)])
    return Layer(init, None if has_state else apply, name, inputs, settings or {},
                 StateFns(init_state, apply_with_state) if has_state else None,
                 CacheFns(init_cache, apply_with_cache) if has_cache else None,
                 Parts(children, walk, rebuild), sized_by=tuple(sizes),
                 positionwise=all(child.positionwise for child in children.values()),
                 kernel_rule=kernel_rule if has_kernel else None)


def _inputs_of_composite(name: str, children: Mapping[Any, Layer], own: tuple[Input, ...] | None,
                         passes: Iterable[str]) -> tuple[Input, ...]:
    """Its own inputs, or if None those of the children; in both cases with the shared weights that the children use.

    Raises: ValueError for an input of a child that is neither among its own nor in `passes`.
    """
    every = joined(name, [child.inputs for child in children.values()])
    if own is None:
        return every
    known = {*passes, *(one.name for one in own)}
    for key, child in children.items():
        for one in child.inputs:
            if one.name not in known and not is_slot(one.name):
                raise bad(place(name, key), f"{child.name} has the input `{one.name}`, which {name} does not have",
                          {"inputs of the layer": ", ".join(visible(child)), "inputs of the composite":
                           ", ".join(each.name for each in own) or "none"},
                          fix=f"leave out `inputs` to take those of the layers, or add {one.name!r} to it; name it in "
                              f"`passes` if forward passes it itself: call({key!r}, x, {one.name}=value).",
                          exc=ValueError)
    return (*own, *(one for one in every if is_slot(one.name)))


def visible(layer: Layer) -> list[str]:
    """The names of a layer's further inputs, without those of shared weights."""
    return [name for name in layer.extra_inputs if not is_slot(name)]


def _container(children: Mapping[Any, Layer]) -> Pack:
    """The `pack` of a composite with these keys."""
    keys = tuple(children)
    if keys == (None,):
        return only
    return tuple if keys == tuple(range(len(keys))) else dict_of(keys)


def _passing_hint(name: str, children: Mapping[Any, Layer], wanted: str) -> str | None:
    """How to pass on an input that a composite lacks, if a layer within it has this input."""
    for key, child in children.items():
        if wanted in child.extra_inputs and isinstance(key, str):
            return f"{place(name, key)} has such an input; {passing_fix(name, key, wanted, f'{wanted}=None')}"
        if child.parts and (hint := _passing_hint(child.name, child.parts.children, wanted)):
            return hint
    return None


def passing_fix(name: str, key: object, wanted: str, declared: str) -> str:
    """How the function of a composite takes an input and passes it to a child."""
    return f"pass it on in {name}: `def f(layers, x, {declared})`, `layers.{key}(..., {wanted}={wanted})`."


class State:
    """The states of a composite's children in one call; `call` applies a child and stores its new state."""

    def __init__(self, entries: dict) -> None:
        self.entries = entries

    def call(self, key: object, child: Layer, params: Params, x: PyTree, extra: Sequence[object],
             options: dict[str, Any]) -> PyTree:
        y, self.entries[key] = child.apply_with_state(params, self.entries[key], x, *extra, **options)
        return y


class Cache:
    """The caches of a composite's children in one call, and their states, which do not change."""

    def __init__(self, entries: dict, states: dict) -> None:
        self.entries, self.states = entries, states

    def call(self, key: object, child: Layer, params: Params, x: PyTree, extra: Sequence[object],
             options: dict[str, Any]) -> PyTree:
        y, self.entries[key] = child.apply_with_cache(params, self.entries[key], x, *extra, state=self.states[key])
        return y


class Calls:
    """The children of a composite during one call: ``calls(key, x)`` applies a child.

    The child's inputs are taken from the `values` of the composite, unless the call passes them by name. Child i draws
    from ``fold_in(rng, i)``, in its second call from ``fold_in(fold_in(rng, i), 1)``, and so on.
    """

    def __init__(self, name: str, children: Mapping[Any, Layer], params: dict, values: Mapping[str, Any],
                 memory: State | Cache | None, rng: Rng, train: bool) -> None:
        if isinstance(train, xjax.core.Tracer):
            raise bad(name, "`train` must be a Python bool, because it selects the computation", {"train": train},
                      fix='make it static: xjax.jit(model.apply, static_argnames="train").')
        self.name, self.children, self.params, self.values = name, children, params, values
        self.memory, self.rng, self.train = memory, rng, train
        self.counts = dict.fromkeys(children, 0)

    def __call__(self, key: object, x: PyTree, /, **named: object) -> PyTree:
        child = self.children[key]
        options = {"rng": self.rng if key is None else self._rng_of(key), "train": self.train}
        path = place(self.name, key)
        for one in named:
            if one not in child.extra_inputs:
                raise bad(path, f"{child.name} has no input `{one}`",
                          {"inputs": ", ".join(("x", *child.extra_inputs))},
                          fix=did_you_mean(one, child.extra_inputs) or "leave it out.")
        if self.memory is None:
            return apply_child(path, child, self.params[key], x, {**self.values, **named}, **options)
        try:
            extra = extra_values(child, {**self.values, **named})
            return self.memory.call(key, child, self.params[key], x, extra, options)
        except Exception as err:
            note_path(err, path, child, x)
            raise

    def _rng_of(self, key: object) -> Rng:
        rng = fold_in(self.rng, list(self.children).index(key))
        count, self.counts[key] = self.counts[key], self.counts[key] + 1
        return fold_in(rng, count) if count else rng


class KernelCalls:
    """The children of a composite during one computation of a kernel: ``calls(key, kernel)`` maps it by a child.

    Raises: ValueError for a second call of a child with random weights, whose values are not independent.
    """

    rng, train = None, False

    def __init__(self, name: str, children: Mapping[Any, Layer], values: Mapping[str, Any]) -> None:
        self.name, self.children, self.values = name, children, values
        self.called: set[Any] = set()

    def __call__(self, key: object, x: Any, /, **named: Any) -> Any:
        child, path = self.children[key], place(self.name, key)
        try:
            result = kernel_after(child, x, {**self.values, **named})
            before = x.weights if isinstance(x, Kernel) else frozenset()
            if key in self.called and isinstance(result, Kernel) and result.weights != before:
                raise bad(path, "the layer is called twice, so that two values share its weights and are not "
                          "independent", {"layer": call_text(child)}, "use a layer of its own for each call.",
                          ValueError)
            self.called.add(key)
            return result
        except Exception as err:
            if not isinstance(err, NeedsPairs):
                err.add_note(f"in {path} -> {child.name} (kernel)")
            raise


def only(entries: list[PyTree]) -> PyTree:
    """The function `pack` of a wrapper, whose parameters are those of its one child."""
    return entries[0]


def dict_of(keys: Iterable[Any]) -> Pack:
    """The function `pack` of a composite with its parameters in a dict."""
    keys = tuple(keys)
    return lambda entries: dict(zip(keys, entries, strict=True))


def place(name: str, key: object) -> str:
    """The place of a child as text for messages: ``serial[2]``."""
    return name if key is None else f"{name}[{key!r}]"


def entries_of(caller: str, what: str, tree: PyTree, keys: Sequence[Any]) -> dict:
    """The children's entries in params, a state or a cache. Raises: TypeError unless each child has one."""
    if keys == (None,):
        return {None: tree}
    check_entries(caller, what, tree, keys)
    return {key: tree[key] for key in keys}


def extra_values(child: Layer, values: Mapping[str, Any]) -> list[Any]:
    """The extra inputs of a child in its order: from `values` by name, else the child's defaults."""
    for one in child.inputs:
        if one.is_required and one.name not in values:
            # It raises the error of a missing input.
            bind(child.name, child.inputs, (), {k: v for k, v in values.items() if k in child.extra_inputs})
    return [values.get(one.name, one.default) for one in child.inputs]


def taken_by(child: Layer, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `shapes` that the `init` of a layer takes, including the records of shared weights."""
    slots = [name for name in child.extra_inputs if is_slot(name)]
    return {name: shape for name, shape in shapes.items() if name in child.sized_by or name in slots}


def init_child(path: str, child: Layer, rng: PRNGKey | None, shape: PyTree,
               shapes: Mapping[str, PyTree] | None = None) -> tuple[PyTree, Params]:
    """``child.init``, with the entries of `shapes` that it takes; an error gets a note that names the child."""
    try:
        return child.init(rng, shape, **taken_by(child, shapes or {}))
    except Exception as err:
        err.add_note(f"in {path} -> {child.name} (init for shape {shape})")
        raise


def apply_child(path: str, child: Layer, params: Params, x: PyTree, values: Mapping[str, Any],
                **settings: object) -> PyTree:
    """``child.apply`` with its extra inputs from `values`; an error gets a note that names the child.

    Args: settings: keywords for the child: rng and train, and in stax all keywords of the caller.
    """
    try:
        return child.apply(params, x, *extra_values(child, values), **settings)
    except Exception as err:
        note_path(err, path, child, x)
        raise


def check_kept(caller: str, body: Layer, in_shape: PyTree, shape: PyTree) -> None:
    """Raises: TypeError if a layer changes the shape."""
    if in_shape != shape:
        raise bad(caller, f"{body.name} changes the shape",
                  {"layer": call_text(body), "in_shape": repr(in_shape), "out_shape": repr(shape)},
                  fix="use layers that keep the shape of their input.")
