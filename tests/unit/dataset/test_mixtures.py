"""Mixtures: shares of the sources, their epochs, and rows that no later stage changes."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.manifest import DatasetConfig, ShardRange, check_dataset_config, read_dataset
from jprep.dataset.mix import MixConfig, MixStage, check_mix, has_same_rows
from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.mixed_order import MixedOrder, Shares
from jprep.dataset.sampling.pair_sampler import PairSampler
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.sources import SourceRange, SourceStreams, source_ranges
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError, DamagedError
from tests.fakes.config_sections import dataset_config
from tests.fakes.small_dataset import NEWLINE, VOCAB, flat, lay_out, some

SPECIAL = SpecialIds(
    before=(0,), between=(3,), after=(3,), pair_after=(3,), pad=1, mask=4, special=(0, 1, 3, 4), vocab_size=VOCAB
)
SIZES = {"wiki": 40, "none": 0, "web": 23, "books": 7}
"""Number of documents of each source."""


def about(name: str) -> dict[str, Any]:
    return {"name": name, "licence": "CC0-1.0", "homepage": "", "files": []}


def mixed_dataset(folder: Path, ids: int = VOCAB, **changes: Any) -> Path:
    """Write a dataset of sources with a number of ids; that of `wiki` came from two shards."""
    documents = [
        [[[5 + token % (ids - 5) for token in sentence] for sentence in paragraph] for paragraph in document]
        for document in some(sum(SIZES.values()), 3)
    ]
    ends = np.cumsum([0, *(len(flat(one)) for one in documents)]).tolist()
    edges = [0, 15, 40, 40, 63, 70]
    names = ["0000-wiki-00000", "0000-wiki-00001", "0001-none-00000", "0002-web-00000", "0003-books-00000"]
    parts = [
        ShardRange(f"documents/{name}.parquet", "", {"train": (a, b)}, {"train": (ends[a], ends[b])})
        for name, a, b in zip(names, edges[:-1], edges[1:], strict=True)
    ]
    fields = {"parts": parts, "sources": [about(name) for name in SIZES]} | changes
    return lay_out(folder, {"train": documents}, **fields)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return mixed_dataset(tmp_path / "dataset")


def sampler(folder: Path, mix: MixConfig, kind: type[Sampler] | type[PairSampler] = Sampler, **config: Any) -> Any:
    chosen = SamplerConfig(**{"batch": 12, "length": 16, "mix": mix, **config})
    masking = Masking(MaskingConfig(), SPECIAL, NEWLINE)
    return kind(open_split_data(folder, "train", by_source=True), chosen, SPECIAL, masking)


def order_of(mix: MixConfig, sizes: list[int], batch: int = 4) -> MixedOrder:
    """Return the order of sources of some numbers of rows, named a, b, c …"""
    edges = np.cumsum([0, *sizes]).tolist()
    ranges = [SourceRange(chr(97 + i), *edges[i : i + 2]) for i in range(len(sizes))]
    return MixedOrder(mix, ranges, SourceStreams(ranges, 1), batch, 1, "train")


WEIGHTS = st.lists(st.fractions(0, 50, max_denominator=40), min_size=1, max_size=6).filter(any)
POSITIVE = st.lists(st.sampled_from([0.25, 0.7, 1, 3, 11.5]), min_size=3, max_size=3)
MIX = MixConfig(weights={"wiki": 3, "web": 1.5, "books": 0.5})


def named(shares: list[float]) -> dict[str, float]:
    return {chr(97 + index): share for index, share in enumerate(shares)}


@given(WEIGHTS, st.integers(0, 60), st.integers(0, 60))
def test_shares_are_webster_s(weights: list[Fraction], start: int, rows: int) -> None:
    """The reference gives each row to the source with the largest quotient weight / (2n + 1)."""
    counts, dealt = [0] * len(weights), []
    for _ in range(start + rows):
        best = max(range(len(weights)), key=lambda i: (weights[i] / (2 * counts[i] + 1), -i))
        counts[best] += 1
        dealt.append(best)
    shares = Shares(weights)
    assert shares.sources(start, start + rows) == dealt[start:]
    assert shares.counts(start + rows) == counts


@given(WEIGHTS, st.integers(0, 1 << 50))
def test_shares_stay_exact_however_long_the_run(weights: list[Fraction], rows: int) -> None:
    counts = Shares(weights).counts(rows)
    assert sum(counts) == rows
    assert all(abs(n - rows * weight / sum(weights)) <= len(weights) for n, weight in zip(counts, weights, strict=True))
    assert all(bool(weight) or not n for n, weight in zip(counts, weights, strict=True))


@given(POSITIVE, st.lists(st.integers(1, 9), min_size=3, max_size=3), st.integers(0, 70), st.integers(0, 40))
def test_any_part_of_the_rows_is_computed_alone(shares: list[float], sizes: list[int], start: int, rows: int) -> None:
    order = order_of(
        MixConfig(weights=named(shares), stages=[MixStage(until_step=5, weights=named(shares[::-1]))]), sizes
    )
    whole, part = order.rows(0, start + rows), order.rows(start, start + rows)
    assert all((a[start:] == b).all() for a, b in zip(whole, part, strict=True))


@given(POSITIVE, st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_each_epoch_of_a_source_has_each_of_its_samples_once(shares: list[float], sizes: list[int]) -> None:
    order = order_of(MixConfig(repeats=named(shares), stages=[MixStage(until_step=3, weights=named(shares))]), sizes)
    epochs, indices = order.rows(0, 200)
    edges = np.cumsum([0, *sizes])
    for first, stop, use in zip(edges[:-1], edges[1:], order.use(200), strict=True):
        own = (indices >= first) & (indices < stop)
        assert own.sum() == use.rows
        assert epochs[own].tolist() == [number // (stop - first) for number in range(use.rows)]
        for epoch in range(use.rows // (stop - first)):
            assert sorted(indices[own & (epochs == epoch)]) == list(range(first, stop))


@given(POSITIVE, st.lists(st.integers(1, 30), min_size=3, max_size=3))
def test_an_epoch_has_each_source_as_often_as_repeats_says(shares: list[float], sizes: list[int]) -> None:
    whole = [float(int(share) + 1) for share in shares]
    order = order_of(MixConfig(repeats=named(whole)), sizes)
    assert order.epoch_rows == sum(a * b for a, b in zip(whole, sizes, strict=True))
    assert [use.epochs for use in order.use(order.epoch_rows)] == whole


@given(st.lists(st.tuples(st.integers(1, 9), POSITIVE), max_size=3), POSITIVE, POSITIVE)
def test_a_stage_that_is_appended_changes_no_earlier_row(
    stages: list[tuple[int, list[float]]], last: list[float], new: list[float]
) -> None:
    ends = np.cumsum([length for length, _ in stages]).tolist()
    before = [MixStage(until_step=end, weights=named(shares)) for end, (_, shares) in zip(ends, stages, strict=True)]
    stop = (ends[-1] if ends else 0) + 4
    mix = MixConfig(weights=named(last), stages=before)
    longer = MixConfig(weights=named(new), stages=[*before, MixStage(until_step=stop, weights=named(last))])
    rows = [order_of(one, [5, 6, 7]).rows(0, 4 * stop) for one in (mix, longer)]
    assert all((a == b).all() for a, b in zip(*rows, strict=True))
    assert has_same_rows(longer, mix, stop) and (new == last or not has_same_rows(longer, mix, stop + 1))


def test_stages_have_shares_of_their_own() -> None:
    mix = MixConfig(
        weights={"a": 1, "b": 0},
        stages=[MixStage(until_step=10, weights={"a": 0, "b": 1}), MixStage(until_step=20, weights={"a": 3, "b": 1})],
    )
    order = order_of(mix, [1000, 1000])
    used = [[use.rows for use in order.use(4 * step)] for step in (10, 20, 30)]
    assert used == [[0, 40], [30, 50], [70, 50]]


def test_a_documented_order() -> None:
    """The example of docs/sampling.md."""
    order = order_of(MixConfig(weights={"a": 3, "b": 1}), [5, 2])
    epochs, indices = order.rows(0, 12)
    assert Shares([Fraction(3), Fraction(1)]).sources(0, 12) == [0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0]
    assert indices.tolist() == [1, 4, 6, 2, 3, 0, 5, 2, 4, 1, 6, 3]
    assert epochs.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("world", [1, 2, 3, 12])
@pytest.mark.parametrize("packing", ["stream", "complete", "line", "best_fit"])
def test_ranks_partition_the_global_batch(dataset: Path, world: int, packing: str) -> None:
    ours = pickle.loads(pickle.dumps(sampler(dataset, MIX, packing=packing)))
    whole, parts = ours.batch(7), [ours.batch(7, rank, world) for rank in range(world)]
    for field in ("input_ids", "labels", "lengths", "epochs", "indices"):
        assert (np.concatenate([getattr(part, field) for part in parts]) == getattr(whole, field)).all()


@pytest.mark.parametrize("packing", ["stream", "complete", "line", "best_fit"])
def test_no_row_has_tokens_of_two_sources(dataset: Path, packing: str) -> None:
    ours, sources = sampler(dataset, MIX, packing=packing), source_ranges(read_dataset(dataset), "train")
    firsts = ours._samples.firsts
    for source, first, stop in zip(sources, firsts[:-1], firsts[1:], strict=True):
        _, starts, sizes = ours._samples.pieces(np.arange(first, stop))
        assert (starts >= source.start).all() and (starts + sizes <= source.stop).all()
        if packing != "line":  # every token of the source is in one row
            assert sizes.sum() == source.stop - source.start
    if packing == "line":
        alone = Sampler(open_split_data(dataset, "train"), SamplerConfig(batch=1, length=16, packing="line"), SPECIAL)
        assert alone.samples == firsts[-1]


def test_masks_differ_between_epochs_of_a_source(dataset: Path) -> None:
    ours = sampler(dataset, MixConfig(weights={"wiki": 0, "web": 0, "books": 1}), batch=60)
    batch = ours.batch(0)
    again = [batch.labels[batch.indices == batch.indices[0]][epoch] for epoch in (0, 1)]
    assert batch.epochs.max() > 0 and (again[0] != again[1]).any()


def test_sentence_pairs_are_mixed_by_the_source_of_their_chunk(dataset: Path) -> None:
    ours, plain = (sampler(dataset, one, PairSampler, length=24) for one in (MIX, None))
    firsts = ours._samples.firsts
    batch = ours.batch(0)
    source = np.searchsorted(firsts, batch.indices, side="right") - 1
    assert np.bincount(source, minlength=4).tolist() == [7, 0, 4, 1]
    assert firsts[-1] == plain.samples and batch.segments.any()


def test_a_source_is_left_out_only_if_the_mixture_says_so(dataset: Path) -> None:
    for mix, what in (
        (MixConfig(weights={"wiki": 1}), "does not say how much of web, books"),
        (MixConfig(weights={"wiki": 1, "web": 1, "boks": 1}), "'boks', which does not exist"),
        (MixConfig(weights={"wiki": 1, "web": 1, "books": 1, "none": 1}), "'none' has no row in the train split"),
        (MixConfig(weights=MIX.weights, stages=[MixStage(until_step=3, weights={"wiki": 1})]), "web, books"),
    ):
        with pytest.raises(ConfigError, match=what):
            sampler(dataset, mix)
    assert sampler(dataset, MixConfig(weights=MIX.weights | {"none": 0})).samples
    with pytest.raises(ConfigError, match="drop_last cannot be combined"):
        sampler(dataset, MIX, drop_last=True)


@pytest.mark.parametrize(
    ("mix", "what"),
    [
        (MixConfig(), "neither weights nor repeats"),
        (MixConfig(weights={"a": 1}, repeats={"a": 1}), "both weights and repeats"),
        (MixConfig(weights={"a": 0}), "leaves out everything"),
        (MixConfig(weights={"a": -1}), "share -1"),
        (MixConfig(weights={"a": float("nan")}), "share nan"),
        (
            MixConfig(weights={"a": 1}, stages=[MixStage(until_step=0, weights={"a": 1})]),
            "ends at step 0, but it begins at step 0",
        ),
        (
            MixConfig(
                weights={"a": 1},
                stages=[MixStage(until_step=9, weights={"a": 1}), MixStage(until_step=9, weights={"a": 1})],
            ),
            "stage 1 of dataset.mix",
        ),
        (MixConfig(weights={"a": 1}, stages=[MixStage(until_step=9)]), r"stages\[0\] has neither"),
    ],
)
def test_a_mixture_that_makes_no_sense_is_refused(mix: MixConfig, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        check_dataset_config(DatasetConfig(mix=mix), "here")


def test_the_section_is_read() -> None:
    stages = [{"until_step": 5, "weights": {"a": 1, "b": 2}}]
    found = dataset_config({"mix": {"repeats": {"a": 4, "b": 0.5}, "stages": stages}}, "here").mix
    assert found == MixConfig(repeats={"a": 4, "b": 0.5}, stages=[MixStage(until_step=5, weights={"a": 1, "b": 2})])
    check_mix(found)
    with pytest.raises(ConfigError, match="wieghts"):
        dataset_config({"mix": {"wieghts": {"a": 4}}}, "here")


@pytest.mark.parametrize("sources", [["wiki"], ["wiki", "none", "book", "books"], ["none", "wiki", "web", "books"]])
def test_shards_of_unknown_sources_are_damage(tmp_path: Path, sources: list[str]) -> None:
    folder = mixed_dataset(tmp_path / "d", sources=[about(name) for name in sources])
    with pytest.raises(DamagedError, match="belongs to no source"):
        open_split_data(folder, "train", by_source=True)
    assert open_split_data(folder, "train").sources == ()
