"""Rotary positions in the settings of decoders: a base, and one of the changes of frequencies in `xnn.scaling`."""

import math
from collections.abc import Mapping
from typing import Any

from xjax.errors import bad
from xnn.scaling import DynamicScaling, LinearScaling, Llama3Scaling, LongScaling, RotaryScaling, YarnScaling

KINDS = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")


def read_rope(rope: Mapping[str, Any], longest: int) -> RotaryScaling | None:
    """The scaling that the entry `rope` of the settings describes.

    Args: longest: their setting `max_position_embeddings`.
    """
    kind = rope.get("rope_type", rope.get("type")) or "default"
    if kind not in KINDS or rope.get("partial_rotary_factor", 1) != 1:
        raise bad("pretrained.load", f"the scaling {kind!r} of rotary positions is not supported",
                  {"rope": str(dict(rope)), "supported": ", ".join(KINDS)},
                  "load a model with one of these rope_types, and a partial_rotary_factor of 1.", ValueError)
    if kind == "default":
        return None
    missing = [name for name in _NEEDED.get(kind, ()) if rope.get(name) is None]
    if missing:
        raise bad("pretrained.load", f"the scaling {kind!r} of rotary positions needs {', '.join(missing)}",
                  {"rope": str(dict(rope))}, "complete config.json; the model card has the numbers.", ValueError)
    if kind == "dynamic":                           # the one kind whose original context is the longest
        return DynamicScaling(rope["factor"], longest)
    original = rope.get("original_max_position_embeddings") or longest
    factor = rope.get("factor") or longest / original
    match kind:
        case "linear":
            return LinearScaling(factor)
        case "llama3":
            return Llama3Scaling(factor, rope["low_freq_factor"], rope["high_freq_factor"], original)
        case "yarn":
            return YarnScaling(factor, original, rope.get("beta_fast") or 32.0, rope.get("beta_slow") or 1.0,
                               rope.get("truncate", True), _amplitude_of_yarn(rope, factor))
        case _:
            amplitude = rope.get("attention_factor") or (
                math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0)
            return LongScaling(tuple(rope["short_factor"]), tuple(rope["long_factor"]), original, amplitude)


_NEEDED = {"linear": ("factor",), "dynamic": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
           "longrope": ("short_factor", "long_factor")}


def _amplitude_of_yarn(rope: Mapping[str, Any], factor: float) -> float | None:
    """Their attention_factor; None: that of the paper. DeepSeek gives two weights of the logarithm instead."""
    if rope.get("mscale") and rope.get("mscale_all_dim") and not rope.get("attention_factor"):
        above, below = (0.1 * rope[name] * math.log(max(factor, 1.0)) + 1 for name in ("mscale", "mscale_all_dim"))
        return above / below
    return rope.get("attention_factor")


def write_rope(base: float, scaling: RotaryScaling | None) -> dict[str, Any]:
    """Their entry for a base and a scaling."""
    return {"rope_theta": base, **_written(scaling)}


def _written(scaling: RotaryScaling | None) -> dict[str, Any]:
    match scaling:
        case None:
            return {"rope_type": "default"}
        case LinearScaling(factor):
            return {"rope_type": "linear", "factor": factor}
        case DynamicScaling(factor, _):
            return {"rope_type": "dynamic", "factor": factor}
        case Llama3Scaling(factor, low, high, original):
            return {"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                    "original_max_position_embeddings": original}
        case YarnScaling(factor, original, fast, slow, whole, scale):
            return {"rope_type": "yarn", "factor": factor, "beta_fast": fast, "beta_slow": slow, "truncate": whole,
                    "original_max_position_embeddings": original,
                    **({} if scale is None else {"attention_factor": scale})}
        case LongScaling(short, long, original, scale):
            return {"rope_type": "longrope", "short_factor": list(short), "long_factor": list(long),
                    "attention_factor": scale, "original_max_position_embeddings": original}
    raise bad("pretrained.save", "the format has no name for this scaling of rotary positions",
              {"scaling": repr(scaling), "supported": ", ".join(KINDS)}, "use one of xnn.scaling.", ValueError)
