"""The directive ``{public} MODULE``: an entry for each public name of a module, from its docstring.

An object of several names has one entry; its other names link to it, and are in the inventory too. The source of each
entry is a page of the site, see `source_pages`.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

from _extensions import docstrings, names, source_pages

HEADINGS = {"function": "Functions", "layer": "Layers", "class": "Classes", "exception": "Errors",
            "data": "Types and constants", "primitive": "Primitives", "module": "Modules"}
# Groups with more names begin with a list of them.
SHORT = 12
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")
# How pages and docstrings abbreviate modules: the first part of a name -> a module.
ABBREVIATED = {"jnp": "xjax.numpy", "lax": "xjax.lax", "random": "xjax.random", "nn": "xjax.nn",
               "errors": "xjax.errors", "tree_util": "xjax.tree_util", "sharding": "xjax.sharding",
               "debug": "xjax.debug", "graph": "xnn.graph", "models": "xnn.models", "losses": "xnn.losses",
               "metrics": "xnn.metrics", "kernels": "xnn.kernels"}


class Public(SphinxDirective):
    """Entries of a module, by kind."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = self.arguments[0]
        self.env.note_dependency(__file__)
        modules = tuple(self.config.public_modules)
        mine = names.entries(modules)[module]
        result = self._parsed(f"```{{py:module}} {module}\n```", module)
        groups: dict[str, list[names.Name]] = {}
        for name in mine.values():
            groups.setdefault(_group(name), []).append(name)
        for group, heading in HEADINGS.items():
            members = groups.get(group, [])
            if not members:
                continue
            if len(groups) > 1:
                result.append(nodes.rubric(heading, heading))
            entries = [name for name in members if name.entry == name.full and group != "module"]
            others = [name for name in members if name not in entries]
            if group == "primitive":
                result.append(self._primitives(entries))
                entries = []
            if len(entries) > SHORT:
                result.append(_index(entries))
            for name in entries:
                result += self._entry(name)
            if others:
                result += self._others(others)
        return result

    def _parsed(self, text: str, source: str) -> list[nodes.Node]:
        holder = nodes.Element()
        self.state.nested_parse(StringList(text.splitlines(), source), self.content_offset, holder)
        return holder.children

    def _entry(self, name: names.Name) -> list[nodes.Node]:
        parsed = self._parsed("\n".join(_markdown(name)), f"docstring of {name.full}")
        modules = tuple(self.config.public_modules)
        for literal in [node for part in parsed for node in part.findall(nodes.literal)]:
            _link(literal, names.entries(modules), name.module)
        signatures = [node for part in parsed for node in part.findall(addnodes.desc_signature)]
        for signature in signatures:
            _link_types(signature, modules)
        place = names.definition(name.module, name.name, name.object)
        if place:
            self.env.note_dependency(str(names.source(place.module)[0]))
            signatures[0] += source_pages.link(self.env, place)
        return parsed

    def _primitives(self, primitives: list[names.Name]) -> nodes.Node:
        """The names of primitives in columns, with an anchor each: their operations have the documentation."""
        items = nodes.bullet_list(classes=["names"])
        for name in primitives:
            paragraph = nodes.paragraph("", "", nodes.literal(name.name, name.name), ids=[name.full])
            self.env.domains["py"].note_object(name.full, "data", name.full, location=paragraph)
            items += nodes.list_item("", paragraph)
        return items

    def _others(self, others: list[names.Name]) -> list[nodes.Node]:
        """A list of names whose entries are elsewhere, each with its own anchor."""
        items = nodes.bullet_list(classes=["other-names"])
        domain = self.env.domains["py"]
        for name in others:
            is_module = name.kind == "module"
            entry = name.object.__name__ if is_module else name.entry
            paragraph = nodes.paragraph("", "", ids=[] if name.full == entry else [name.full])
            paragraph += _reference(entry, name.name if is_module else name.full)
            if not is_module and name.entry.rpartition(".")[2] != name.name:
                paragraph += nodes.Text(": another name of ")
                paragraph += _reference(entry, entry)
            elif is_module:
                paragraph += nodes.Text(f": {_summary(name.object)}")
            if name.full != entry:
                domain.note_object(name.full, name.kind, name.full, aliased=True, location=paragraph)
            items += nodes.list_item("", paragraph)
        return [items]


def _group(name: names.Name) -> str:
    return {"Layer": "layer", "Primitive": "primitive", "_Jit": "primitive"}.get(type(name.object).__name__, name.kind)


def _summary(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ").replace("`", "").rstrip(":")


def _index(entries: list[names.Name]) -> nodes.Node:
    """Links to the entries, in columns."""
    items = nodes.bullet_list(classes=["names"])
    for name in entries:
        items += nodes.list_item("", nodes.paragraph("", "", _reference(name.full, name.name)))
    return items


def _reference(full: str, text: str) -> nodes.Node:
    return addnodes.pending_xref("", nodes.literal(text, text, classes=["xref", "py", "py-obj"]), refdomain="py",
                                 reftype="obj", reftarget=full, refexplicit=True, refwarn=True)


# -- the text of an entry -----------------------------------------------------------------------------------------

def _markdown(name: names.Name) -> Iterator[str]:
    value, group, shape = name.object, _group(name), name.kind
    signature = names.signature(value) if shape in ("function", "class") else ""
    shown = name.name + ("" if shape == "class" and signature == "(*args: object, **kwargs: object)" else signature)
    yield f"````````{{py:{shape}}} {shown}"
    yield f":module: {name.module}"
    if shape == "data":
        yield from _value_options(name)
    yield ""
    yield from _text(name, group).splitlines()
    yield from _elsewhere(name)
    if shape == "class":
        yield from _methods(value)
    yield "````````"


def _value_options(name: names.Name) -> Iterator[str]:
    if isinstance(name.object, bool | int | float | str | None):
        yield f":value: {name.object!r}"


def _text(name: names.Name, group: str) -> str:
    value = name.object
    documented = inspect.getdoc(value) or ""
    if group not in ("layer", "data") or type(value).__name__ == "_ScalarType":
        if not names.is_own(value) and hasattr(value, "__qualname__"):
            return f"The same object as `{value.__module__}.{value.__qualname__}`."
        return docstrings.as_markdown(documented, names.parameters(value))
    place = names.definition(name.module, name.name, value)
    comment = names.comment(place) if place else ""
    parts = [_layer(name, place)] if group == "layer" else []
    if comment:
        parts.append(f"{docstrings.escaped(comment[0].upper() + comment[1:]).rstrip('.')}.")
    # A float is in the signature already.
    if place and not (group == "layer" and comment or isinstance(value, float)):
        statement = names.statement(place).partition("  # ")[0]
        parts += [] if "\n" in statement.strip() else [f"```python\n{statement}\n```"]
    if group == "data" and type(value).__module__.split(".")[0] in names.PACKAGES:
        parts.append(docstrings.as_markdown(documented))
    return "\n\n".join(parts)


def _layer(name: names.Name, place: names.Place | None) -> str:
    """The function and the use of a layer without arguments."""
    function = re.search(r"elementwise\((\w+\.\w+)", names.statement(place)) if place else None
    meaning = f"`{function[1]}` of each element, as a layer" if function else "A layer"
    return f"{meaning} without arguments: it is used without a call, as in `serial(Dense(8), {name.name})`."


def _elsewhere(name: names.Name) -> Iterator[str]:
    """The same function in NumPy or SciPy, and the parameters that differ."""
    match = names.elsewhere(name.module, name.name) if name.kind == "function" else None
    if not match:
        return
    full, url, theirs = match
    have, want = (set(names.parameters(f)) - {"args", "kwargs", "operands", "signature"} for f in (name.object, theirs))
    text = f"[{full}]({url})"
    if want and have:
        lost, more = sorted(want - have), sorted(p for p in have - want if not p.startswith("_"))
        for what, differing in (("without", lost), ("also with", more)):
            if differing and len(differing) != len(want):
                text += f", {what} {', '.join(f'`{p}`' for p in differing)}"
    yield from ("", f":Compare: {text}")


def _methods(cls: type) -> Iterator[str]:
    if issubclass(cls, BaseException):
        return
    for method, shape, value in names.methods(cls):
        getter = value.fget if isinstance(value, property) else getattr(value, "func", value)
        owner = getattr(value, "__module__", "") or ""
        option = {"classmethod": ":classmethod:", "staticmethod": ":staticmethod:"}.get(shape)
        directive = "property" if shape == "property" else "method"
        shown = method if shape == "property" else method + _without_self(names.signature(getter), shape)
        yield f"``````{{py:{directive}}} {shown}"
        if option:
            yield option
        yield ""
        public = importlib.import_module("xjax.numpy")
        if owner.startswith("xjax.numpy") and getattr(public, method, None) is value:
            yield f"As `xjax.numpy.{method}`."
        else:
            yield from docstrings.as_markdown(inspect.getdoc(getter) or "", names.parameters(getter)).splitlines()
        yield "``````"


def _without_self(signature: str, shape: str) -> str:
    if shape == "staticmethod":
        return signature
    return re.sub(r"^\((?:self|cls|a|x)(?:: [^,()]*)?(?:, /)?(?:, )?", "(", signature, count=1)


# -- links --------------------------------------------------------------------------------------------------------

def _link(literal: nodes.literal, entries: dict[str, dict[str, names.Name]], module: str) -> None:
    """Makes code that is a public name a link to its entry."""
    text = literal.astext()
    if not _IDENTIFIER.fullmatch(text) or isinstance(literal.parent, addnodes.pending_xref | nodes.reference):
        return
    owner, _, name = text.rpartition(".")
    first, dot, rest = owner.partition(".")
    if owner not in entries:
        owner = ABBREVIATED.get(first, "") + dot + rest if owner else module
    if name not in entries.get(owner, ()) or entries[owner][name].kind == "module":
        return
    literal.replace_self(_reference(entries[owner][name].entry, text))


def link_names(app: Sphinx, document: nodes.document) -> None:
    """Code in pages that is a qualified public name, such as `xjax.grad` or `lax.scan`, becomes a link."""
    entries = names.entries(tuple(app.config.public_modules))
    for literal in list(document.findall(nodes.literal)):
        if not isinstance(literal.parent, nodes.title) and "code" not in literal.get("classes", []):
            _link(literal, entries, "")


def _link_types(signature: addnodes.desc_signature, modules: tuple[str, ...]) -> None:
    """Types in signatures: those of these packages are links, wherever they are defined; others are text."""
    for reference in list(signature.findall(addnodes.pending_xref)):
        entry = _types(modules).get(reference["reftarget"].rpartition(".")[2])
        if entry is None:
            reference.replace_self(reference.children)
        else:
            reference.attributes.update(reftype="obj", reftarget=entry, refexplicit=True)


@functools.cache
def _types(modules: tuple[str, ...]) -> dict[str, str]:
    """Name of a class or constant -> its entry, the first of several."""
    result: dict[str, str] = {}
    for members in names.entries(modules).values():
        for name in members.values():
            if name.kind in ("class", "data", "exception") and not hasattr(builtins, name.name):
                result.setdefault(name.name, name.entry)
    return result


def _prepare(app: Sphinx, config: Config) -> None:
    """Loads all modules before processes are forked."""
    _types(tuple(config.public_modules))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("public_modules", (), "env", tuple)
    app.add_directive("public", Public)
    app.connect("doctree-read", link_names)
    app.connect("config-inited", _prepare)
    source_pages.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
