"""Errors of pydantic about a config as readable lines: place, key, and the expected value."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from recipes.config import close_to, sections_in

Path_ = tuple[str, ...]


class Place(NamedTuple):
    """Where a key gets its value.  Attributes: line: "line 7", "override"; text: of the value, as it is there."""

    line: str
    text: str = ""


Sources = dict[Path_, Place]                                  # by key path
Fault = tuple[str, str, str]                                  # "line 7", "task.hiden", what is wrong


def explained(error: Mapping[str, Any], sources: Sources, config: type[BaseModel]) -> Fault:
    """One error of pydantic.  Args: sources: key path -> its place; config: the validated class."""
    if error["type"] == "at_key":
        loc = tuple(error["ctx"]["key"].split("."))
    else:
        loc = _without_tags(tuple(str(part) for part in error["loc"]), config)
    place = next((sources[loc[:n]] for n in range(len(loc), 0, -1) if loc[:n] in sources), Place("file"))
    what = _words(error, loc, config)
    if error["type"] in ("string_type", "path_type"):
        what += _quoted(".".join(loc), sources.get(loc), place.line == "override")
    return place.line, ".".join(loc), what


def _quoted(key: str, place: Place | None, is_override: bool) -> str:
    """The advice for a text that YAML reads as something else, such as ``yes``, ``2020-01-01`` or ``[a]``."""
    if place is None or not place.text.strip():
        return "; put it in quotes"
    text = "'" + place.text.strip().replace("'", "''") + "'"
    if is_override:
        argument = f"{key}={text}"
        text = shlex.quote(argument) if set(argument) & set('"$`\\!') else f'"{argument}"'
    return f", which YAML makes of {place.text.strip()}; quote it: {text}"


def table_of(faults: list[Fault]) -> dict[str, str]:
    """Place and key -> its faults, joined."""
    width = max((len(line) for line, _, _ in faults), default=0)
    out: dict[str, str] = {}
    for line, key, what in faults:
        place = f"{line:<{width}}  {key}"
        out[place] = f"{out[place]}; {what}" if place in out else what
    return out


def _words(error: Mapping[str, Any], loc: Path_, config: type[BaseModel]) -> str:
    kind, got = error["type"], error["input"]
    if kind == "at_key":
        return error["ctx"]["what"]
    if kind == "extra_forbidden":
        elsewhere = getattr(config, "elsewhere", {}).get(loc[0]) if len(loc) == 1 else None
        return elsewhere or "unknown key" + _right_key(loc, config)
    if kind == "missing":
        return "a value is needed here" + (f", or as the argument {'.'.join(loc)}=VALUE" if len(loc) > 1 else "")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        options = [word.strip("' ") for word in error["ctx"].get("expected_tags", "").split(",")]
        tag = error["ctx"].get("tag")
        if not any(options):
            options = sorted({name for model in _models_at(loc, config) for name in _names(model)})
        if not isinstance(got, dict | BaseModel):
            return f"must be a section of keys, got {_short(got)}"
        if not tag:
            return f"needs a name: one of {', '.join(options)}"
        return f"there is no {loc[-1]} {tag!r}" + (close_to(str(tag), options) or f"; one of {', '.join(options)}")
    if kind == "literal_error":
        expected = error["ctx"]["expected"]
        options = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
        return f"must be {expected}, got {got!r}{close_to(str(got), options)}"
    if kind == "path_type":
        return f"must be a path, got {_short(got)}"
    if kind == "string_type":
        return f"must be a text, got {_short(got)}"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"must be {message[:1].lower()}{message[1:]}, got {_short(got)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# ---- places in the config -------------------------------------------------------------------------------------


def _without_tags(loc: Path_, config: type[BaseModel]) -> Path_:
    """The key path without the names of union members that pydantic inserts, and that no config contains."""
    out: list[str] = []
    models = [config]
    for part in loc:
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        if fields:
            out.append(part)
            models = [each for field in fields for each in sections_in(field.annotation)]
        elif len(models) > 1 and any(part in _names(model) for model in models):
            models = [model for model in models if part in _names(model)]
        else:
            out.append(part)
    return tuple(out)


def _right_key(loc: Path_, config: type[BaseModel]) -> str:
    """A hint for an unknown key: the section that it belongs to, or the key that it resembles."""
    *section, key = loc
    everywhere = {".".join(path): path for path in _paths(config)}
    homes = [text for text, path in everywhere.items() if path[-1] == key]
    if ".".join(loc) in homes:                                # of another class of a union, such as an optimizer
        owners = sorted({name for model in _models_at(tuple(section), config) if key in model.model_fields
                         for name in _names(model)})
        return f": it is a key of {', '.join(owners)} only"
    if homes:
        return f"; did you mean {homes[0]!r}?"
    siblings = [path[-1] for path in everywhere.values() if path[:-1] == tuple(section)]
    return close_to(key, siblings) or f"; known: {', '.join(dict.fromkeys(siblings))}"


def _paths(config: type[BaseModel], path: Path_ = ()) -> Iterator[Path_]:
    """The key paths of a config, those near the root first."""
    yield from ((*path, name) for name in config.model_fields)
    for name, field in config.model_fields.items():
        for model in sections_in(field.annotation):
            yield from _paths(model, (*path, name))


def _names(model: type[BaseModel]) -> tuple[Any, ...]:
    field = model.model_fields.get("name")
    return get_args(field.annotation) if field else ()


def _models_at(loc: Path_, config: type[BaseModel]) -> list[type[BaseModel]]:
    models = [config]
    for part in loc:
        models = [each for model in models if part in model.model_fields
                  for each in sections_in(model.model_fields[part].annotation)]
    return models
