"""Printing of programs: layout, names, rules, speed. `test_printing_as_jax.py` compares with real JAX."""

from __future__ import annotations

import itertools
import re
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest

from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from xjax.core.printing import _letters, format_eqn, format_jaxpr
from xjax.core.types import ShapedArray

F32 = ShapedArray((3,), np.float32)


def var(aval=F32):
    return Var(aval)


def op(name, ins, outs, /, **params):
    return Eqn(list(ins), list(outs), SimpleNamespace(name=name), params)


def sines(n):
    """A program of `n` equations, each of which is the sine of the previous result."""
    xs = [var() for _ in range(n + 1)]
    eqns = [op("sin", [x], [y]) for x, y in itertools.pairwise(xs)]
    return Jaxpr([], [xs[0]], eqns, [xs[-1]])


def jit(program, x, y, name="f", **params):
    return op("jit", [x], [y], name=name, jaxpr=ClosedJaxpr(program), **params)


def text(expected):
    return textwrap.dedent(expected).strip("\n")


# ---------------------------------------------------------------------------------------- layout


def test_one_line():
    assert format_jaxpr(sines(1)) == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"


def test_no_equations():
    assert format_jaxpr(sines(0)) == "{ lambda ; a:f32[3]. let  in (a,) }"


def test_constants_and_literals():
    c, x, y = var(), var(), var()
    program = Jaxpr([c], [x], [op("add", [x, c], [y])], [y, Literal(np.float32(2)), Literal(True)])
    assert format_jaxpr(program) == text("""
        { lambda a:f32[3]; b:f32[3]. let
            c:f32[3] = add b a
          in (c, 2.0:f32[], True:bool[]) }""")
    assert format_jaxpr(Jaxpr([], [], [], [Literal(2)])) == "{ lambda ; . let  in (2:i32[],) }"


@pytest.mark.parametrize(("spare", "lines"), [(0, 1), (-1, 3)])
def test_a_line_holds_eighty_columns(spare, lines):
    fixed = len("{ lambda ; a:f32[3]. let b:f32[3] =  a in (b,) }") - len(" }")
    x, y = var(), var()
    program = Jaxpr([], [x], [op("p" * (80 - fixed - len(" }") - spare), [x], [y])], [y])
    assert len(format_jaxpr(program).splitlines()) == lines


def test_long_operand_lists_fill_lines():
    xs, y = [var() for _ in range(60)], var()
    lines = format_jaxpr(Jaxpr([], xs, [op("concatenate", xs, [y])], [y])).splitlines()
    assert 80 <= max(map(len, lines)) < 80 + len(" bb:f32[3]")
    assert lines[1].startswith("    i:f32[3] j:f32[3]")
    assert re.findall(r"(\w+):f32", " ".join(lines))[:60] == [_letters(i) for i in range(60)]


# ---------------------------------------------------------------------------------- names, rules


def test_letters():
    assert [_letters(i) for i in (0, 25, 26, 27, 675, 676)] == ["a", "z", "ba", "bb", "zz", "baa"]
    assert len({_letters(i) for i in range(30_000)}) == 30_000


def test_unused_results():
    x, y, z = var(), var(), var()
    program = Jaxpr([], [x], [op("split", [x], [y, z])], [z])
    assert "_:f32[3] b:f32[3] = split a" in format_jaxpr(program)


def test_jit_has_the_names_outside():
    x, y = var(), var()
    program = Jaxpr([], [x], [jit(sines(1), x, y, inline=False, donated_invars=(False,))], [y])
    assert format_jaxpr(program) == text("""
        { lambda ; a:f32[3]. let
            b:f32[3] = jit[
              name=f
              jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
            ] a
          in (b,) }""")
    shown = Jaxpr([], [x], [jit(sines(1), x, y, keep_unused=True, donated_invars=(True,))], [y])
    assert "donated_invars=(True,)" in format_jaxpr(shown)
    assert "keep_unused=True" in format_jaxpr(shown)


def test_repeated_and_large_programs_are_printed_apart():
    x, y, z, w = var(), var(), var(), var()
    small, large = sines(1), sines(11)
    eqns = [jit(small, x, y, "<lambda>"), jit(small, y, z, "<lambda>"), jit(large, z, w, "lambda")]
    lines = format_jaxpr(Jaxpr([], [x], eqns, [w])).splitlines()
    assert lines[0] == "let lambda = { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) } in"
    assert lines[1] == "let lambda1 = { lambda ; c:f32[3]. let"
    assert lines[-2]== "    r:f32[3] = jit[name=lambda jaxpr=lambda1] q"
    for program in (sines(11), Jaxpr([], [x], [jit(sines(10), x, y)], [y])):
        assert format_jaxpr(program).startswith("{ lambda ; a:f32[3]. let\n")


def test_variables_are_not_called_like_programs():
    x, y, z = var(), var(), var()
    small = sines(1)
    printed = format_jaxpr(Jaxpr([], [x], [jit(small, x, y, "b"), jit(small, y, z, "b")], [z]))
    assert printed.startswith("let b = { lambda ; a:f32[3]. let c:f32[3] = sin a in (c,) } in\n")


def test_branches():
    i, x, y = var(ShapedArray((), np.int32)), var(), var()
    branches = (ClosedJaxpr(sines(1)), ClosedJaxpr(sines(0)))
    program = Jaxpr([], [i, x], [op("cond", [i, x], [y], branches=branches)], [y])
    assert format_jaxpr(program) == text("""
        { lambda ; a:i32[] b:f32[3]. let
            c:f32[3] = cond[
              branches=(
                { lambda ; d:f32[3]. let e:f32[3] = sin d in (e,) }
                { lambda ; f:f32[3]. let  in (f,) }
              )
            ] a b
          in (c,) }""")


def rule_jvp(primals, tangents):
    return primals, tangents


def shown(name, /, **params):
    return format_eqn(op(name, [var()], [var()], **params))


@pytest.mark.parametrize(("eqn", "expected"), [
    (shown("p", b=1, a=None, c=np.dtype("int32")), "p[a=None b=1 c=int32]"),
    (shown("broadcast_in_dim", shape=(3,), broadcast_dimensions=()), "broadcast_in_dim"),
    (shown("broadcast_in_dim", shape=(3,), broadcast_dimensions=(0,)),
     "broadcast_in_dim[broadcast_dimensions=(0,)]"),
    (shown("dot_general", dimension_numbers=(((1,), (0,)), ((), ())), precision=None,
           preferred_element_type=None),
     "dot_general[dimension_numbers=(([1], [0]), ([], []))]"),
    (shown("psum", axes=frozenset("cab")), "psum[axes=frozenset({'a', 'b', 'c'})]"),
    (shown("custom_lin", name="f", bwd=rule_jvp, out_avals=[F32], residual_tree=(), num_res=1),
     "custom_lin[bwd=rule_jvp num_res=1]"),
])
def test_parameters(eqn, expected):
    assert eqn == f"a:f32[3] = {expected} b"


def test_addresses_are_blanked():
    assert re.search(r"f=<function rule_jvp at 0xX+>", shown("p", f=rule_jvp))


def test_custom_rules():
    printed = shown("custom_jvp_call", call_jaxpr=ClosedJaxpr(sines(0)), jvp=rule_jvp, name="f",
                    num_consts=0, symbolic_zeros=False)
    assert printed == text("""
        a:f32[3] = custom_jvp_call[
          name=f
          call_jaxpr={ lambda ; b:f32[3]. let  in (b,) }
          jvp=rule_jvp
          symbolic_zeros=False
        ] c""")


def test_equation_without_results():
    assert format_eqn(op("debug_print", [var()], [], fmt="x")) == "debug_print[fmt=x] a"


# ----------------------------------------------------------------------------------- robustness


def test_objects_print_themselves():
    program = sines(2)
    assert str(program) == repr(program) == str(ClosedJaxpr(program)) == format_jaxpr(program)
    assert str(program.eqns[0]) == "a:f32[3] = sin b"


def test_a_malformed_program_prints():
    x, y = var(), var()
    wrong = Jaxpr([], [], [op("sin", [var()], [var()])], [var()])
    assert "jaxpr={ lambda ; . let" in format_jaxpr(Jaxpr([], [x], [jit(wrong, x, y)], [y]))


def test_deep_nesting():
    program = sines(1)
    for _ in range(100):
        x, y = var(), var()
        program = Jaxpr([], [x], [jit(program, x, y)], [y])
    assert format_jaxpr(program).count("jit[") == 100


def test_sharing_costs_no_more_than_the_text():
    program = sines(1)
    for _ in range(60):                         # printed in full, the program would have 2**60 equations
        x, y, z = var(), var(), var()
        program = Jaxpr([], [x], [jit(program, x, y), jit(program, y, z)], [z])
    assert format_jaxpr(program).count("= sin ") == 1


def test_speed():
    program = sines(1000)

    def seconds():
        start = time.perf_counter()
        format_jaxpr(program)
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.2
