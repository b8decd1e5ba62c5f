"""Rows of whole documents: every token once, no document cut without need, few padding tokens."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.dataset.sampling import best_fit
from jprep.dataset.sampling.best_fit import best_fit_rows, open_best_fit
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, SplitData
from jprep.dataset.sampling.sources import SourceRange
from tests.unit.dataset.test_sampler import END, MEMORY, PLAIN, ROBERTA, SeparatorIds

LENGTH = 16


class Tokens:
    """Documents of given lengths; token i of the split is i + 3, and the end token is 2."""

    def __init__(self, sizes: list[int]) -> None:
        self.tokens = np.arange(3, sum(sizes) + 3)
        self.tokens[np.cumsum(sizes) - 1] = END

    def marks(self, start: int, stop: int) -> np.ndarray:
        return np.zeros(stop - start, np.uint8)

    def release(self) -> None:
        """Nothing to release."""


@given(st.lists(st.integers(1, 20), max_size=60))
def test_each_piece_is_in_one_row_that_it_fits_into(sizes):
    rows = best_fit_rows(np.array(sizes, np.int64), 20)
    assert sorted(piece for row in rows for piece in row) == list(range(len(sizes)))
    totals = [sum(sizes[piece] for piece in row) for row in rows]
    assert all(total <= 20 for total in totals)
    assert sum(total <= 10 for total in totals) <= 1, "two rows of half the length would fit into one"
    assert rows == sorted(rows) and all(row == sorted(row) for row in rows)


def test_the_longest_come_first_and_fit_best():
    assert best_fit_rows(np.array([3, 7, 5, 4, 1]), 10) == [[0, 1], [2, 3, 4]]


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=30), min_size=1, max_size=3),
    st.sampled_from([1 << 18, 7]),
    st.sampled_from([1 << 20, 11]),
    st.booleans(),
)
def test_rows_have_every_token_once(tmp_path_factory, sources, pieces_at_a_time, tokens_at_a_time, mixed):
    folder = tmp_path_factory.mktemp("rows")
    sizes = [size for source in sources for size in source]
    split, edges = Tokens(sizes), np.cumsum([0, *map(sum, sources)]).tolist()
    ranges = [SourceRange(str(n), *edge) for n, edge in enumerate(itertools.pairwise(edges))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_fit, "_PIECES", pieces_at_a_time)
        patch.setattr(best_fit, "_TOKENS", tokens_at_a_time)
        found = open_best_fit(folder / "rows.samples", split, END, LENGTH, ranges if mixed else ())
    found = pickle.loads(pickle.dumps(found))
    pieces = found.pieces(np.arange(len(found)))
    covered = np.concatenate([np.arange(a, a + n) for a, n in zip(pieces.starts, pieces.sizes, strict=True)])
    assert sorted(covered.tolist()) == list(range(sum(sizes)))
    assert np.bincount(pieces.rows, pieces.sizes).max() <= LENGTH
    begins = {0, *np.cumsum(sizes).tolist()}
    for start, size in zip(pieces.starts.tolist(), pieces.sizes.tolist(), strict=True):
        assert start in begins or size == LENGTH or start + size in begins
        assert not begins & set(range(start + 1, start + size)), "a piece has tokens of one document"
    if mixed:
        firsts = pieces.starts[np.searchsorted(pieces.rows, np.arange(len(found)))]
        sources_of = np.searchsorted(edges, firsts, side="right") - 1
        assert (np.searchsorted(edges, pieces.starts, side="right") - 1 == sources_of[pieces.rows]).all()
        bounds = np.searchsorted(sources_of, np.arange(len(sources) + 1))
        assert found.firsts == bounds.tolist()


@pytest.mark.parametrize("special", [ROBERTA, PLAIN], ids=["roberta", "plain"])
def test_rows_of_a_sampler(tmp_path: Path, special):
    source = SplitData(MEMORY, SeparatorIds(END, 14), "f" * 32, 1000, tmp_path)
    sampler = Sampler(source, SamplerConfig(batch=4, length=100, packing="best_fit", documents=True), special)
    batch = sampler.batch(0)
    assert (batch.documents.max(1) + 1).tolist() == [2, 2, 2, 2]  # two documents of 45 tokens fit
    for ids, numbers in zip(batch.input_ids, batch.documents, strict=True):
        inside = [ids[numbers == number] for number in (0, 1)]
        assert [len(one) for one in inside] == [45 + len(special.before), 45 + len(special.after)]
        assert all(END in one for one in inside)


def test_the_directory_finds_every_row(tmp_path: Path):
    sizes = [1 + number * 7919 % 16 for number in range(1000)]
    found = open_best_fit(tmp_path / "rows.samples", Tokens(sizes), END, LENGTH)
    whole = found.pieces(np.arange(len(found)))
    assert len(found) > 2 * 64 and whole.sizes.sum() / (len(found) * LENGTH) > 0.99
    for row in (0, 63, 64, 129, len(found) - 1):
        one = found.pieces(np.array([row]))
        assert one.starts.tolist() == whole.starts[whole.rows == row].tolist()
