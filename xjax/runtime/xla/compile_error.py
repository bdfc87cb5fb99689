"""`CompileError`: XLA's message about the text of a program, with the line in question."""

import re

from xjax.core.errors import bad


class CompileError(RuntimeError):
    """XLA could not read a program that xjax made; ``.text`` is the program."""

    text: str = ""


# "-:2:23: error: expected ','" from the compiler, '"-":2:23: expected' from the MLIR bindings
_POSITION = re.compile(r'(?:^|\s)"?-"?:(\d+):(\d+):? (?:error: )?(.*)', re.MULTILINE)
_BEFORE, _SHOWN = 120, 200  # characters shown of a long line: before the fault, and in total


def of_option(message: str) -> ValueError | None:
    """xjax's error for an option that XLA refuses; None if `message` is about something else."""
    if "compile option" not in message and "While setting option" not in message:
        return None
    what = message.partition(": ")[2].strip().rstrip(".")
    return bad("compiler_options", f"XLA refuses an option: {what[:1].lower()}{what[1:]}",
               fix='pass XLA flags as a dict, such as {"xla_cpu_enable_fast_math": False}.', exc=ValueError)


def at_line(message: str, text: str) -> CompileError | None:
    """xjax's error for a fault at some line of `text`; None if `message` names no line."""
    if (match := _POSITION.search(message)) is None:
        return None
    lines = text.splitlines()
    number, column = int(match[1]), int(match[2])
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    start = max(0, min(column - 1, len(line)) - _BEFORE)
    error = bad(
        "compile",
        "XLA cannot read the program that xjax made.",
        {f"line {number}": line[start : start + _SHOWN].strip(), "message": match[3].strip()[:300]},
        "this is a fault of xjax: please report it with the program (`.text` of this error).",
        exc=CompileError,
    )
    error.text = text
    return error
