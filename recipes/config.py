"""The config: frozen, typed models, and how a YAML file and overrides become one.

Every default stands here and nowhere else.  `load_config` finds the file, applies the
``key.path=value`` overrides and checks the whole; all faults come out in one `ConfigError`.
Nothing in this file, or below it, imports jaxlib: a typing mistake costs no start-up time.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from recipes.errors import ConfigError


def _no_bool(value: Any) -> Any:
    """YAML reads ``yes`` and ``on`` as true, and Python takes true for 1: neither is a number."""
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


_Number = BeforeValidator(_no_bool)
Count = Annotated[int, _Number, Field(gt=0)]
Index = Annotated[int, _Number, Field(ge=0)]
Positive = Annotated[float, _Number, Field(gt=0)]
NotNegative = Annotated[float, _Number, Field(ge=0)]
Fraction = Annotated[float, _Number, Field(ge=0, lt=1)]
Seed = Annotated[int, _Number, Field(ge=0, lt=2**32)]


class Frozen(BaseModel):
    """Base of all configs: immutable, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class OptimConfig(Frozen):
    """An optax chain; see `recipes.optim`."""

    name: Literal["adam", "adamw", "sgd"] = "adam"
    lr: Positive = 0.01
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: Index = 0
    momentum: Fraction = 0.0  # sgd only
    weight_decay: NotNegative = 0.0  # in the gradient (L2); adamw: beside it
    decay_on: Literal["all", "first_layer"] = "all"
    clip_norm: Positive | None = None  # of the global gradient


def _planetoid_dir() -> Path:
    return Path(os.environ.get("PLANETOID_DIR", "data/planetoid"))


class NodeClassificationConfig(Frozen):
    """A two-layer GCN, full batch; see `recipes.tasks.node_classification`."""

    name: Literal["node_classification"]
    dataset: Literal["karate", "cora", "citeseer", "pubmed"] = "karate"
    root: Path = Field(default_factory=_planetoid_dir)  # folder of the ind.* files
    labelled: tuple[Index, ...] = (0, 33)  # karate only: the nodes trained on
    norm: Literal["symmetric", "row"] = "symmetric"
    hidden: Count = 16
    dropout: Fraction = 0.5


class TableConfig(Frozen):
    """An MLP on the columns of a csv or parquet file; see `recipes.tasks.table`."""

    name: Literal["table"]
    file: Path
    target: str
    features: tuple[str, ...] | None = None  # None: every number column but the target
    kind: Literal["classification", "regression"] = "classification"
    hidden: tuple[Count, ...] = (64, 64)
    dropout: Fraction = 0.0
    batch_size: Count = 64  # global; divided over the devices
    val_fraction: Fraction = 0.15
    test_fraction: Fraction = 0.15
    split_seed: Index = 0


class TrainConfig(Frozen):
    """One run."""

    task: Annotated[NodeClassificationConfig | TableConfig, Field(discriminator="name")]
    optim: OptimConfig = OptimConfig()
    steps: Count = 200
    seed: Seed = 0
    devices: Count | None = None  # None: all of this process
    log_every: Count = 10  # steps between two reads of the metrics
    eval_every: Count = 10
    checkpoint_every: Count = 100
    keep_checkpoints: Count = 2
    run_dir: Path | None = None  # None: runs/<name of the config file>

    def to_yaml(self) -> str:
        """The resolved config: fed back as a file it gives the same run."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


# ---- from a file and overrides to a TrainConfig --------------------------------------------------


def load_config(name: str, overrides: Sequence[str] = ()) -> TrainConfig:
    """Reads config ``name`` with ``key.path=value`` overrides.

    Args:
        name: looked up as a path, then in ``./configs``, then among the configs shipped with this
            package; ``.yaml`` may be left out.
        overrides: values are read as YAML; the last one of a key wins.

    Raises: ConfigError with every fault of file and overrides.
    """
    file = find_config(name)
    tree, sources, faults = _read_yaml(file)
    for text in overrides:
        _override(tree, text, sources, faults)
    try:
        config = TrainConfig.model_validate(tree)
    except ValidationError as err:
        section = tree.get("task")
        task = str(section.get("name")) if isinstance(section, dict) else ""
        faults += [_fault(error, sources, task) for error in err.errors(include_url=False)]
    if faults:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        fix = "correct them all; the known keys and their defaults stand in recipes/config.py."
        raise ConfigError("config", f"{count} in {file}.", _table(faults), fix=fix)
    return config


def find_config(name: str) -> Path:
    """The file that ``name`` means.  Raises: ConfigError with the places and the names there."""
    shipped = _shipped_configs()
    names = (name,) if name.endswith((".yaml", ".yml")) else (name, f"{name}.yaml")
    for folder in (Path(), Path("configs"), shipped):
        for candidate in (folder / n for n in names):
            if candidate.is_file():
                return candidate
    known = sorted({p.name for d in (Path("configs"), shipped) for p in d.glob("*.yaml")})
    close = difflib.get_close_matches(Path(names[-1]).name, known, n=1)
    raise ConfigError(
        "config",
        f"there is no config {name!r}." + (f"  Did you mean {close[0]!r}?" if close else ""),
        {"looked in": f"., ./configs, {shipped}", "known": ", ".join(known)},
        fix="--config PATH, or one of the known names.",
    )


def _shipped_configs() -> Path:
    """``recipes/configs`` of an installed wheel; ``configs`` beside the package in a checkout."""
    package = Path(str(resources.files("recipes")))
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


Path_ = tuple[str, ...]
Sources = dict[Path_, str]  # key path -> "line 7" or the override's text
Fault = tuple[str, str, str]  # "line 7", "task.hiden", what is wrong


def _read_yaml(file: Path) -> tuple[dict[str, Any], Sources, list[Fault]]:
    try:
        root = yaml.compose(file.read_text("utf-8"), Loader=yaml.SafeLoader)
        tree = yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        why = " ".join(str(err).split())
        raise ConfigError(
            "config", "the file is not YAML.", {"file": file, "why": why}, fix="correct its syntax."
        ) from None
    if tree is None:
        tree, root = {}, yaml.MappingNode("", [])
    if not isinstance(tree, dict):
        what = f"the file must hold a mapping, and holds a {type(tree).__name__}."
        raise ConfigError("config", what, {"file": file}, fix="write it as `key: value` lines.")
    sources: Sources = {}
    faults: list[Fault] = []
    _walk(root, (), sources, faults)
    return tree, sources, faults


def _walk(node: yaml.Node, path: Path_, sources: Sources, faults: list[Fault]) -> None:
    """Notes the line of every key; a key that stands twice is a fault (YAML keeps the last)."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        here = (*path, str(key.value))
        line = f"line {key.start_mark.line + 1}"
        if here in sources:
            faults.append((line, ".".join(here), f"stands twice; first in {sources[here]}"))
            for below in [path for path in sources if path[: len(here)] == here]:
                del sources[below]  # one fault for the section, none for what stands in it
        sources[here] = line
        _walk(value, here, sources, faults)


def _override(tree: dict[str, Any], text: str, sources: Sources, faults: list[Fault]) -> None:
    """Sets one ``key.path=value`` in ``tree``; what cannot be set is a fault."""
    key, equals, value = text.partition("=")
    path = tuple(key.split("."))
    if not equals or not all(path):
        faults.append(("override", text, "an override is key.path=value"))
        return
    try:
        leaf = yaml.safe_load(value)
    except yaml.YAMLError as err:
        faults.append(("override", text, f"the value is not YAML: {' '.join(str(err).split())}"))
        return
    for depth, name in enumerate(path[:-1], start=1):
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            above = ".".join(path[:depth])
            faults.append(("override", text, f"{above} is a value ({inner!r}), not a section"))
            return
        tree = inner
    tree[path[-1]] = leaf
    sources[path] = "override"


def _table(faults: list[Fault]) -> dict[str, str]:
    """One entry for each place, its faults joined."""
    width = max(len(line) for line, _, _ in faults)
    out: dict[str, str] = {}
    for line, key, what in faults:
        place = f"{line:<{width}}  {key}"
        out[place] = f"{out[place]}; {what}" if place in out else what
    return out


_TASKS = {"node_classification": NodeClassificationConfig, "table": TableConfig}


def _fault(error: Any, sources: Sources, task: str) -> Fault:
    loc = tuple(str(part) for part in error["loc"])
    if loc[0] == "task" and len(loc) > 1:
        loc = (loc[0], *loc[2:])  # pydantic puts the name of the union's member into the path
    homes: dict[str, type[BaseModel]] = {"": TrainConfig, "optim": OptimConfig}
    if task in _TASKS:
        homes["task"] = _TASKS[task]
    line = next((sources[loc[:n]] for n in range(len(loc), 0, -1) if loc[:n] in sources), "file")
    return line, ".".join(loc), _explain(error, loc, homes)


def _explain(error: Any, loc: Path_, homes: dict[str, type[BaseModel]]) -> str:
    kind, got = error["type"], error["input"]
    if kind == "extra_forbidden":
        return "unknown key" + _right_key(loc, homes)
    if kind == "missing":
        return "a value is needed here"
    if kind == "union_tag_not_found":
        return f"needs a name: one of {', '.join(_TASKS)}"
    if kind == "union_tag_invalid":
        tag = error["ctx"]["tag"]
        return f"there is no task {tag!r}" + _did_you_mean(tag, list(_TASKS))
    if kind == "literal_error":
        expected = error["ctx"]["expected"]
        options = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
        close = difflib.get_close_matches(str(got), options, n=1)
        return f"must be {expected}, got {got!r}" + (f"; did you mean {close[0]!r}?" * bool(close))
    if kind == "path_type":
        return f"must be a path, got {got!r}"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"must be {message}, got {got!r}"


def _right_key(loc: Path_, homes: dict[str, type[BaseModel]]) -> str:
    """A hint for an unknown key: the section it belongs to, or the key it resembles."""
    *section, key = loc
    for place, model in homes.items():
        if key in model.model_fields:
            return f"; did you mean {'.'.join(filter(None, (place, key)))!r}?"
    return _did_you_mean(key, list(homes.get(".".join(section), TrainConfig).model_fields))


def _did_you_mean(word: str, options: list[str]) -> str:
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(options)}"
