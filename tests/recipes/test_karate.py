"""The karate club: sizes, splits, and errors for impossible labelled nodes."""

import numpy as np
import pytest

from recipes.data.graphs import row_normalized
from recipes.data.karate import load_karate
from recipes.errors import DataError


def test_zacharys_numbers():
    club = load_karate()
    assert club.adjacency.shape == (34, 34)
    assert club.adjacency.nnz == 2 * 78
    assert (club.adjacency != club.adjacency.T).nnz == 0
    assert set(club.adjacency.data) == {1.0}  # each friendship counts once, however often its members met
    assert np.bincount(club.labels).tolist() == [17, 17]
    assert (club.labels[0], club.labels[33]) == (0, 1)


def test_only_the_labelled_nodes_train():
    split = load_karate((33, 0, 5)).split
    assert split["train"].tolist() == [0, 5, 33]
    assert len(split["test"]) == 31
    assert not set(split["test"]) & set(split["train"])


@pytest.mark.parametrize("labelled", [(0, 34), (0, 1), (), (33,)])
def test_labelled_nodes_that_cannot_be(labelled):
    with pytest.raises(DataError) as caught:
        load_karate(labelled)
    assert str(caught.value) == (
        "karate: the labelled nodes must be nodes of the graph, at least one of each faction.\n"
        f"  task.labelled  {list(labelled)}\n"
        "  nodes          0 .. 33\n"
        "  factions       Mr. Hi 17 nodes, e.g. 0; Officer 17 nodes, e.g. 33\n"
        "  fix: task.labelled='[0, 33]', the two leaders."
    )


def test_row_normalized_keeps_empty_rows():
    features = load_karate().adjacency.copy().tolil()
    features[3] = 0
    rows = row_normalized(features.tocsr())
    sums = np.asarray(rows.sum(axis=1)).ravel()
    np.testing.assert_allclose(np.delete(sums, 3), 1, rtol=1e-6)
    assert sums[3] == 0
    assert rows.dtype == np.float32
