"""The table of forms by platform: on GPUs no form that was measured on CPUs is written."""

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
from xjax.core.forms import FORMS
from xjax.core.hlo import Builder

ROOT = Path(__file__).parents[1]
FILES = sorted(path.name for path in (ROOT / "xjax" / "ops").glob("*_on_cpu.py"))


def f(*shape):
    return np.ones(shape, np.float32)


def convolution(lhs, rhs, **options):
    return lax.conv_general_dilated(lhs, rhs, (1, 1), "SAME", **options)


# The forms' files -> programs, and arguments that are large enough.
LARGE = {
    "argmax_on_cpu.py": (jnp.argmax, f(4096)),
    "conv_on_cpu.py": (convolution, f(2, 3, 16, 16), f(4, 3, 3, 3)),
    "cumsum_on_cpu.py": (jnp.cumsum, f(1 << 15)),
    "dot_on_cpu.py": (lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))), f(64, 256), f(64, 8)),
    "extrema_on_cpu.py": (jnp.max, f(8192)),
    "sort_on_cpu.py": (jnp.sort, f(256)),
    "sums_on_cpu.py": (lambda x: x.sum(1), f(4096, 4)),
    "top_k_on_cpu.py": (lambda x: lax.top_k(x, 4), f(1 << 14)),
}


def written_by(platform, function, *args):
    """(The text of a program, the files of forms for CPUs that wrote a part of it)."""
    found = set()

    def look(frame, event, arg):
        name = Path(frame.f_code.co_filename).name
        if event == "call" and name in FILES:
            writes = [x for x in frame.f_locals.values() if isinstance(x, Builder)]
            if writes and not frame.f_code.co_name.startswith("_has"):
                found.add(name)

    traced = xjax.jit(function).trace(*args)
    sys.setprofile(look)
    try:
        text = traced.lower(lowering_platforms=(platform,)).as_text()
    finally:
        sys.setprofile(None)
    return text, found


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
        assert 'inlineable = "false"' not in text, row.name         # how functions are kept apart, on CPUs
    assert len(seen) > 80


def test_each_row_has_limits_a_reason_and_a_file():
    for name, form in FORMS.items():
        assert form.cpu is not None or form.gpu is not None, name
        assert len(form.why) > 10 and len(form.what) > 2, name
        file = ROOT / (form.where if form.where.startswith("xnn") else f"xjax/{form.where}")
        texts = [path.read_text() for path in (file, *file.parent.glob("*.py"))]
        assert any(f'"{name}"' in text for text in texts), name


def test_nothing_else_asks_for_the_platform():
    """Where a program is written, a form is a row of the table; what is left are features that one platform lacks."""
    found = {path.relative_to(ROOT / "xjax").as_posix() for folder in ("ops", "transforms", "lax", "numpy", "core")
             for path in (ROOT / "xjax" / folder).rglob("*.py") if re.search(r'platform [!=]= "', path.read_text())}
    assert found == {"core/memory_kinds.py", "ops/dot.py"}
