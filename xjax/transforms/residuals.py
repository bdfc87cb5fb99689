"""Text about the residuals of a derivative, for `print_saved_residuals` and the option log_checkpoint_residuals."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from xjax.core.config import config
from xjax.core.errors import location_text
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal
from xjax.core.types import ShapedArray
from xjax.transforms.checkpoint_policies import name_p, offload_p
from xjax.transforms.linearize import LinearizedProgram

_logger = logging.getLogger("xjax")


def origins(j: Jaxpr, names: Sequence[str]) -> list[tuple[ShapedArray, str]]:
    """(type, origin) of each output, each value once. Args: names: names of the inputs."""
    kept = {v for v in j.outvars if type(v) is not Literal}
    rows = [(v.aval, "from a literal") for v in j.outvars if type(v) is Literal]
    rows += [(v.aval, "from a constant") for v in j.constvars if v in kept]
    rows += [(v.aval, f"from the argument {name}") for v, name in zip(j.invars, names, strict=True) if v in kept]
    for eqn in j.eqns:
        for k, v in enumerate(eqn.outvars):
            if v in kept:
                rows.append((v.aval, _origin(j, eqn, k)))
    return rows


def _origin(j: Jaxpr, eqn: Eqn, k: int) -> str:
    """The origin of result `k` of an operation of `j`; for `checkpoint`, the operation inside its function."""
    calls = eqn.primitive.calls
    if eqn.primitive is offload_p:
        for other in j.eqns:
            if eqn.invars[0] in other.outvars:
                return _origin(j, other, other.outvars.index(eqn.invars[0]))
    if calls is not None and not calls.plain and type(eqn.params[calls.param]) is ClosedJaxpr:
        inner = eqn.params[calls.param].jaxpr
        for other in inner.eqns:
            if inner.outvars[k] in other.outvars:
                return _origin(inner, other, other.outvars.index(inner.outvars[k]))
    if eqn.primitive is name_p:
        what = f"named '{eqn.params['name']}'"
    elif calls is not None and calls.plain:
        what = f"output of jitted function '{eqn.params['name']}'"
    else:
        what = f"output of {eqn.primitive.name}"
    return f"{what} from {location_text(eqn.source)}"


def log_residuals(lin: LinearizedProgram) -> None:
    """Log the residuals of a checkpoint: as a warning with the option log_checkpoint_residuals, else at level DEBUG."""
    level = logging.WARNING if config.log_checkpoint_residuals else logging.DEBUG
    if not _logger.isEnabledFor(level):
        return
    j = lin.forward.jaxpr
    inputs = [j.invars[i].aval.str_short() for i in lin.forwarded if i is not None]
    first = len(j.outvars) - lin.forwarded.count(None)
    saved = [f"{aval.str_short()} {origin}"
             for aval, origin in origins(j.replace(outvars=j.outvars[first:]), [""] * len(j.invars))]
    parts = [f"{title}:\n  " + "\n  ".join(lines)
             for title, lines in (("inputs with shapes", inputs), ("these intermediates", saved)) if lines]
    _logger.log(level, "remat-decorated function saving %s", "\nand saving ".join(parts) or "nothing")
