"""The public names of the packages: modules in the order of the reference, objects, signatures and definitions."""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("xjax", "xnn", "recipes")
# Reprs of defaults and values that are longer are shortened.
LONGEST_VALUE = 60

_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")
_SCALAR_TYPES = "_ScalarType"


class Place(NamedTuple):
    """Where a name is defined: its module, and the first and last line of an assignment."""

    module: str
    first: int
    last: int


class Name(NamedTuple):
    """A public name: its module, its object, and the full name under which the reference has its entry."""

    module: str
    name: str
    object: Any
    entry: str
    kind: str

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}"


def public_names(module: str) -> list[str]:
    """`__all__` of a module."""
    return sorted(set(importlib.import_module(module).__all__), key=lambda name: (name.lower(), name))


@functools.cache
def entries(modules: tuple[str, ...]) -> dict[str, dict[str, Name]]:
    """Module -> name -> `Name`.  An object of several names has one entry: under its own name, in the first module."""
    listed: dict[int, list[tuple[str, str]]] = {}
    objects = {(module, name): getattr(importlib.import_module(module), name)
               for module in modules for name in public_names(module)}
    for (module, name), value in objects.items():
        if _has_identity(value):
            listed.setdefault(id(value), []).append((module, name))
    result: dict[str, dict[str, Name]] = {module: {} for module in modules}
    for (module, name), value in objects.items():
        places = listed.get(id(value), [(module, name)])
        own = [place for place in places if place[1] == getattr(value, "__name__", place[1])]
        result[module][name] = Name(module, name, value, ".".join((own or places)[0]), kind(value))
    return result


def _has_identity(value: Any) -> bool:
    return not isinstance(value, ModuleType | int | float | str | tuple | None)


# -- kinds and signatures -----------------------------------------------------------------------------------------

def is_own(value: Any) -> bool:
    """Whether an object is of these packages, not of NumPy or jaxlib."""
    value = getattr(value, "func", value)                    # of a partial
    return (getattr(value, "__module__", None) or type(value).__module__).split(".")[0] in PACKAGES


def kind(value: Any) -> str:
    """The kind of an entry, as Sphinx names it."""
    if isinstance(value, ModuleType):
        return "module"
    if inspect.isclass(value) and type(value).__name__ != _SCALAR_TYPES:
        return "exception" if issubclass(value, BaseException) else "class"
    if type(value).__name__ in (_SCALAR_TYPES, "Layer", "Primitive") or signature(value) == "":
        return "data"
    return "function"


def signature(value: Any) -> str:
    """``(x: ArrayLike, axis: Axis = None) -> Array``, or "" for an object without one."""
    try:
        parts = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = [p.replace(annotation=_Text(_annotation(p.annotation)) if p.annotation is not p.empty else p.empty,
                       default=_Text(_value(p.default)) if p.default is not p.empty else p.empty)
             for p in parts.parameters.values()]
    returns = parts.return_annotation
    returns = parts.empty if returns in (parts.empty, None, "None") and inspect.isclass(value) else returns
    text = str(parts.replace(parameters=shown, return_annotation=parts.empty))
    return text if returns is parts.empty else f"{text} -> {_annotation(returns)}"


class _Text(str):
    """Text whose repr is the text."""

    __repr__ = str.__str__


def parameters(value: Any) -> list[str]:
    """The names of the parameters of an object; of a class, also of its methods: docstrings describe both."""
    try:
        return list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return []


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _QUALIFIED.sub("", text).replace("NoneType", "None")


def _value(value: Any) -> str:
    """A default value as Python, without addresses: functions and classes by name."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    text = _QUALIFIED.sub("", repr(value))
    if text == "<factory>":                                  # of a dataclass
        return "..."
    if len(text) <= LONGEST_VALUE and "<" not in text and " at 0x" not in text:
        return text
    return f"{type(value).__name__}(...)"


def methods(cls: type) -> Iterator[tuple[str, str, Any]]:
    """(name, kind, object) of the documented public methods and properties of a class of these packages."""
    seen = set()
    for base in cls.__mro__:
        if base.__module__.split(".")[0] not in PACKAGES:
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            plain = getattr(value, "__func__", value)
            if isinstance(value, property | functools.cached_property):
                shape = "property"
            elif inspect.isroutine(plain) or isinstance(value, classmethod | staticmethod):
                shape = {classmethod: "classmethod", staticmethod: "staticmethod"}.get(type(value), "method")
            else:
                continue
            if inspect.getdoc(plain):
                yield name, shape, plain


# -- definitions --------------------------------------------------------------------------------------------------

def definition(module: str, name: str, value: Any) -> Place | None:
    """Where the source defines a name: its function or class, else its assignment, through imports."""
    if inspect.isclass(value):
        bound = _bindings(value.__module__).get(name) if value.__module__.split(".")[0] in PACKAGES else None
        return bound if isinstance(bound, Place) else _assigned(module, name, frozenset())
    code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
    if code and code.co_name == name and any(Path(code.co_filename).is_relative_to(ROOT / one) for one in PACKAGES):
        return Place(_module_of(Path(code.co_filename)), code.co_firstlineno, code.co_firstlineno)
    return _assigned(module, name, frozenset())


def statement(place: Place) -> str:
    """The source text of a place."""
    lines = source(place.module)[1].splitlines()
    return "\n".join(lines[place.first - 1:place.last])


def comment(place: Place) -> str:
    """The comment at the end of an assignment, or directly above it."""
    lines = source(place.module)[1].splitlines()
    ends = [line.partition("  # ")[2] for line in lines[place.first - 1:place.last] if "  # " in line]
    if ends:
        return ends[-1].strip()
    above, at = [], place.first - 2
    while at >= 0 and lines[at].startswith("# ") and not lines[at].startswith("# --"):
        above.insert(0, lines[at][2:])
        at -= 1
    return " ".join(above)


@functools.cache
def source(module: str) -> tuple[Path, str]:
    """The file of a module and its text."""
    path = Path(importlib.import_module(module).__file__)
    return path, path.read_text()


@functools.cache
def _bindings(module: str) -> dict[str, Place | tuple[str, str]]:
    """Name -> its statement at the top level of a module, or (module, name) that it is imported from."""
    result: dict[str, Place | tuple[str, str]] = {}
    stars: list[str] = []
    todo = list(ast.parse(source(module)[1]).body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.If | ast.Try | ast.With):
            todo[:0] = [*node.body, *getattr(node, "orelse", [])]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            for alias in node.names:
                if alias.name == "*":
                    stars.append(node.module)
                result[alias.asname or alias.name] = (node.module, alias.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            result[node.name] = Place(module, node.lineno, node.end_lineno or node.lineno)
        else:
            for target in getattr(node, "targets", [getattr(node, "target", None)]):
                for each in getattr(target, "elts", [target]):
                    if isinstance(each, ast.Name):
                        result[each.id] = Place(module, node.lineno, node.end_lineno or node.lineno)
    for star in stars:
        result = {name: (star, name) for name in importlib.import_module(star).__all__} | result
    return result


def _assigned(module: str, name: str, seen: frozenset[str]) -> Place | None:
    if module in seen or module.split(".")[0] not in PACKAGES:
        return None
    bound = _bindings(module).get(name)
    return _assigned(*bound, seen | {module}) if isinstance(bound, tuple) and not isinstance(bound, Place) else bound


def _module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# -- the same names elsewhere -------------------------------------------------------------------------------------

_NUMPY = "https://numpy.org/doc/stable/reference/generated/{}.html"
_SCIPY = "https://docs.scipy.org/doc/scipy/reference/generated/{}.html"


def elsewhere(module: str, name: str) -> tuple[str, str, Callable | None] | None:
    """(its name, URL, function) of a function in NumPy or SciPy; None if they have none."""
    numpy_module = module.removeprefix("xjax.")
    if module.startswith(("xjax.numpy", "xjax.scipy")) and importlib.util.find_spec(numpy_module.split(".stats.")[0]):
        owner = importlib.import_module(numpy_module.split(".stats.")[0])
        template = _NUMPY if numpy_module.startswith("numpy") else _SCIPY
        if ".stats." in module:
            full = f"scipy.stats.{module.rpartition('.')[2]}"
            return full, template.format(full), None
        theirs = getattr(owner, name, None)
        if callable(theirs):
            full = f"{numpy_module}.{getattr(theirs, '__name__', name)}"
            return full, template.format(full), theirs
    return None
