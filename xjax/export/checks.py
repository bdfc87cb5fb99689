"""Checks of a module before it is saved: foreign functions that other versions may not have; `DisabledSafetyCheck`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xjax.core.errors import bad

# Foreign functions that versions of jaxlib keep: linear algebra, shardings, and those of StableHLO itself.
_STABLE = re.compile(
    r"lapack_[sdcz]\w+_ffi|cu(solver|sparse|blas)\w*_\w+_ffi|cu_lu_pivots_to_permutation|cu_threefry2x32_ffi"
    r"|Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement|shape_assertion|AllocateBuffer"
    r"|stablehlo\.dynamic_(reduce_window|rng_bit_generator|top_k|approx_top_k)|ApproxTopK")


class DisabledSafetyCheck:
    """A check that `export` omits: made by `platform` or `custom_call`.

    >>> DisabledSafetyCheck.custom_call("my_kernel")
    custom_call:my_kernel
    """

    def __init__(self, _impl: str):
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Allow calls on platforms for which the function was not exported."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allow a module that calls the foreign function `target_name`, which other versions may not have."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the foreign function that is allowed; None for another check."""
        match = re.fullmatch("custom_call:(.+)", self._impl)
        return match[1] if match else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return self._impl


def check_foreign_calls(caller: str, text: str, disabled: Iterable[DisabledSafetyCheck]) -> None:
    """Raise ValueError if a module calls a foreign function that other versions of jaxlib may not have."""
    allowed = {check.is_custom_call() for check in disabled}
    called = set(re.findall(r'custom_call @"?([\w.$]+)|call_target_name = "([^"]+)"', text))
    names = {a or b for a, b in called}
    unknown = sorted(name for name in names if name not in allowed and not _STABLE.fullmatch(name))
    if unknown and "ALL" not in allowed:
        raise bad(caller, "the program calls foreign functions that other versions may not have",
                  {"functions": ", ".join(unknown)},
                  f"pass disabled_checks=[export.DisabledSafetyCheck.custom_call({unknown[0]!r})], or avoid the call.",
                  ValueError)
