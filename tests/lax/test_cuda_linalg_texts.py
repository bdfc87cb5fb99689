"""Decompositions on NVIDIA GPUs: the calls in xjax's text for CUDA equal those in JAX's; the check needs no GPU.

Calls are equal if their target, options, types, layouts and aliased operands are. JAX writes no call for CUDA for some
operations, or none without the plugin; for these the expected calls are listed here.
"""

import itertools
import re

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax

jax = real_jax()
DTYPES = ("float32", "float64", "complex64", "complex128")
BATCHES = ((), (3,), (2, 3))


def _svd(**options):
    algorithm = options.pop("algorithm", None)
    return lambda lax: lambda x: lax.linalg.svd(
        x, algorithm=algorithm and lax.linalg.SvdAlgorithm[algorithm], **options)


def _eigh(**options):
    implementation = options.pop("implementation", None)
    return lambda lax: lambda x: lax.linalg.eigh(
        x, implementation=implementation and lax.linalg.EighImplementation[implementation], **options)


def _eig(**options):
    implementation = options.pop("implementation", None)
    return lambda lax: lambda x: lax.linalg.eig(
        x, implementation=implementation and lax.linalg.EigImplementation[implementation], **options)


def _op(name, **options):
    return lambda lax: lambda *xs: getattr(lax.linalg, name)(*xs, **options)


# name -> (function of a lax namespace, shapes of its operands without batch axes)
ROWS = {
    "lu": (_op("lu"), [(5, 5)]),
    "lu, tall": (_op("lu"), [(6, 4)]),
    "lu, wide": (_op("lu"), [(4, 6)]),
    "cholesky": (_op("cholesky"), [(5, 5)]),
    "triangular_solve": (_op("triangular_solve", left_side=True, lower=True), [(5, 5), (5, 3)]),
    "triangular_solve, adjoint": (_op("triangular_solve", transpose_a=True, conjugate_a=True), [(5, 5), (3, 5)]),
    "triangular_solve, unit": (_op("triangular_solve", unit_diagonal=True, transpose_a=True), [(5, 5), (3, 5)]),
    "qr": (_op("qr"), [(6, 4)]),
    "qr, reduced": (_op("qr", full_matrices=False), [(6, 4)]),
    "qr, wide": (_op("qr", full_matrices=False), [(4, 6)]),
    "qr, pivoting": (_op("qr", pivoting=True), [(6, 4)]),
    "qr, pivoting on the host": (_op("qr", pivoting=True, full_matrices=False, use_magma=False), [(6, 4)]),
    "householder_product": (_op("householder_product"), [(6, 4), (4,)]),
    "ormqr": (_op("ormqr"), [(6, 4), (4,), (6, 3)]),
    "ormqr, right, adjoint": (_op("ormqr", left=False, transpose=True), [(6, 4), (4,), (3, 6)]),
    "eigh": (_eigh(), [(5, 5)]),
    "eigh, upper": (_eigh(lower=False, symmetrize_input=False), [(5, 5)]),
    "eigh, QR": (_eigh(implementation="QR"), [(5, 5)]),
    "eigh, Jacobi": (_eigh(implementation="JACOBI"), [(5, 5)]),
    "eig": (_eig(), [(5, 5)]),
    "eig, values": (_eig(compute_left_eigenvectors=False, compute_right_eigenvectors=False), [(5, 5)]),
    "eig, LAPACK": (_eig(implementation="LAPACK"), [(5, 5)]),
    "svd": (_svd(), [(5, 5)]),
    "svd, tall": (_svd(full_matrices=False), [(6, 4)]),
    "svd, wide": (_svd(full_matrices=True), [(4, 6)]),
    "svd, values": (_svd(compute_uv=False), [(6, 4)]),
    "svd, Jacobi of larger ones": (_svd(full_matrices=False), [(40, 36)]),
    "svd, large": (_svd(full_matrices=False), [(1025, 4)]),
    "svd, large and wide": (_svd(), [(4, 1025)]),
    "svd, QR": (_svd(algorithm="QR"), [(6, 4)]),
    "svd, QR, wide": (_svd(algorithm="QR", full_matrices=False), [(4, 6)]),
    "svd, QR, values": (_svd(algorithm="QR", compute_uv=False), [(4, 6)]),
    "svd, polar": (_svd(algorithm="POLAR", full_matrices=False), [(6, 4)]),
    "svd, polar, wide": (_svd(algorithm="POLAR"), [(4, 6)]),
    "svd, polar, values": (_svd(algorithm="POLAR", compute_uv=False), [(6, 4)]),
    "tridiagonal": (_op("tridiagonal"), [(5, 5)]),
    "tridiagonal, upper": (_op("tridiagonal", lower=False), [(5, 5)]),
    "tridiagonal_solve": (_op("tridiagonal_solve"), [(5,), (5,), (5,), (5, 2)]),
    "tridiagonal_solve, perturbed": (_op("tridiagonal_solve", perturb_singular=True), [(5,), (5,), (5,), (5, 2)]),
    "cholesky_update": (_op("cholesky_update"), [(5, 5), (5,)]),
}
UNBATCHED = {"cholesky_update"}
REAL = {"cholesky_update"}


def _cases():
    for name, dtype, batch in itertools.product(ROWS, DTYPES, BATCHES):
        if (name in UNBATCHED and batch) or (name in REAL and dtype.startswith("complex")):
            continue
        yield pytest.param(name, dtype, batch, id=f"{name}-{dtype}-{len(batch)}")


def _calls(text):
    """The custom calls and triangular solves of a program, each as a tuple of the parts that must be equal."""
    calls = []
    for line in text.splitlines():
        if "custom_call" in line and "Sharding" not in line:
            calls.append(_custom_call(line))
        elif "stablehlo.triangular_solve" in line:
            flags = tuple(re.search(rf"{flag} = (\w+)", line)[1] for flag in ("left_side", "lower", "unit_diagonal"))
            calls.append(("triangular_solve", *flags, re.search(r"<(?:transpose )?(\w+)>,? ?", line[line.index(
                "transpose_a"):])[1], _types(line)))
    return calls


def _custom_call(line):
    target = (re.search(r"custom_call @(\w+)", line) or re.search(r'call_target_name = "(\w+)"', line))[1]
    options = next(text for text in re.findall(r"backend_config = (\{.*?\}|\"\")", line) if text != '""')
    layouts = [re.sub(r"dense<\[?([\d, ]*)\]?> : tensor<\w+>", r"<\1>", re.search(rf"{kind}_layouts = \[(.*?tensor<"
               r"\w+>)\]", line)[1]) for kind in ("operand", "result")]
    aliases = re.search(r"output_operand_aliases = \[(.*?>)\]", line)
    return target, options, *layouts, aliases and aliases[1], _types(line)


def _types(line):
    return line[line.rindex(" : "):].replace("(", "").replace(")", "").strip()


def _cuda_text(jit, function, operands):
    return jit(function).trace(*operands).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize(("name", "dtype", "batch"), list(_cases()))
def test_calls_as_in_jax(name, dtype, batch):
    make, shapes = ROWS[name]
    operands = [np.zeros((*batch, *shape), dtype) for shape in shapes]
    with jax.enable_x64(True), xjax.enable_x64(True):
        ours = _calls(_cuda_text(xjax.jit, make(xjax.lax), operands))
        assert ours == _calls(_cuda_text(jax.jit, make(jax.lax), operands))
        assert ours
