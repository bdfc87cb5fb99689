"""``--list``: the keys of all tasks, or of one, with types, defaults and meanings, read from the config classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.table import Table

from recipes.config import RATES, KernelConfig, RunConfig, close_to, sections_in
from recipes.errors import ConfigError
from recipes.names import on_terminal
from recipes.settings.config_file import task_module, task_names
from recipes.settings.optim import Optimizer

Sections: TypeAlias = Iterator[tuple[str, str, dict[str, Any]]]           # title, prefix of the keys, fields by key


def list_tasks(task: str = "") -> None:
    """Prints the keys of a run, its optimizers and all tasks, or those of one task.  Raises: ConfigError."""
    _print(task, task_names(), sections(), task_sections)


def list_kernel(task: str = "") -> None:
    """Prints the keys of a kernel regression and of its tasks, or those of one task.  Raises: ConfigError."""
    names = [name for name in task_names() if task_module(name).Config.training_only is not None]
    _print(task, names, kernel_sections(), _kernel_sections_of)


def _print(task: str, names: list[str], everything: Sections, of_task: Callable[[str], Sections]) -> None:
    if task and task not in names:
        raise ConfigError("config", f"there is no task {task!r}{close_to(task, names)}.", {"tasks": ", ".join(names)},
                          fix="--list TASK with one of these, or --list for all keys.")
    console = Console(soft_wrap=False)
    for title, prefix, fields in of_task(task) if task else everything:
        console.print(_table(title, prefix, fields))
        console.print()


def kernel_sections() -> Sections:
    """As `sections`, for a kernel regression; without the keys of tasks that are for training."""
    fields = KernelConfig.model_fields
    yield "A kernel regression", "", {key: field for key, field in fields.items() if key not in ("task", "kernel")}
    yield from _below("", {"kernel": fields["kernel"]}, named=False)
    for name in task_names():
        yield from _kernel_sections_of(name)


def _kernel_sections_of(name: str) -> Sections:
    """The sections of one task, without the keys that are for training; none for a task without kernel regression."""
    if (training := task_module(name).Config.training_only) is not None:
        left_out = {f"task.{key}" for key in training} | {f"task.model.{key}" for key in RATES}
        for title, prefix, fields in task_sections(name):
            yield title, prefix, {key: field for key, field in fields.items() if f"{prefix}{key}" not in left_out}


def sections() -> Sections:
    """(Title, prefix of its keys, fields by key) of every section of every config."""
    run = RunConfig.model_fields
    yield "A run", "", {key: field for key, field in run.items() if key not in ("task", "optim")}
    for key in ("early_stopping", "privacy"):
        yield from _below("", {key: run[key]})
    for model in sections_in(Optimizer):
        yield f"optim, {_tag(model)}: {summary(model)}", "optim.", model.model_fields
    yield from _below("optim.", {"schedule": sections_in(Optimizer)[0].model_fields["schedule"]})
    for name in task_names():
        yield from task_sections(name)


def task_sections(name: str) -> Sections:
    """The sections of one task."""
    model = task_module(name).Config
    yield f"task, {name}: {summary(model)}", "task.", model.model_fields
    yield from _below("task.", model.model_fields)


def _below(prefix: str, fields: dict[str, Any], named: bool = True) -> Sections:
    for key, field in fields.items():
        for model in sections_in(field.annotation):
            is_one_of = named and "name" in model.model_fields
            title = f"{prefix}{key}, {_tag(model)}" if is_one_of else f"{prefix}{key}"
            yield f"{title}: {summary(model)}", f"{prefix}{key}.", model.model_fields
            yield from _below(f"{prefix}{key}.", model.model_fields)


def _table(title: str, prefix: str, fields: dict[str, Any]) -> Table:
    table = Table(title=on_terminal(title), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("key", "type", "default", "meaning"):
        table.add_column(heading, overflow="fold")
    for key, field in fields.items():
        cells = (prefix + key, _type_text(field.annotation), _default_text(field), field.description or "")
        table.add_row(*map(on_terminal, cells))
    return table


def summary(model: type[BaseModel]) -> str:
    """The first line of the docstring of a section."""
    return (model.__doc__ or "").strip().splitlines()[0].rstrip(".")


def _tag(model: type[BaseModel]) -> str:
    return str(get_args(model.model_fields["name"].annotation)[0])


def _default_text(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "(needed)"
    if isinstance(field.default, BaseModel):
        return _tag(type(field.default))
    return "none" if field.default in (None, (), {}) else str(field.default)


def _type_text(annotation: object) -> str:
    """A type in words: ``whole number``, ``adam | sgd``, ``list of text``."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_text(args[0])
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(_type_text(each) for each in args))
    if origin is tuple:
        kinds = list(dict.fromkeys(_type_text(each) for each in args if each is not Ellipsis))
        return f"list of {' and '.join(kinds)}"
    if origin is dict:
        return f"{_type_text(args[0])}: {_type_text(args[1])}"
    if args:                                                  # Literal
        return " | ".join(map(str, args))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _tag(annotation) if "name" in annotation.model_fields else "section"
    names = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false", "NoneType": "none",
             "Path": "path"}
    return names.get(getattr(annotation, "__name__", ""), str(annotation))
