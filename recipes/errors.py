"""Errors of the recipes: what a user may do wrong, told in the house format.

``where: what is wrong.``, one line per given value, then a ``fix:`` that works.  The command line
prints this text alone, without a traceback; ``exit_code`` is what the process returns.
"""

from __future__ import annotations

from collections.abc import Mapping


class RecipeError(Exception):
    """A run cannot start or go on, and the user can do something about it."""

    exit_code = 1

    def __init__(
        self, where: str, what: str, given: Mapping[str, object] | None = None, fix: str = ""
    ) -> None:
        given = given or {}
        width = max((len(name) for name in given), default=0)
        lines = [f"{where}: {what}"]
        lines += [f"  {name:<{width}}  {value}" for name, value in given.items()]
        lines += [f"  fix: {fix}"] if fix else []
        super().__init__("\n".join(lines))


class ConfigError(RecipeError):
    """The config file or an override is wrong; every fault stands in the one message."""

    exit_code = 2


class DataError(RecipeError):
    """A data file is missing, damaged, or not what its name promises."""


class CheckpointError(RecipeError):
    """A checkpoint could not be written, or is not what was written."""


class DivergedError(RecipeError):
    """Training produced a NaN or an infinity."""
