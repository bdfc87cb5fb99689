"""The table of forms by platform: programs for GPUs have no form that was measured on CPUs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.ops.op_table import TABLE
from xjax import lax
from xjax.core import primitive
from xjax.core.forms import FORMS
from xjax.core.hlo import Builder
from xjax.core.primitive import ZERO, all_primitives
from xjax.ops.makers import unary

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "xjax" / "ops" / "cpu"
FILES = sorted(path.name for path in FOLDER.glob("[!_]*.py"))


def f(*shape):
    return np.ones(shape, np.float32)


def convolution(lhs, rhs, **options):
    return lax.conv_general_dilated(lhs, rhs, (1, 1), "SAME", **options)


# The forms' files -> programs, and arguments that are large enough.
LARGE = {
    "argmax.py": (jnp.argmax, f(4096)),
    "conv.py": (convolution, f(2, 3, 16, 16), f(4, 3, 3, 3)),
    "cumsum.py": (jnp.cumsum, f(1 << 15)),
    "dot.py": (lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))), f(64, 256), f(64, 8)),
    "extrema.py": (jnp.max, f(8192)),
    "sort.py": (jnp.sort, f(256)),
    "sums.py": (lambda x: x.sum(1), f(4096, 4)),
    "top_k.py": (lambda x: lax.top_k(x, 4), f(1 << 14)),
    "windows.py": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (7, 7), (1, 1), "VALID"), f(16, 16)),
}


def written_by(platform, function, *args):
    """(The text of a program, the files of forms for CPUs that wrote a part of it)."""
    read_from = set()

    def look(frame, event, arg):
        file, has_written = Path(frame.f_code.co_filename), event == "return" and arg is not None   # None: it declines
        if file.parent == FOLDER and has_written and any(isinstance(x, Builder) for x in frame.f_locals.values()):
            read_from.add(file.name)

    traced = xjax.jit(function).trace(*args)
    sys.setprofile(look)
    try:
        text = traced.lower(lowering_platforms=(platform,)).as_text()
    finally:
        sys.setprofile(None)
    return text, read_from


@pytest.mark.parametrize("name", FILES)
def test_a_form_for_cpus_is_written_there_alone(name):
    assert name in written_by("cpu", *LARGE[name])[1]
    assert not written_by("cuda", *LARGE[name])[1]


def test_no_operation_of_the_table_has_a_form_for_cpus_on_gpus():
    seen = set()
    for row in TABLE:
        if row.name in seen or row.args is not None:
            continue
        seen.add(row.name)
        dtypes = row.dtypes[0]
        names = [dtypes] * len(row.shapes[0]) if isinstance(dtypes, str) else dtypes
        operands = [np.ones(shape, dtype) for shape, dtype in zip(row.shapes[0], names, strict=True)]
        call = row.fun or (lambda namespace, *xs, name=row.name: getattr(namespace, name)(*xs))
        text, files = written_by("cuda", lambda *xs, call=call: call(lax, *xs), *operands)
        assert not files, row.name
        assert 'inlineable = "false"' not in text, row.name         # it separates functions on CPUs
    assert len(seen) > 80


def test_each_row_has_limits_a_reason_and_a_file():
    for name, form in FORMS.items():
        assert form.cpu is not None or form.gpu is not None, name
        assert len(form.why) > 10 and len(form.what) > 2, name
        file = ROOT / (form.where if form.where.startswith("xnn") else f"xjax/{form.where}")
        texts = [path.read_text() for path in (file, *file.parent.glob("*.py"))]
        assert any(f'"{name}"' in text for text in texts), name


def test_nothing_else_asks_for_the_platform():
    """Only `lower_on` rules choose an operation's form by platform; the remaining uses of the platform choose none."""
    folders = "core", "ops", "transforms", "lax", "numpy", "nn"
    choosing = {path.relative_to(ROOT / "xjax").as_posix() for folder in folders
                for path in (ROOT / "xjax" / folder).rglob("*.py") if re.search(r'platform [!=]= "', path.read_text())}
    assert choosing == {"core/memory_kinds.py"}


def test_rules_of_platforms_are_called_for_these_alone():
    """The rule of the program's platform is called first; if it declines, the general rule writes the operation."""
    def rule(name, limit):
        return lambda b, out, x: b.unary(f"stablehlo.{name}", x) if out.size < limit else None

    p = unary("sine_or_cosine", "f", "stablehlo.sine", ZERO, lower_on={"cpu": rule("cosine", 4), "gpu": rule("tan", 8)})
    try:
        text = {(platform, n): xjax.jit(p.bind).trace(f(n)).lower(lowering_platforms=(platform,)).as_text()
                for platform in ("cpu", "cuda") for n in (2, 6, 9)}
    finally:
        del primitive._ALL_PRIMITIVES[p.name]
    operation = {key: next(name for name in ("sine", "cosine", "tan") if f"stablehlo.{name}" in text)
                 for key, text in text.items()}
    assert operation == {("cpu", 2): "cosine", ("cpu", 6): "sine", ("cpu", 9): "sine", ("cuda", 2): "tan",
                         ("cuda", 6): "tan", ("cuda", 9): "sine"}


def test_platforms_of_rules_are_those_that_programs_are_written_for():
    for p in all_primitives().values():
        assert {*p.lower_on} <= {"cpu", "gpu"}, p.name
