"""`shared` and `with_shared`: one set of weights for layers at several places of a model."""

from __future__ import annotations

from typing import Any

from xjax import tree_util
from xjax.errors import bad
from xjax.typing import Params, PRNGKey, PyTree
from xnn.checks import type_text
from xnn.composites import extra_values, init_child
from xnn.inputs import bind, is_slot, slot_input, slot_name
from xnn.layer import Layer, Parts, as_layer, call_text, init_types
from xnn.rng import fold_in
from xnn.wrapping import wrapped


def shared(slot: str, layer: Layer) -> Layer:
    """The layer with the parameters of the slot `slot`, which the model holds once: see `with_shared`.

    Layers of the same slot may differ, but their parameters must have the same names, shapes and dtypes. For example,
    an embedding and the output layer that multiplies by its transpose share a table::

        language_model = with_shared(serial(
            shared("words", Embedding(50_257, 768)), repeat(block, 12), LayerNorm(), shared("words", Attend(50_257))))

    Params: ``()``; the parameters of the slot are in the params of `with_shared`.
    Raises: ValueError for a layer with state or a cache, because each place would change it.
    """
    child = as_layer(layer, f"shared[{slot!r}]")
    if child.state or child.cache:
        raise bad("shared", f"{child.name} has {'running statistics' if child.state else 'a cache'}, which each place "
                  "that shares it would change", {"layer": call_text(child)},
                  fix="apply the layer to all inputs at once, concatenated along the batch axis.", exc=ValueError)
    own = slot_input(slot)

    def init(rng: PRNGKey | None, in_shape: PyTree, **shapes: PyTree) -> tuple[PyTree, Params]:
        uses = shapes.pop(own.name, None)
        out_shape, params = init_types(child, in_shape, **shapes)
        if uses is not None:                # None: the caller needs shapes only
            uses.add(child, in_shape, shapes, params)
        return out_shape, ()

    def apply(params, x, *extra, rng=None, train=False, **named):
        *extra, weights = (*extra, *([named.pop(own.name)] if own.name in named else []))
        return child.apply(weights, x, *extra, rng=rng, train=train, **named)

    def walk(visit, in_shape, shapes):
        return visit(None, in_shape)

    def kernel_rule(kernel, **values):
        raise bad("shared.kernel", "the values of layers that share weights are not independent", {"slot": slot},
                  "use layers with weights of their own, or the kernel of the finite network: "
                  "xnn.kernels.empirical_ntk.", ValueError)

    return Layer(init, apply, f"shared {slot!r}", (*child.inputs, own), sized_by=child.sized_by,
                 positionwise=child.positionwise, kernel_rule=kernel_rule,
                 parts=Parts({None: child}, walk, lambda some: shared(slot, some[None])))


def with_shared(layer: Layer) -> Layer:
    """The model together with the weights that its `shared` layers use.

    Params: ``{"shared": {slot: params}, "body": params of the layer}``. A slot gets its weights from the `init` of the
      first layer that uses it; slot i draws from ``fold_in(rng, i + 1)``, in the order of use.
    Raises: TypeError from `init` if the layers of a slot have different parameters; ValueError if no layer is shared.
    """
    body = as_layer(layer, "with_shared")
    slots = [one for one in body.inputs if is_slot(one.name)]
    inputs = [one for one in body.inputs if one not in slots]
    if not slots:
        raise bad("with_shared", "no layer of the model is shared", {"layer": body.name},
                  fix='mark the places that share weights: shared("words", layer).', exc=ValueError)

    def init(rng: PRNGKey | None, in_shape: PyTree, **shapes: PyTree) -> tuple[PyTree, Params]:
        uses = {one.name: SlotUses(slot_name(one.name)) for one in slots}
        shape, params = init_child("with_shared", body, fold_in(rng, 0), in_shape, {**shapes, **uses})
        weights = {use.slot: use.init(fold_in(rng, i + 1)) for i, use in enumerate(uses.values())}
        return shape, {"shared": weights, "body": params}

    def around(call, params, x, *extra, **named):
        values = bind("with_shared", inputs, extra, named)
        weights = {one.name: params["shared"][slot_name(one.name)] for one in slots}
        return call(params["body"], x, *extra_values(body, {**values, **weights}))

    return wrapped(body, around, init=init, name="with_shared", inputs=inputs, settings={},
                   parts=Parts({"body": body}, lambda visit, shape, shapes: visit("body", shape),
                               lambda some: with_shared(some["body"])))


def shared_slot(layer: Layer) -> str | None:
    """The slot of a layer that `shared` made; None for any other layer."""
    if not layer.parts or None not in layer.parts.children:
        return None
    inner = layer.parts.children[None].extra_inputs
    return next((slot_name(name) for name in layer.extra_inputs if is_slot(name) and name not in inner), None)


def slots_of(layer: Layer) -> dict[str, Layer]:
    """The slots that a `with_shared` model owns: slot -> the first layer that uses it; {} for any other layer."""
    if layer.parts is None or set(layer.parts.children) != {"body"}:
        return {}
    wanted = {slot_name(name) for name in layer.parts.children["body"].extra_inputs if is_slot(name)}
    layers: dict[str, Layer] = {}
    _collect_slots(layer.parts.children["body"], layers)
    return {slot: one for slot, one in layers.items() if slot in wanted}


def _collect_slots(layer: Layer, layers: dict[str, Layer]) -> None:
    for child in layer.parts.children.values() if layer.parts else ():
        if slot := shared_slot(layer):
            layers.setdefault(slot, child)
        _collect_slots(child, layers)


class SlotUses:
    """A record of a slot's uses while a model is initialised: its first layer, and the types of its parameters."""

    def __init__(self, slot: str) -> None:
        self.slot = slot
        self.first: tuple[Layer, Any, dict, Any] | None = None

    def add(self, layer: Layer, in_shape: PyTree, shapes: dict, params: Params) -> None:
        if self.first is None:
            self.first = layer, in_shape, shapes, params
        elif _types(params) != _types(self.first[3]):
            raise bad("shared", f"layers of the slot {self.slot!r} have different parameters",
                      {self.first[0].name: _types(self.first[3]), layer.name: _types(params)},
                      fix="give the layers the same sizes, or different slots.")

    def _use(self) -> tuple[Layer, Any, dict, Any]:
        if self.first is None:
            raise bad("shared", f"init applies no layer of the slot {self.slot!r}",
                      fix="let the walk of the composite visit all of its children.")
        return self.first

    @property
    def types(self) -> PyTree:
        """The types of the slot's parameters."""
        return self._use()[3]

    def init(self, rng: PRNGKey) -> PyTree:
        layer, in_shape, shapes, _ = self._use()
        return init_child(f"shared {self.slot!r}", layer, rng, in_shape, shapes)[1]


def _types(params: Params) -> str:
    return str(tree_util.tree_map(type_text, params))
