"""Every primitive has every rule; rules that cannot exist are declared missing, and are listed here too."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import xjax
from xjax.core.primitive import RULES, ByProgram, Missing, Primitive, all_primitives
from xjax.transforms.call_rules import CallRules


def load_all() -> None:
    """Import every module of xjax, so that every primitive is declared."""
    for module in pkgutil.walk_packages(xjax.__path__, "xjax."):
        if not module.name.startswith("xjax.interop"):
            importlib.import_module(module.name)


load_all()
PRIMITIVES = sorted(all_primitives().items())

# Missing rules other than transposes, with the reason: (primitive, rule) -> why.
WITHOUT = {
    ("custom_lin", "lower"): "occurs only in tangent programs, which are transposed, not run",
    ("custom_lin", "jvp"): "forward mode of custom_vjp",
    ("custom_lin", "batch"): "forward mode of custom_vjp",
    **{(name, "jvp"): "no rule in JAX either" for name in (
        "geqrf", "hessenberg", "householder_product", "ormqr", "schur", "tridiagonal")},
    ("io_callback", "jvp"): "a Python function",
    ("nextafter", "jvp"): "no useful derivative",
    ("pmax", "jvp"): "no rule in JAX either",
    ("pmin", "jvp"): "no rule in JAX either",
    ("pure_callback", "jvp"): "a Python function", ("ffi_call", "jvp"): "a foreign function",
    ("random_unwrap", "lower"): "does not occur in lowered programs, in which keys are arrays of words",
    ("random_wrap", "lower"): "does not occur in lowered programs, in which keys are arrays of words",
    ("rng_uniform", "batch"): "no rule in JAX either",
    ("rng_uniform", "jvp"): "no rule in JAX either",
}


def missing() -> dict[tuple[str, str], str]:
    return {(name, rule): getattr(p, rule).why for name, p in PRIMITIVES for rule in RULES
            if isinstance(getattr(p, rule), Missing)}


@pytest.mark.parametrize("name, p", PRIMITIVES, ids=[name for name, _ in PRIMITIVES])
def test_a_primitive_has_every_rule(name, p):
    for rule in RULES:
        assert callable(getattr(p, rule)) or isinstance(p.lower, ByProgram), f"{name} has no {rule} rule"
        if isinstance(missing_rule := getattr(p, rule), Missing):
            assert len(missing_rule.why) > 10 and missing_rule.fix, f"{name}: state the reason and the fix for {rule}"


def test_missing_rules_stand_in_the_list():
    without = {key: why for key, why in missing().items() if key[1] != "transpose"}
    for (name, rule), why in sorted(without.items()):
        print(f"{name:15} {rule:10} {why}")
    assert without.keys() == WITHOUT.keys()


@pytest.mark.parametrize("name, p", PRIMITIVES, ids=[name for name, _ in PRIMITIVES])
def test_a_linear_primitive_has_a_transpose(name, p):
    """`jvp=LINEAR` puts the operation itself into tangent programs, so it must have a transpose."""
    linear = getattr(p.jvp, "__func__", None) is Primitive._linear_jvp
    assert not (linear and isinstance(p.transpose, Missing))


def test_a_missing_rule_says_what_to_do():
    for _, p in PRIMITIVES:
        for rule in RULES:
            if isinstance(missing_rule := getattr(p, rule), Missing):
                with pytest.raises(missing_rule.exc, match="fix: "):
                    missing_rule()


@pytest.mark.parametrize("name", ["jit", "remat2", "custom_vmap_call", "shard_map", "cond"])
def test_operations_that_hold_one_program_share_their_rules(name):
    p = dict(PRIMITIVES)[name]
    for rule in ("jvp", "linearize", "transpose", "batch"):
        assert isinstance(getattr(p, rule).__self__, CallRules), f"{name} has a {rule} rule of its own"


def test_no_name_of_a_primitive_is_compared():
    """The kind of an operation is one of its fields. Exception: a policy of `checkpoint` matches products by name."""
    names, files = {name for name, _ in PRIMITIVES}, set()
    for path in Path(xjax.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith(
                    ("prim.name", "primitive.name", "p.name")):
                texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                if texts & names:
                    files.add(path.name)
    assert files <= {"checkpoint_policies.py"}
