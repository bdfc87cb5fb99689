"""The config of a run: frozen, typed models. Defaults are here, in `recipes.settings.optim` and in the tasks' files.

`recipes.settings.config_file` makes a config from a YAML file and overrides. This module does not load jaxlib, so a
mistake is reported at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from xnn.sizes import bytes_of


def _no_bool(value: object) -> object:
    """Rejects booleans: YAML reads ``yes`` and ``on`` as true, and Python accepts true as the number 1."""
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


def _absolute(path: Path) -> Path:
    """The absolute path, since a run may be resumed or read with another current folder."""
    return path.expanduser().absolute()


_Number = BeforeValidator(_no_bool)
Count = Annotated[int, _Number, Field(gt=0)]
Index = Annotated[int, _Number, Field(ge=0)]
Positive = Annotated[float, _Number, Field(gt=0)]
NotNegative = Annotated[float, _Number, Field(ge=0)]
Fraction = Annotated[float, _Number, Field(ge=0, lt=1)]
ValFraction = Annotated[Fraction, Field(description="Share of the examples for validation.")]
TestFraction = Annotated[Fraction, Field(description="Share of the examples for the test.")]
Seed = Annotated[int, _Number, Field(ge=0, lt=2**32)]
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]


class Frozen(BaseModel):
    """Base of all configs: immutable, and an unknown key is an error.

    The docstring of a field is its meaning, which ``--list`` prints.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    def to_yaml(self) -> str:
        """The resolved config: used as a config file, it gives the same run."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def is_changed(self, key: str) -> bool:
        """Whether a key is not at its default; a saved config sets all keys, so `model_fields_set` cannot be used."""
        return getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True)


class TaskConfig(Frozen):
    """Base of the `Config` in each file of `recipes.tasks`."""

    # The keys without an effect on kernel regression, which has no steps; None: the task has no kernel regression.
    training_only: ClassVar[tuple[str, ...] | None] = None

    name: str
    """A file in recipes/tasks, without .py; or the path of such a file elsewhere, with .py."""


class SplitFractions(TaskConfig):
    """Keys of a task that splits its examples; each task has its own defaults. The rest is for training."""

    val_fraction: Fraction | None = None
    test_fraction: Fraction | None = None

    @property
    def fractions(self) -> tuple[float, float]:
        """The shares for validation and for the test; 0.2 where none is given."""
        val, test = (0.2 if each is None else each for each in (self.val_fraction, self.test_fraction))
        return val, test

    @model_validator(mode="after")
    def _check_fractions(self) -> SplitFractions:
        if sum(self.fractions) >= 1:
            raise fault("task.test_fraction", "leaves nothing to train on, together with task.val_fraction")
        return self


class StratifiedSplit(SplitFractions):
    """Keys of a task that splits examples with classes at random."""

    stratify: bool = True
    """Whether a split that is drawn at random has each class by its share; runs of earlier versions have false."""


def check_owners(config: Any, owners: Mapping[str, tuple[str, ...]]) -> None:
    """Raises: a fault for a key that the chosen dataset does not have, or for the dataset "folder" without a path.

    Args: owners: key -> the datasets that have it.
    """
    for key, owned_by in owners.items():
        if getattr(config, key) is not None and config.dataset not in owned_by:
            raise fault(f"task.{key}", f"is for the dataset {' or '.join(owned_by)}, not for {config.dataset}")
    if config.dataset == "folder" and config.folder is None:
        raise fault("task.folder", "a value is needed here: dataset is folder")


class EarlyStopping(Frozen):
    """Stop when the task's score on the validation split has not improved for a while."""

    patience: Count = 10
    """Evaluations without improvement."""
    min_change: NotNegative = 0.0
    """A change of the score counts as an improvement if it exceeds this value."""


class Privacy(Frozen):
    """Differentially private gradient descent (Abadi et al., 2016), which bounds the influence of each example."""

    noise_multiplier: Positive
    """Standard deviation of the noise on a gradient, in units of clip_norm."""
    clip_norm: Positive = 1.0
    """Greatest norm of the gradient of one example."""
    delta: Annotated[float, _Number, Field(gt=0, lt=1)] = 1e-5
    """Probability with which the bound epsilon may fail; less than 1 / examples."""


def sections_in(annotation: object) -> list[type[BaseModel]]:
    """The config classes that a type annotation allows."""
    if get_origin(annotation) is Annotated:
        return sections_in(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [section for each in get_args(annotation) for section in sections_in(each)]
    return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []


def fault(key: str, what: str) -> PydanticCustomError:
    """The error that a validator raises for keys that contradict each other, reported at ``key``."""
    return PydanticCustomError("at_key", "{what}", {"key": key, "what": what})


def close_to(word: str, options: Sequence[str]) -> str:
    """A suggestion such as ``; did you mean 'adam'?``, or an empty text if no option is similar."""
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_choice(key: str, value: object, options: Sequence[str]) -> None:
    """Raises: a fault at ``key`` if its value is not one of the options."""
    if value not in options:
        raise fault(key, f"must be one of {', '.join(options)}, got {value!r}{close_to(str(value), options)}")


Task = TypeVar("Task")
Optimizer = TypeVar("Optimizer")


class RunConfig(Frozen, Generic[Task, Optimizer]):
    """One run; ``Task`` is the `Config` of its task, ``Optimizer`` one of `recipes.settings.optim`."""

    # Keys of other commands, with the words of an error.
    elsewhere: ClassVar[Mapping[str, str]] = {
        "kernel": "is a section of kernel regression, which is another command: python -m recipes.kernel --config FILE"}

    task: Task
    optim: Optimizer
    steps: Count = 200
    """Updates of the parameters."""
    schedule_steps: Count | None = None
    """Updates over which the learning rate is scheduled; none: steps, fixed when the run starts."""
    accumulate: Count = 1
    """Parts of a batch whose gradients are added before the update: less memory, the same result."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Dtype in which the model computes; parameters and the computations of norms stay float32."""
    ema: Fraction | None = None
    """Decay of a moving average of the parameters, which evaluation and prediction then use."""
    freeze: tuple[str, ...] = ()
    """Patterns of paths of parameters that stay as they are, such as "body/**"."""
    lr_multipliers: dict[str, NotNegative] = {}
    """Pattern of paths of parameters: factor of their learning rate; the first matching pattern counts."""
    early_stopping: EarlyStopping | None = None
    """Ends the run when the score on the validation split no longer improves."""
    privacy: Privacy | None = None
    """Gradients with bounded influence of each example; for tasks whose examples are independent."""
    seed: Seed = 0
    """Seed of the initial parameters, the order of the examples, and the random numbers of layers."""
    devices: Count | None = None
    """Number of devices; none: all devices of this process."""
    log_every: Count = 10
    """Steps between two reads of the metrics."""
    eval_every: Count = 10
    """Steps between two evaluations of the validation split."""
    checkpoint_every: Count = 100
    """Steps between two checkpoints; the last step is always saved."""
    keep_checkpoints: Count = 2
    """Number of newest checkpoints kept. Each has the last parameters, and the best ones on the validation split."""
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()
    """Services that receive the metrics besides the run folder."""
    run_dir: AbsolutePath | None = None
    """The run folder; none: runs/NAME of the config file."""

    @model_validator(mode="after")
    def _check_warmup(self) -> RunConfig:
        schedule, steps = self.optim.schedule, self.schedule_steps or self.steps
        if schedule.warmup_steps >= steps and schedule.warmup_steps:
            raise fault("optim.schedule.warmup_steps", f"must be less than the {steps} steps of the schedule, got "
                                                       f"{schedule.warmup_steps}; try {steps // 10}")
        return self


# ---- kernel regression ------------------------------------------------------------------------------------------


def _size(text: str) -> str:
    """Checks a number of bytes as text."""
    bytes_of(text)
    return text


class Kernel(Frozen):
    """The kernel of the model of infinite width, and the choice of the ridge."""

    name: Literal["nngp", "ntk"] = "nngp"
    """nngp: random weights, the last layer is trained; ntk: all layers are trained, by small steps."""
    parameterization: Literal["standard", "ntk"] = "standard"
    """For ntk: that of the weights as they are drawn, or of weights of variance 1 times their standard deviation."""
    diag_reg: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = tuple(
        float(f"{digit}e{power}") for power in range(-6, 1) for digit in (1, 3)) + (10.0,)
    """Candidates of the ridge, in units of the mean of the kernel's diagonal."""
    choose_by: Literal["validation", "leave_one_out", "marginal_likelihood"] = "validation"
    """validation, leave_one_out: the score of the task, on that split, or on training examples left out one by one."""
    dtype: Literal["float64", "float32"] = "float64"
    """Dtype of the kernel; equations with it are always solved in float64."""
    memory_budget: Annotated[str, AfterValidator(_size)] = "1GB"
    """Memory for the computation of the kernel, besides the kernel itself: 500MB, 2GiB."""

    @model_validator(mode="after")
    def _check_parameterization(self) -> Kernel:
        if self.name == "nngp" and self.is_changed("parameterization"):
            raise fault("kernel.parameterization", "is for ntk: nngp does not depend on it")
        return self


class KernelConfig(Frozen, Generic[Task]):
    """A kernel regression; ``Task`` is the `Config` of its task."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        RunConfig.model_fields.keys() - {"task", "devices", "run_dir"},
        "is for training, and kernel regression has no steps: leave it out")

    task: Task
    kernel: Kernel = Kernel()
    """The kernel, and the choice of the ridge."""
    devices: Count | None = 1
    """Number of devices that compute parts of the kernel at the same time; none: all devices of this process."""
    run_dir: AbsolutePath | None = None
    """The run folder; none: runs/NAME of the config file."""

    @model_validator(mode="after")
    def _check_task(self) -> KernelConfig:
        section: Any = self.task
        model: Any = getattr(section, "model", None)
        keys = [f"task.{key}" for key in section.training_only or () if section.is_changed(key)]
        keys += [f"task.model.{key}" for key in RATES if getattr(model, key, None) and model.is_changed(key)]
        if keys:
            also = f", as {' and '.join(keys[1:])}" if keys[1:] else ""
            raise fault(keys[0], f"is for training{also}, and kernel regression has no steps: leave it out")
        return self


# ---- models of xnn as sections of a task's config ----------------------------------------------------------------


class _Section(Frozen):
    """Base of generated sections. Their fields have descriptions, so pydantic skips its slow search for docstrings."""

    model_config = ConfigDict(use_attribute_docstrings=False)


def section_of(name: str, config: type, without: tuple[str, ...] = (), **defaults: object) -> type[BaseModel]:
    """A section with the fields of a dataclass such as ``xnn.models.ResNetConfig``, and ``name``, for its choice.

    Args:
      without: fields that the task sets by ``section.make(classes=10)``, which returns the dataclass.
      defaults: defaults of fields that differ from those of the dataclass.
    """
    meanings, types = meanings_of(config), get_type_hints(config)
    fields: dict[str, Any] = {"name": (Literal[name], Field(name, description="which model"))}
    for field in dataclasses.fields(config):
        if field.name not in without:
            default = defaults.get(field.name, ... if field.default is dataclasses.MISSING else field.default)
            fields[field.name] = (types[field.name], Field(default, description=meanings.get(field.name)))

    def make(self: BaseModel, **filled_in: object) -> object:
        return config(**{key: getattr(self, key) for key in fields if key != "name"}, **filled_in)

    made = create_model(f"{name} section", __base__=_Section, __doc__=config.__doc__, **fields)
    made.make = make                                                           # type: ignore[attr-defined]
    return made


ACTIVATIONS = ("relu", "gelu", "silu", "elu", "tanh", "sigmoid", "softplus")
RATES = ("dropout", "drop_path", "input_dropout", "attention_dropout", "adjacency_dropout")


def check_numbers(section: BaseModel) -> None:
    """Raises: a fault if a number of the section ``task.model`` is out of range."""
    for key in type(section).model_fields:
        for number in _numbers_in(getattr(section, key)):
            if key in RATES:
                right, words = 0 <= number < 1, "at least 0 and less than 1"
            elif key == "alpha":
                right, words = 0 <= number <= 1, "a share, from 0 to 1"
            else:                                             # k: steps of a walk on the graph
                right, words = (number >= 0, "at least 0") if key == "k" else (number > 0, "greater than 0")
            if not right:
                raise fault(f"task.model.{key}", f"must be {words}, got {number}")


def _numbers_in(value: object) -> Iterator[float]:
    """The numbers in nested tuples, without booleans."""
    if isinstance(value, tuple):
        for each in value:
            yield from _numbers_in(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def meanings_of(config: type) -> dict[str, str]:
    """Field -> meaning, from the "Attributes:" of the docstrings of a class and its bases."""
    meanings = {key: text for base in config.__bases__ if base is not object for key, text in meanings_of(base).items()}
    block = (config.__doc__ or "").partition("Attributes:")[2]
    for match in re.finditer(r"^ +([\w, ]+): (.*(?:\n {8,}.*)*)", block, re.MULTILINE):
        for name in match[1].split(", "):
            meanings[name.strip()] = " ".join(match[2].split()).rstrip(".")
    return meanings
