"""Versions of parameter formats, saved with parameters, so that a layer with a new format can read old parameters."""

from collections.abc import Iterator, Mapping
from typing import Any

from xjax.errors import bad
from xnn.layer import Layer, Params
from xnn.sharing import shared_slot, slots_of


def versions(layer: Layer) -> dict[str, int]:
    """The version of each layer of a model, by path; only versions above 1, so ``{}`` for most models.

    Save it with the parameters, for example as JSON.

    >>> from xnn import Dense, Relu, serial
    >>> versions(serial(Dense(3), Relu))
    {}
    """
    return {path: one.version for path, one in _leaves("", layer) if one.version > 1}


def upgrade(layer: Layer, params: Params, saved: Mapping[str, int]) -> Params:
    """Saved parameters converted to the current format of the layers.

    Args: saved: the result of `versions` when the parameters were saved.
    Raises: ValueError if a path of `saved` is not in the model, or if a layer is older than its parameters or cannot
      read them.
    """
    unknown = [path for path in saved if path not in dict(_leaves("", layer))]
    if unknown:
        raise bad("params.upgrade", "the parameters belong to another model", {"no such layer": ", ".join(unknown)},
                  fix="pass the model with which they were saved; merge() reads a part of them.", exc=ValueError)
    return _upgraded("", layer, params, saved)


def _leaves(path: str, layer: Layer) -> Iterator[tuple[str, Layer]]:
    """The layers without children, with the path of their parameters; shared layers only at their slot."""
    if layer.parts is None:
        yield path, layer
    elif shared_slot(layer) is None:
        for slot, child in slots_of(layer).items():
            yield from _leaves(_joined(path, f"shared/{slot}"), child)
        for key, child in layer.parts.children.items():
            yield from _leaves(_joined(path, key), child)


def _joined(path: str, key: Any) -> str:
    return path if key is None else f"{path}/{key}" if path else str(key)


def _upgraded(path: str, layer: Layer, params: Params, saved: Mapping[str, int]) -> Params:
    if layer.parts is None:
        return _of_leaf(path, layer, params, saved.get(path, 1))
    if shared_slot(layer) is not None:
        return params
    children = layer.parts.children
    if None in children:
        return _upgraded(path, children[None], params, saved)
    entries = {key: _upgraded(_joined(path, key), child, params[key], saved) for key, child in children.items()}
    slots = slots_of(layer)
    if slots:
        weights = {slot: _upgraded(_joined(path, f"shared/{slot}"), child, params["shared"][slot], saved)
                   for slot, child in slots.items()}
        return {"shared": weights, **entries}
    return entries if isinstance(params, Mapping) else type(params)(entries.values())


def _of_leaf(path: str, layer: Layer, params: Params, version: int) -> Params:
    if version == layer.version:
        return params
    context = {"layer": f"{path or 'the model'}: {layer.name}", "saved version": version, "its version": layer.version}
    if version > layer.version:
        raise bad("params.upgrade", "the parameters are newer than the layer", context,
                  fix="update the package that defines the layer.", exc=ValueError)
    if layer.upgrade is None:
        raise bad("params.upgrade", "the layer cannot read older parameters", context,
                  fix="define it with upgrade=, a function (params, version) -> params.", exc=ValueError)
    return layer.upgrade(params, version)
