"""Text of programs and equations, in the form of JAX.

    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0:f32[] in (c,) }

There are two steps: `_Printer` converts a program to a *document* (text with possible line breaks), and `_layout`
chooses the line breaks. A row of `_RULES` defines which parameters of a primitive are hidden.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from xjax.core.depth import deep
from xjax.core.errors import bad, position_text, scope_of
from xjax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, set_printer, subjaxprs

# ------------------------------------------------------------------------------------- documents

COLUMNS = 80
INDENT = 2


class _Line(NamedTuple):
    """A possible line break; its text is `flat` if the line does not end there."""

    flat: str


class _Nest(NamedTuple):
    """A document whose new lines are indented one step more."""

    inside: _Doc


class _Group(NamedTuple):
    """A document that fits on the current line, or uses all its line breaks (without the breaks of inner groups)."""

    inside: _Doc
    width: int


class _Note(list):
    """An empty sequence, with a comment for the end of the line."""

    def __init__(self, text: str):
        super().__init__()
        self.text = text


_Doc = str | _Line | _Nest | _Group | list      # a list is a sequence of documents
_SPACE, _NOTHING = _Line(" "), _Line("")


def _group(*parts: _Doc) -> _Group:
    inside = list(parts)
    return _Group(inside, _width(inside))


def _width(doc: _Doc) -> int:
    """Columns of a document on one line. Groups store their width, so each part is measured once."""
    match doc:
        case str():
            return len(doc)
        case _Line(flat):
            return len(flat)
        case _Group():
            return doc.width
        case _Nest(inside):
            return _width(inside)
        case _:
            return sum(map(_width, doc))


def _join(separator: _Doc, parts: Iterable[_Doc]) -> list[_Doc]:
    return [doc for part in parts for doc in (separator, part)][1:]


def _fill(words: Iterable[str], comma: str = "") -> _Nest:
    """Words on as few lines as possible.

    The space before a word is measured without the word, so a word that crosses the margin remains on its line.
    """
    return _Nest(_join([comma, _group(_SPACE)], words))


def _layout(doc: _Doc, columns: int = COLUMNS, before_note: str = " # ") -> str:
    """The text of a document. Notes are in a column right of all lines; a second note of a line is on the next line."""
    text, column = [], 0
    notes: dict[int, list[str]] = {}            # by line
    line = 0
    todo = [(doc, 0, False)]                    # (document, indent, lines inside are flat)
    while todo:
        doc, indent, flat = todo.pop()
        match doc:
            case str():
                text.append(doc)
                column += len(doc)
            case _Line() if flat:
                text.append(doc.flat)
                column += len(doc.flat)
            case _Line():
                text.append("\n" + " " * indent)
                column = indent
                line += 1
            case _Nest(inside):
                todo.append((inside, indent + INDENT, flat))
            case _Group(inside, width):         # the text after the group on its line is not counted
                todo.append((inside, indent, column + width <= columns))
            case _:
                if type(doc) is _Note:
                    notes.setdefault(line, []).append(doc.text)
                todo.extend((part, indent, flat) for part in reversed(doc))
    return _with_notes("".join(text), notes, before_note) if notes else "".join(text)


def _with_notes(text: str, notes: dict[int, list[str]], before: str) -> str:
    lines = text.split("\n")
    margin = max(map(len, lines))
    return "\n".join(row for i, line in enumerate(lines) for row in (
        [f"{line * (k == 0):{margin}}{before}{note}" for k, note in enumerate(notes[i])] if i in notes else [line]))


# --------------------------------------------------------------------------- rules of primitives


@dataclass(frozen=True, slots=True)
class _Rule:
    """The printed form of the parameters of a primitive.

    hide:   parameter -> test of its value; the parameter is omitted if it is true.
    show:   parameter -> function that returns its text.
    call:   the equation is a call of the sub-program: variables inside have the names of the values
            outside, and a sub-program that is printed separately has the name in the parameter `name`.
    """

    hide: dict[str, Callable[[Any], bool]] = field(default_factory=dict)
    show: dict[str, Callable[[Any], str]] = field(default_factory=dict)
    call: bool = False


def _always(value: object) -> bool:
    return True


def _empty(value: object) -> bool:
    return not value


def _all_false(values: Sequence[bool]) -> bool:
    return not any(values)


def _is_none(value: object) -> bool:
    return value is None


def _function_name(f: Callable) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _dimension_lists(numbers: Iterable[Iterable[Iterable[int]]]) -> str:
    return str(tuple(tuple(list(axes) for axes in pair) for pair in numbers))


_DEFAULT = _Rule()
_RULES = {
    "all_to_all": _Rule(hide={"axis_size": _always}),
    "broadcast_in_dim": _Rule(hide={"shape": _always, "broadcast_dimensions": _empty}),
    "dot_general": _Rule(hide={"precision": _is_none, "preferred_element_type": _is_none},
                         show={"dimension_numbers": _dimension_lists}),
    "jit": _Rule(hide={"inline": _always, "keep_unused": _empty, "donated_invars": _all_false},
                 call=True),
    "custom_jvp_call": _Rule(hide={"num_consts": _empty}, show={"jvp": _function_name}),
    "custom_vjp_call": _Rule(hide={"num_consts": _empty, "out_trees": _always},
                             show={"fwd": _function_name, "bwd": _function_name}),
    "custom_lin": _Rule(hide={"name": _always, "out_avals": _always, "residual_tree": _always, "active": _always},
                        show={"bwd": _function_name}),
}


# -------------------------------------------------------------------------------------- programs

# A sub-program is printed separately, before the whole program, if it has more equations than this or occurs more than
# once.
MAX_INLINE_EQNS = 10


class _Style(NamedTuple):
    """Parts of the text that are optional.

    They are: lines of source, types of variables, rules that hide parameters, effects, named scopes.
    """

    source: bool = False
    types: bool = True
    rules: bool = True
    effects: bool = False
    scopes: bool = False


_STYLE = _Style()


class _Printer:
    """Builds documents; holds the names of variables and programs, which are the same in the whole text."""

    def __init__(self, style: _Style = _STYLE):
        self.style = style
        self._rules = _RULES if style.rules else {}
        self.names: dict[Var, str] = {}
        self.apart: dict[Jaxpr, str] = {}       # programs that are printed separately -> their names
        self._fresh = (name for i in itertools.count()
                       if (name := _letters(i)) not in self.apart.values())

    def name(self, v: Var) -> str:
        name = self.names.get(v)
        if name is None:
            name = self.names[v] = next(self._fresh)
        return name

    def whole(self, program: Jaxpr) -> _Doc:
        """A program, after its sub-programs that are printed separately."""
        self.names.update(dict.fromkeys(_unused(program), "_"))
        self.apart.update(_printed_apart(program, self._rule))
        before = [["let ", name, " = ", self._braces(inner), " in", _SPACE]
                  for inner, name in self.apart.items()]
        return [*before, self._braces(program)]

    def _rule(self, eqn: Eqn) -> _Rule:
        return self._rules.get(eqn.primitive.name, _DEFAULT)

    def equation(self, eqn: Eqn) -> _Doc:
        if self._rule(eqn).call:
            self._name_as_outside(eqn)
        # Names are assigned in the order of the text, so the order of these three lines matters.
        outs = self._binders(eqn.outvars)
        params = self._params(eqn)
        ins = self._atoms(eqn.invars)
        text = [*([outs, " = "] if eqn.outvars else []), eqn.primitive.name, params, " ", ins]
        notes = [position_text(eqn.source)] if self.style.source and eqn.source else []
        if self.style.scopes:
            notes.append(f"[{scope_of(eqn.source)}]")
        return [_Note(" ".join(notes)), *text] if notes else text

    def _program(self, program: Jaxpr) -> _Doc:
        return self.apart.get(program) or self._braces(program)

    @deep
    def _braces(self, program: Jaxpr) -> _Doc:
        """`{ lambda constants; inputs. let equations in (outputs) }`"""
        constvars, invars = self._binders(program.constvars), self._binders(program.invars)
        eqns = _join(_Line("; "), [self.equation(eqn) for eqn in program.eqns])
        close = ",)" if len(program.outvars) == 1 else ")"
        outs = ["in (", self._atoms(program.outvars, ","), close]
        head = ["{ lambda ", constvars, "; ", invars, ". let"]
        effects = f" : {{ {', '.join(sorted(program.effects))} }}" if self.style.effects else ""
        return _group(_Nest([*head, _Nest([_SPACE, *eqns]), _SPACE, *outs, effects]), " }")

    def _binders(self, variables: Sequence[Var]) -> _Doc:
        if not self.style.types:
            return _fill([self.name(v) for v in variables])
        return _fill([f"{self.name(v)}:{v.aval.str_short()}" for v in variables])

    def _atoms(self, atoms: Sequence[Atom], comma: str = "") -> _Doc:
        return _fill([_literal(v) if type(v) is Literal else self.name(v) for v in atoms], comma)

    def _params(self, eqn: Eqn) -> _Doc:
        """`[name=value ...]`, sorted by name; the parameter `name` of a call is first."""
        rule, shown = self._rule(eqn), []
        for key in sorted(eqn.params, key=lambda key: (key != "name" or rule is _DEFAULT, key)):
            value = eqn.params[key]
            if key not in rule.hide or not rule.hide[key](value):
                show = rule.show.get(key, self._value)
                shown.append([key, "=", show(value)])
        return _bracket("[", shown, "]") if shown else ""

    def _value(self, value: object) -> _Doc:
        if isinstance(value, ClosedJaxpr):
            return self._program(value.jaxpr)
        if isinstance(value, Jaxpr):
            return self._program(value)
        if type(value) is tuple and value and all(map(_is_program, value)):
            return _bracket("(", map(self._value, value), ")")
        return _plain(value)

    def _name_as_outside(self, eqn: Eqn) -> None:
        """Give the inputs and outputs of the sub-program the names of the equation's operands and results."""
        for program in subjaxprs(eqn.params):
            if program in self.apart:
                continue
            for inner, outer in ((program.invars, eqn.invars), (program.outvars, eqn.outvars)):
                if len(inner) != len(outer):    # a malformed program still prints
                    continue
                named = set()                   # two variables must not get the same name
                for v, like in zip(inner, outer, strict=True):
                    if type(v) is type(like) is Var and v not in self.names and like not in named:
                        named.add(like)
                        self.names[v] = self.name(like)


def _is_program(value: object) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


def _letters(n: int) -> str:
    """Names of variables: `n` in base 26 with the digits a to z: a ... z, ba, bb ... zz, baa ..."""
    high, low = divmod(n, 26)
    return (_letters(high) if high else "") + chr(ord("a") + low)


def _literal(x: Literal) -> str:
    val = np.asarray(x.val)
    return f"{'[...]' if val.shape else val.item()}:{x.aval.str_short()}"


def _bracket(left: str, parts: Iterable[_Doc], right: str) -> _Group:
    return _group(_Nest([left, _NOTHING, *_join(_SPACE, parts)]), _NOTHING, right)


_ADDRESS = re.compile(r"(?<= at 0x)[0-9a-fA-F]+")


def _plain(value: object) -> str:
    """Text of a parameter, equal in every run: sets are sorted, digits of addresses are replaced by X."""
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(map(repr, sorted(value)))}}})"
    return _ADDRESS.sub(lambda match: "X" * len(match[0]), str(value))


def _unused(program: Jaxpr) -> Iterator[Var]:
    """Unused results of equations."""
    read = {v for eqn in program.eqns for v in eqn.invars if type(v) is Var}
    read.update(v for v in program.outvars if type(v) is Var)
    return (v for eqn in program.eqns for v in eqn.outvars if v not in read)


def _printed_apart(root: Jaxpr, rule: Callable[[Eqn], _Rule]) -> dict[Jaxpr, str]:
    """Sub-programs that are large or occur twice, breadth first, with unique names."""
    visits, titles = Counter(), {}
    todo = deque([root])
    while todo:
        program = todo.popleft()
        visits[program] += 1
        if visits[program] > 2:                 # the second visit has counted all its sub-programs twice
            continue
        for eqn in program.eqns:
            inner = subjaxprs(eqn.params)
            todo.extend(inner)
            if rule(eqn).call:
                for sub in inner:
                    titles.setdefault(sub, eqn.params["name"].strip("<>"))      # <lambda>: lambda
    apart, used = {}, Counter()
    for program, count in visits.items():
        if count > 1 or (program is not root and len(program.eqns) > MAX_INLINE_EQNS):
            title = titles.get(program, "jaxpr")
            apart[program] = f"{title}{used[title] or ''}"
            used[title] += 1
    return apart


# ---------------------------------------------------------------------------------------- public


def format_jaxpr(program: Jaxpr | ClosedJaxpr) -> str:
    """Text of a program, equal to `str(jax.make_jaxpr(f)(*args))` of JAX.

    >>> x = Literal(2)
    >>> format_jaxpr(Jaxpr([], [Var(x.aval)], [], [x]))
    '{ lambda ; a:i32[]. let  in (2:i32[],) }'
    """
    return _layout(_Printer().whole(program.jaxpr if isinstance(program, ClosedJaxpr) else program))


def format_eqn(eqn: Eqn) -> str:
    """Text of one equation, with names of its own: `a:f32[3] = add b 1.0:f32[]`."""
    return _layout(_Printer().equation(eqn)).rstrip()


def pretty_print(program: Jaxpr | ClosedJaxpr, *, source_info: bool = False, print_shapes: bool = True,
                 custom_pp_eqn_rules: bool = True, name_stack: bool = False, print_effects: bool = False,
                 width: int = COLUMNS, use_color: bool | None = None, annotation_prefix: str = " # ") -> str:
    """Text of a program; also a method of programs.

    Args:
      source_info: print each equation with its line of source, after `annotation_prefix`.
      print_shapes: print variables with their types.
      custom_pp_eqn_rules: False also prints parameters that are otherwise hidden, for example at their default.
      print_effects: print each program with its effects.
      width: columns of a line.
      name_stack: print each equation with the named scopes around it, as a note like that of `source_info`.
      use_color: must be false.
    Raises: NotImplementedError for `use_color`.

    >>> xjax.make_jaxpr(lambda x: 2 * x)(1.0).pretty_print(print_shapes=False)
    '{ lambda ; a. let b = mul 2.0:f32[] a in (b,) }'
    """
    if use_color:
        raise bad("pretty_print", "the text has no colours", {"use_color": use_color}, "leave the argument out.",
                  exc=NotImplementedError)
    printer = _Printer(_Style(source_info, print_shapes, custom_pp_eqn_rules, print_effects, name_stack))
    return _layout(printer.whole(program.jaxpr), width, annotation_prefix)


set_printer(format_jaxpr, format_eqn, pretty_print)
