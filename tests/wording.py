"""The rules for words that a machine can check: docstrings, comments, messages, pages and names.

``python -m tests.wording [FILE ...]`` prints the offences in these files, or in all.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CODE = ("xjax", "xnn", "recipes", "benchmarks", "tests")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/guides/*.md")
# Generated, or made from texts of other projects.
LEFT_OUT = ("tests/wording.py", "tests/test_wording.py")

# What the glossary of docs/architecture.md explains: one term for one thing.
TERMS = ("device", "placement", "sharding", "program", "executable", "launch", "trace", "tracer", "residual",
         "cotangent", "leaf", "mesh axis", "manual axis", "donation", "static argument")

LONGEST = 35                            # words in a sentence
# A string of fewer words is a key, a name or a pattern, not a message.
SHORTEST_MESSAGE = 4

_PREPOSITION = "of|for|from|with|by|on|to|at|in|and|or|than|is|are|as|like|but|all|only|just|not"
_COMPARED = "longer|more|less|fewer|better|worse|faster|slower|larger|smaller|shorter"
# What is not written, as a pattern without case, and what to write.
WORDS = {
    r"\bl(?:ies|ain)\b|\blie\b": "is, is stored, is placed",
    r"\bstands?\b(?! for\b|[- ]alone\b)|\bstood\b|\bstanding\b": "is, occurs, is written",
    r"\bhangs? (?:on|at|from)\b": "depends on, belongs to, is cached on",
    r"\btold\b|\btells?\b(?! apart)|\btelling\b": "reported, informs, shows, prints, says",
    r"\bhand(?:s|ed|ing)? on\b": "passes",
    r"\bgo(?:es|ing|ne)? on\b|\bwent on\b": "continues",
    r"\bgo(?:es)? over\b": "iterates over, exceeds",
    r"\banew\b": "again",
    r"\bmade real\b": "instantiated",
    r"\bbeside\b": "next to, compared with, together with",
    r"(?<!left )(?<!leave )(?<!leaves )\bbehind\b(?! a tracer\b)": "after, following, below",
    rf"(?<!there )(?<!there's )\b(?:is|are|was|were) no\b(?! (?:{_COMPARED})\b)":
        "is not a, must be",
    r"\bcuts?\b(?!-off)|\bcutting\b": "split, sharded, truncated, dropped",
    r"\bthose (?:that|who|which)\b|\bthe ones? (?:that|who|which)\b": "name the things",
    rf"\b(?:{_PREPOSITION}) what\b": "name the thing",
    r"\bwho(?:ever|m)?\b|\bsomebody\b|\bnobody\b": "name the caller, the user, the function",
    r"\bspares\b": "saves",
    r"\bcomes? to\b|\bcame to\b": "becomes, equals, amounts to",
}
# A sentence that begins so has no subject; a question may.
_WHAT = re.compile(r"^what\b", re.IGNORECASE)
# Names of variables, arguments, functions and attributes.
NAMES = {
    "found": "executable, cached, match, result",
    "go_on": "cond",
    "told": "listeners",
    "who": "caller, owner",
    "taking": "reordered",
    "of_host": "has_host_values",
    "at_once": "steps_per_launch, chunk",
}

_CODE_BLOCK = re.compile(r"^```.*?^```|^~~~.*?^~~~|<!--.*?-->", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"``.*?``|`[^`\n]*`|\"[^\"\n]*\"|“[^”]*”|\]\([^)]*\)")
_EXAMPLE = re.compile(r"^\s*(?:>>>|\.\.\.).*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
# A paragraph, an item of a list, an entry of Args, a cell of a table.
_PARTS = re.compile(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |\n\s*[*\w., /-]+: |\n\s*\||\|")
_SENTENCES = re.compile(r"(?<=[.;:?!])\s+")
_SPACE = re.compile(r"\s+")


_ANY_WORD = re.compile("|".join(WORDS), re.IGNORECASE)
_STRING_OR_COMMENT = re.compile(
    r'''(?s:""".*?""")|(?s:\'{3}.*?\'{3})|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*''')
_MARKS = ("#!", "# type:", "# noqa", "# pyright", "# ruff")


class Text(NamedTuple):
    line: int
    words: str


class Offence(NamedTuple):
    path: str
    line: int
    fault: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.fault} -> {self.instead}"


def _is_message(words: str) -> bool:
    """Whether a string is a sentence; others are keys, names, patterns and data."""
    parts = words.split()
    return len(parts) >= SHORTEST_MESSAGE and sum(part.strip(".,:;()`'").isalpha() for part in parts) > 0.6 * len(parts)


def _comments(source: str) -> Iterator[Text]:
    """Comments; those on consecutive lines are one text."""
    block: list[Text] = []
    last = 0
    for token in _STRING_OR_COMMENT.finditer(source):
        if token[0].startswith("#") and not token[0].startswith(_MARKS):
            line = source.count("\n", 0, token.start()) + 1
            if block and line != last + 1:
                yield Text(block[0].line, "\n".join(each.words for each in block))
                block = []
            block.append(Text(line, token[0].lstrip("# ")))
            last = line
    if block:
        yield Text(block[0].line, "\n".join(each.words for each in block))


def _texts_and_names(tree: ast.Module) -> tuple[list[Text], list[Offence]]:
    """The docstrings and messages of a program; offences in the names that it gives.

    `where` is NumPy's mask; the prefix of an error is `caller`.
    """
    texts, offences = [], []
    seen: set[ast.AST] = set()
    for node in ast.walk(tree):             # parents first
        match node:
            case ast.Constant(value=str(words)):
                if node not in seen and _is_message(words):
                    texts.append(Text(node.lineno, words))
                continue
            case ast.JoinedStr(values=parts):
                seen.update(parts)
                words = "".join(str(part.value) if isinstance(part, ast.Constant) else "`x`" for part in parts)
                if _is_message(words):
                    texts.append(Text(node.lineno, words))
                continue
            case (ast.Module(body=[ast.Expr(value=ast.Constant(value=str(words)) as text), *_])
                  | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str(words)) as text), *_])
                  | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str(words)) as text), *_])):
                seen.add(text)
                texts.append(Text(text.lineno, words))
        match node:
            case (ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name)
                  | ast.FunctionDef(name=name) | ast.ClassDef(name=name)):
                if name.lstrip("_") in NAMES:
                    offences.append(Offence("", node.lineno, f"the name {name!r}", NAMES[name.lstrip("_")]))
                elif name == "where" and _is_of_text(node):
                    offences.append(Offence("", node.lineno, "`where` as the prefix of an error", "caller"))
    return texts, offences


def _is_of_text(node: ast.AST) -> bool:
    annotation = getattr(node, "annotation", None)
    return annotation is not None and ast.unparse(annotation).strip("'\"").startswith("str")


def _parts(text: Text) -> Iterator[Text]:
    """The paragraphs, items and cells of a text, each on one line."""
    start, line = 0, text.line
    for end in [*(part.span() for part in _PARTS.finditer(text.words)), (len(text.words),) * 2]:
        yield Text(line, _SPACE.sub(" ", text.words[start:end[0]].strip()))
        line += text.words.count("\n", start, end[1])
        start = end[1]


def _offences_in(text: Text) -> Iterator[Offence]:
    for line, words in _parts(text):
        if _ANY_WORD.search(words):
            for pattern, instead in WORDS.items():
                for match in re.finditer(pattern, words, re.IGNORECASE):
                    around = words[max(0, match.start() - 40):match.end() + 30]
                    yield Offence("", line, f"{match[0]!r} in: {around}", instead)
        for sentence in _SENTENCES.split(words):
            count = len(sentence.split())
            if count > LONGEST:
                yield Offence("", line, f"a sentence of {count} words: {sentence[:60]}...", f"at most {LONGEST}")
            if _WHAT.match(sentence) and not sentence.endswith("?"):
                yield Offence("", line, f"no subject: {sentence[:60]}", "name the thing")


def offences(path: str, source: str) -> list[Offence]:
    """What breaks a rule in a file with this text; `line` is that of the paragraph's first line."""
    if path.endswith(".md"):
        texts, others = [Text(1, _CODE_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), source))], []
    else:
        tree = ast.parse(source)
        texts, others = _texts_and_names(tree)
        texts += _comments(source)
    for line, words in texts:
        bare = _EXAMPLE.sub(lambda block: "\n" * block[0].count("\n"), words) if ">>>" in words else words
        others += _offences_in(Text(line, _QUOTED.sub("`x`", bare)))
    return sorted(each._replace(path=path) for each in others)


def files() -> list[Path]:
    """The files that the rules are for, relative to the repository."""
    paths = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]
    paths += [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    return [path.relative_to(ROOT) for path in paths if str(path.relative_to(ROOT)) not in LEFT_OUT]


def main(names: Sequence[str]) -> int:
    """Print the offences in files, or in all; 1 if there are any."""
    paths = [Path(name).resolve().relative_to(ROOT) for name in names] or files()
    count = 0
    for path in paths:
        for offence in offences(str(path), (ROOT / path).read_text()):
            print(offence)
            count += 1
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
