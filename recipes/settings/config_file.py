"""From a YAML file and overrides to a checked config: `load_config`. One `ConfigError` reports all faults."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from recipes.config import KernelConfig, RunConfig, TaskConfig, close_to
from recipes.errors import ConfigError
from recipes.settings.config_faults import Fault, Path_, Place, Sources, explained, table_of
from recipes.settings.optim import Optimizer


def load_config(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads config ``name`` with ``key.path=value`` overrides.

    Args:
      name: looked up as a path, then in ``./configs``, then among the configs shipped with this package; ``.yaml`` may
        be left out.
      overrides: their values are YAML; of several for one key, the last one counts.
    Raises: ConfigError with every fault of the file and the overrides.
    """
    return _checked(find_config(name), overrides, lambda task: RunConfig[task, Optimizer], "train")


def load_kernel_config(name: str, overrides: Sequence[str] = ()) -> KernelConfig:
    """`load_config` for a kernel regression."""
    return _checked(find_config(name), overrides, lambda task: KernelConfig[task], "kernel", with_kernel_only=True)


def _checked(file: Path, overrides: Sequence[str], kind_of: Callable[[Any], type[Any]], command: str,
             with_kernel_only: bool = False) -> Any:
    """The checked config.  Raises: ConfigError.

    Args: kind_of: section of the task -> class of the config; command: that has ``--list``.
    """
    tree, sources, faults = _read_yaml(file)
    for text in overrides:
        _override(tree, text, sources, faults)
    task = _task_of(tree, sources, faults)
    kind = kind_of(task or Any)
    config = None
    if with_kernel_only and task is not None and task.training_only is None:
        others = ", ".join(name for name in task_names() if task_module(name).Config.training_only is not None)
        faults.append((sources.get(("task", "name"), FILE).line, "task.name",
                       f"{tree['task']['name']} has no kernel regression; tasks that have one: {others}"))
        tree = {}
    try:
        config = None if not tree and faults else kind.model_validate(tree)
    except ValidationError as err:
        faults += [explained(error, sources, kind) for error in err.errors(include_url=False)]
    except RecursionError:
        faults.append(("file", "", "is nested too deeply"))
    if faults or config is None:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        keys = f"`python -m recipes.{command} --list` has all keys and their defaults"
        raise ConfigError("config", f"{count} in {file}.", table_of(faults), fix=f"correct them all; {keys}.")
    return config


# ---- files ------------------------------------------------------------------------------------------------------


def find_config(name: str) -> Path:
    """The file of the config ``name``.  Raises: ConfigError with the folders searched and the names in them."""
    names = (name,) if name.endswith((".yaml", ".yml")) else (name, f"{name}.yaml")
    for folder in (Path(), Path("configs"), shipped_configs()):
        for candidate in (folder / Path(n).expanduser() for n in names):
            if candidate.is_file():
                return candidate
    known = sorted({p.name for d in (Path("configs"), shipped_configs()) for p in d.glob("*.yaml")})
    raise ConfigError("config", f"there is no config {name!r}{close_to(Path(names[-1]).name, known)}",
                      {"looked in": f"., ./configs, {shipped_configs()}", "known": ", ".join(known)},
                      fix="--config PATH, or one of the known names.")


def shipped_configs() -> Path:
    """The folder of the configs in this package; in a checkout it is a link to ``configs`` in the root folder."""
    return Path(str(resources.files("recipes"))) / "configs"


def _read_yaml(file: Path) -> tuple[dict[str, Any], Sources, list[Fault]]:
    try:
        text = file.read_text("utf-8")
        root = yaml.compose(text, Loader=_Loader)
        tree = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as err:   # dates out of range are ValueErrors
        why = "it is nested too deeply" if isinstance(err, RecursionError) else " ".join(str(err).split())
        raise ConfigError("config", "the file cannot be read as YAML.", {"file": file, "why": why},
                          fix="correct its syntax, or its permissions.") from None
    if tree is None:
        tree, root = {}, yaml.MappingNode("", [])
    if not isinstance(tree, dict):
        raise ConfigError("config", f"the file must hold a mapping, and holds a {type(tree).__name__}.", {"file": file},
                          fix="write it as `key: value` lines.")
    sources: Sources = {}
    faults: list[Fault] = []
    _walk(root, (), sources, faults)
    return tree, sources, faults


FILE = Place("file")


class _OtherNumber(yaml.constructor.ConstructorError):
    """The error for a number that YAML 1.1 turns into another one."""


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases: no config needs them, and a few lines with aliases can expand to gigabytes.

    Of the numbers of YAML 1.1, octal ones (010 is 8) and those to the base 60 (1:30 is 90) are errors.
    """

    def check_printable(self, data: str) -> None:
        """Any character is allowed in a name but NUL, which ends the text for the rest of PyYAML."""
        if "\0" in data:
            super().check_printable(data)

    def construct_yaml_int(self, node: yaml.Node) -> int:
        return self._same_number(node, super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.Node) -> float:
        return self._same_number(node, super().construct_yaml_float(node))

    def _same_number(self, node: yaml.Node, value: Any) -> Any:
        text = str(node.value).replace("_", "")
        if ":" in text or (text.lstrip("+-").isdecimal() and int(text) != value):
            raise _OtherNumber(None, None, f"YAML reads {node.value} as {value}; write {value} for this number, or "
                                           f"'{node.value}', in quotes, for a text", node.start_mark)
        return value

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not used in configs", mark)
        return super().compose_node(parent, index)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", getattr(_Loader, f"construct_yaml_{_kind}"))


def _walk(node: yaml.Node, path: Path_, sources: Sources, faults: list[Fault]) -> None:
    """Notes the line of every key; a duplicate key is a fault (YAML keeps the last)."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        here = (*path, str(key.value))
        line = f"line {key.start_mark.line + 1}"
        if here in sources:
            faults.append((line, ".".join(here), f"duplicate key; first defined in {sources[here].line}"))
            for below in [path for path in sources if path[:len(here)] == here]:
                del sources[below]                 # one fault for the section, none for its keys
        sources[here] = Place(line, value.value if isinstance(value, yaml.ScalarNode) else "")
        _walk(value, here, sources, faults)


def _override(tree: dict[str, Any], text: str, sources: Sources, faults: list[Fault]) -> None:
    """Sets one ``key.path=value`` in ``tree``; an override that cannot be set is a fault."""
    key, equals, value = text.partition("=")
    path = tuple(key.split("."))
    if not equals or not all(path):
        faults.append(("override", text, "an override is key.path=value"))
        return
    try:
        leaf = _value_of(value)
    except _OtherNumber as err:
        faults.append(("override", key, str(err.problem)))
        return
    for depth, name in enumerate(path[:-1], start=1):
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            above = ".".join(path[:depth])
            faults.append(("override", text, f"{above} is a value ({inner!r}), not a section"))
            return
        tree = inner
    tree[path[-1]] = leaf
    sources[path] = Place("override", value)


def _value_of(text: str) -> Any:
    """The value of an override: YAML without comments, since names contain ``#``; a text that is not YAML is itself.

    Raises: _OtherNumber.
    """
    try:
        node, value = yaml.compose(text, _Loader), yaml.load(text, _Loader)
    except _OtherNumber:
        raise
    except (yaml.YAMLError, ValueError, RecursionError):      # such as "[v2]/a.csv" or "@home"
        return text
    if node is None or (isinstance(node, yaml.ScalarNode) and node.end_mark.index < len(text.rstrip())):
        return text.strip() or None                           # YAML leaves out only comments
    return value


# ---- the file of the task ---------------------------------------------------------------------------------------


def task_names() -> list[str]:
    """Names of the files in recipes/tasks."""
    folder = Path(str(resources.files("recipes"))) / "tasks"
    return sorted(file.stem for file in folder.glob("*.py") if not file.stem.startswith("_"))


def task_module(name: str) -> ModuleType:
    """The file of a task, which has `Config`, `load` and `make`; see `recipes.task`.  Raises: LookupError."""
    if name.endswith(".py"):
        return _module_of(Path(name))
    if name not in task_names():
        raise LookupError(f"there is no task {name!r}{close_to(name, task_names())}")
    return importlib.import_module(f"recipes.tasks.{name}")


def _module_of(file: Path) -> ModuleType:
    """The module of a task's file outside the package, loaded once."""
    key = f"recipes_task_of {file.expanduser().absolute()}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, file.expanduser())
        if spec is None or spec.loader is None or not file.expanduser().is_file():
            raise LookupError(f"there is no file {str(file)!r}")
        module = sys.modules[key] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[key]
            raise
    return sys.modules[key]


def _task_of(tree: dict[str, Any], sources: Sources, faults: list[Fault]) -> type[TaskConfig] | None:
    """The `Config` of the task that the section ``task`` names; if there is none, adds a fault."""
    section = tree.get("task")
    name = section.get("name") if isinstance(section, dict) else None
    if isinstance(name, str):
        try:
            return task_module(name).Config
        except LookupError as err:
            faults.append((sources.get(("task", "name"), FILE).line, "task.name", str(err)))
    elif isinstance(section, dict):
        faults.append((sources.get(("task", "name"), sources.get(("task",), FILE)).line, "task.name",
                       f"needs a name: one of {', '.join(task_names())}"))
    return None


def all_sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Name and `Config` of each task."""
    for name in task_names():
        yield name, task_module(name).Config
