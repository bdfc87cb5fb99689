"""Rows sharded over devices: the same numbers on any device count."""

import numpy as np
import pytest
import scipy.sparse as sp

import xjax
import xnn
from recipes.errors import RecipeError
from recipes.process import parallel
from recipes.process.parallel import Placer, choose_devices, my_rows
from tests.jobs import assert_all_ended_well, run_job

COUNTS = (1, pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow))


@pytest.fixture(params=COUNTS)
def placer(request):
    return Placer(choose_devices(request.param))


@pytest.fixture(params=["sparse", "dense"])
def form(request, monkeypatch):
    """The storage form of matrices of this size."""
    monkeypatch.setattr(parallel, "DENSE", 0 if request.param == "sparse" else parallel.DENSE)
    return {"sparse": xnn.CSR, "dense": np.ndarray}[request.param]


@pytest.fixture(params=[(7, 5), (4, 3), (3, 9), (34, 34)], ids=str)
def matrix(request):
    out = sp.random(*request.param, density=0.4, random_state=0, dtype=np.float32).toarray()
    out[0] = 1  # one full row: the blocks differ in their number of stored values
    return sp.csr_matrix(out)


def test_split_pads_with_zeros_and_keeps_the_order(placer):
    rows = np.arange(1, 15, dtype=np.int32).reshape(7, 2)
    blocks = placer.split(rows)
    assert blocks.shape == (placer.count, placer.block(7), 2)
    flat = blocks.reshape(-1, 2)
    np.testing.assert_array_equal(flat[:7], rows)
    assert not flat[7:].any()


def test_blocks_are_the_rows_of_the_matrix(placer, form, matrix):
    n, m = matrix.shape
    dense = np.random.default_rng(0).normal(size=(m, 2)).astype(np.float32)
    product = placer.pmap(lambda block, h: block @ h, in_axes=(0, None))
    blocks = placer.split_matrix(matrix)
    assert isinstance(blocks, form)
    out = product(placer.put(blocks), placer.replicate(dense))
    rows = np.asarray(xjax.device_get(out)).reshape(-1, 2)
    np.testing.assert_allclose(rows[:n], matrix @ dense, rtol=1e-5, atol=1e-6)
    assert not rows[n:].any()


@pytest.mark.parametrize("n", [2, 5, 8, 34])  # fewer rows than devices, uneven, even
def test_row_block_gathers_the_rows_of_all_devices(placer, form, n):
    square = sp.random(n, n, density=0.5, random_state=n, dtype=np.float32, format="csr")
    h = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    product = placer.pmap(lambda adj, x: adj @ x)
    out = product(placer.put(placer.row_block(square, 3)), placer.put(placer.split(h)))
    rows = np.asarray(xjax.device_get(out)).reshape(-1, 3)
    np.testing.assert_allclose(rows[:n], square @ h, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("steps", "noted", "message"), [
    (200, None, "segments"), (1_000_000, None, "unrolled"), (1_000_000, "segments", "segments"),
    (200, "unrolled", "unrolled"), (200, ["?"], "segments")])
def test_the_form_of_products_is_that_of_the_steps_or_the_noted_one(steps, noted, message):
    square = sp.random(150, 150, density=0.02, random_state=0, dtype=np.float32, format="csr")
    h = np.random.default_rng(0).normal(size=(150, 3)).astype(np.float32)
    for devices in (1, 3):
        placer = Placer(choose_devices(devices), steps=steps, noted=noted)
        block, x = placer.row_block(square, 16), placer.split(h)
        assert placer.form == (message if devices == 1 else "segments")
        out = placer.pmap(lambda adj, x: adj @ x)(placer.put(block), placer.put(x))
        np.testing.assert_allclose(np.asarray(xjax.device_get(out)).reshape(-1, 3), square @ h, rtol=1e-5, atol=1e-6)


def test_a_wider_product_is_unrolled_sooner():
    square = sp.random(150, 150, density=0.1, random_state=0, dtype=np.float32, format="csr")
    placer = Placer(choose_devices(1), steps=2000)
    forms = [placer.row_block(square, width) and placer.form for width in (8, 512)]
    assert forms == ["segments", "unrolled"]


def test_gradient_through_the_gathering_product(placer, form):
    """d/dx of sum(c * (A x)) is A^T c, whichever device owns a row."""
    n = 7
    square = sp.random(n, n, density=0.5, random_state=3, dtype=np.float32, format="csr")
    rng = np.random.default_rng(0)
    x, c = (rng.normal(size=(n, 2)).astype(np.float32) for _ in range(2))

    def gradient(adj, x, c):
        return xjax.grad(lambda x: ((adj @ x) * c).sum())(x)

    mapped = placer.pmap(gradient)
    parts = (placer.put(placer.split(rows)) for rows in (x, c))
    out = np.asarray(xjax.device_get(mapped(placer.put(placer.row_block(square, 2)), *parts)))
    np.testing.assert_allclose(out.reshape(-1, 2)[:n], square.T @ c, rtol=1e-5, atol=1e-6)


def test_replicate_and_host(placer):
    tree = {"a": np.arange(3.0, dtype=np.float32), "b": (np.int32(4),)}
    back = Placer.host(placer.replicate(tree))
    assert back["b"][0] == 4
    np.testing.assert_array_equal(back["a"], tree["a"])


def test_my_rows_are_global_ids(placer):
    starts = placer.pmap(lambda _: my_rows(5))
    got = np.asarray(xjax.device_get(starts(np.zeros(placer.count, np.float32))))
    assert got.tolist() == [5 * i for i in range(placer.count)]


@pytest.mark.slow
def test_a_process_reads_its_own_rows(tmp_path):
    job = run_job("""
from recipes.process.parallel import AXIS, Placer, choose_devices
placer = Placer(choose_devices(4, 2))
mine = placer.own(np.arange(10), 10)
assert mine.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]][rank]
blocks = placer.put_own(placer.split_own(np.float32(10 * mine), 10))
assert blocks.shape == (2, 3) and blocks.is_fully_addressable
assert placer.pmap(lambda x: xjax.lax.psum(x.sum(), AXIS))(blocks).tolist() == [450, 450]
""", tmp_path=tmp_path)
    assert_all_ended_well(job)


def test_too_many_devices_are_an_error():
    with pytest.raises(RecipeError, match=r"(?s)devices: .*devices  60\n.*fix: XLA_FLAGS"):
        choose_devices(60)                                    # the backend of this process has already started
    with pytest.raises(RecipeError, match=r"a CPU is split into 64 devices at most.\n  devices  4000"):
        choose_devices(4000)
