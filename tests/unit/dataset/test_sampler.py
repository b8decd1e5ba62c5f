"""The sampler: the documented formulas, complete epochs, and rows with the content that the packing defines."""

from __future__ import annotations

import hashlib
import pickle
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.manifest import SENTENCE_START, WORD_START, DatasetManifest, write_dataset
from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import IGNORE_INDEX, Masking
from jprep.dataset.sampling.sample_index import SeparatorIds
from jprep.dataset.sampling.sampler import SampleOrder, Sampler, SamplerConfig, SplitData, open_split_data
from jprep.dataset.sampling.special_ids import SpecialIds, special_ids
from jprep.errors import ConfigError
from jprep.random.counter_bits import key
from jprep.random.permutation import permuted
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS
from tests.fakes.mark_file import written

END, NEWLINE, MASK = 2, 14, 999
ROBERTA = SpecialIds(before=(0,), after=(2,), pad=1, mask=MASK, special=(0, 1, 2, 3, MASK), vocab_size=1000)
PLAIN = SpecialIds(pad=END, special=(END,), vocab_size=1000)


class Memory:
    """Eight documents of three paragraphs of two sentences of seven tokens; words of one and of two tokens."""

    def __init__(self) -> None:
        text = 100 + np.arange(8 * 3 * 2 * 7).reshape(8, 3, 14) ** 2 * 7919 % 800
        marks = np.tile(np.array([3, 1, 0, 1, 0, 1, 1], np.uint8), (8, 3, 2)).reshape(8, 3, 14)
        breaks = np.broadcast_to(np.array([[NEWLINE], [NEWLINE], [END]]), (8, 3, 1))
        self.tokens: Any = np.concatenate([text, breaks], axis=2).reshape(-1).astype(np.uint16)
        self._marks = np.concatenate([marks, np.zeros((8, 3, 1), np.uint8)], axis=2).reshape(-1)

    def marks(self, start: int, stop: int) -> Any:
        return self._marks[start:stop]

    def release(self) -> None:
        """Nothing to release."""


MEMORY = Memory()


@pytest.fixture
def source(tmp_path: Path) -> SplitData:
    return SplitData(MEMORY, SeparatorIds(END, NEWLINE), "f" * 32, 1000, tmp_path)


def text_of(batch, row: int, special: SpecialIds) -> list[int]:
    """Return a row's tokens without special tokens and padding, after checking those."""
    ids, length = batch.input_ids[row].tolist(), batch.lengths[row]
    first, last = len(special.before), length - len(special.after)
    assert tuple(ids[:first]) == special.before
    assert tuple(ids[last:length]) == special.after
    assert set(ids[length:]) <= {special.pad}
    return ids[first:last]


ORDERS = st.builds(
    SampleOrder,
    samples=st.integers(1, 40),
    batch=st.integers(1, 12),
    seed=st.integers(0, 1 << 40),
    split=st.sampled_from(["train", "validation"]),
    drop_last=st.just(False),
)


@given(ORDERS, st.integers(0, 1 << 40))
def test_rows_match_the_formulas(order, step):
    epochs, indices = order.rows(step)
    for row in range(order.batch):
        epoch, place = divmod(step * order.batch + row, order.samples)
        expected = permuted(np.array([place]), order.samples, key(order.seed, order.split, epoch, "order"))
        assert (epochs[row], indices[row]) == (epoch, expected[0])


@given(ORDERS, st.integers(0, 3))
def test_each_epoch_contains_each_sample_once(order, epoch):
    first, last = epoch * order.samples // order.batch, (epoch + 1) * order.samples // order.batch
    pairs = [pair for step in range(first, last + 1) for pair in zip(*order.rows(step), strict=True)]
    assert sorted(index for found, index in pairs if found == epoch) == list(range(order.samples))


def test_order_depends_on_epoch_split_and_seed():
    orders = {
        tuple(SampleOrder(50, 50, seed, split).rows(step)[1].tolist())
        for seed in (1, 2)
        for split in ("train", "validation")
        for step in (0, 1)
    }
    assert len(orders) == 8


@pytest.mark.parametrize("world", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("masking", [None, Masking(MaskingConfig(whole_word=True), ROBERTA, NEWLINE)])
def test_ranks_partition_the_global_batch(source, world, masking):
    sampler = Sampler(source, SamplerConfig(batch=12, length=16, packing="complete"), ROBERTA, masking)
    whole = sampler.batch(5)
    parts = [sampler.batch(5, rank, world) for rank in range(world)]
    for field in ("input_ids", "labels", "lengths", "epochs", "indices", "attention_mask"):
        assert (np.concatenate([getattr(part, field) for part in parts]) == getattr(whole, field)).all()


@pytest.mark.parametrize("special", [ROBERTA, PLAIN], ids=["roberta", "plain"])
@pytest.mark.parametrize("packing", ["stream", "complete"])
def test_epoch_contains_every_token_once(source, packing, special):
    sampler = Sampler(source, SamplerConfig(batch=1, length=16, packing=packing), special)
    rows = {}
    for step in range(sampler.samples):
        batch = sampler.batch(step)
        rows[int(batch.indices[0])] = text_of(batch, 0, special)
    assert [token for index in range(sampler.samples) for token in rows[index]] == MEMORY.tokens.tolist()


def test_complete_rows_are_whole_sentences(source):
    sampler = Sampler(source, SamplerConfig(batch=8, length=20, packing="complete"), ROBERTA)
    _, indices = sampler.order.rows(0)
    starts, _ = sampler._samples.spans(indices)
    assert all(MEMORY.marks(start, start + 1)[0] & SENTENCE_START for start in starts)


@pytest.mark.parametrize("special", [ROBERTA, PLAIN], ids=["roberta", "plain"])
def test_line_rows_are_paragraphs_with_an_end(source, special):
    sampler = Sampler(source, SamplerConfig(batch=24, length=20, packing="line"), special)
    batch = sampler.batch(0)
    paragraphs = [part.tolist() for part in MEMORY.tokens.reshape(24, 15)[:, :14]]
    ended = special if special.around else SpecialIds(after=(END,), pad=END, vocab_size=1000)
    assert sorted(text_of(batch, row, ended) for row in range(24)) == sorted(paragraphs)
    assert sampler.samples == 24


def test_labels_without_masking_are_all_tokens_but_the_first(source):
    batch = Sampler(source, SamplerConfig(batch=30, length=16), ROBERTA).batch(0)
    assert batch.lengths.min() < 16
    text = batch.attention_mask.copy()
    text[:, 0] = False
    assert (batch.labels[text] == batch.input_ids[text]).all()
    assert (batch.labels[~text] == IGNORE_INDEX).all()


def test_masks_depend_on_the_epoch_and_are_reproducible(source):
    masking = Masking(MaskingConfig(rate=0.5), ROBERTA, NEWLINE)
    sampler = Sampler(source, SamplerConfig(batch=10, length=14), ROBERTA, masking)
    steps = -(-2 * sampler.samples // 10)
    rows = {}
    for step in range(steps):
        batch = sampler.batch(step)
        assert (sampler.batch(step).input_ids == batch.input_ids).all()
        for row in range(10):
            rows[int(batch.epochs[row]), int(batch.indices[row])] = batch.labels[row].tolist()
            assert batch.input_ids[row, 0] == 0
    differing = sum(rows[0, index] != rows[1, index] for index in range(sampler.samples))
    assert differing > 0.9 * sampler.samples


def test_word_starts_are_aligned_with_tokens(source):
    batch = Sampler(source, SamplerConfig(batch=8, length=18, word_starts=True), ROBERTA).batch(2)
    for row, index in enumerate(batch.indices):
        place = int(index) * 16
        marks = MEMORY.marks(place, place + batch.lengths[row] - 2) & WORD_START
        assert batch.word_starts[row, 1 : 1 + len(marks)].tolist() == marks.astype(bool).tolist()
    assert not batch.word_starts[:, 0].any()
    assert Sampler(source, SamplerConfig(batch=8, length=18), ROBERTA).batch(2).word_starts is None


def digest(sampler: Sampler) -> str:
    batches = [sampler.batch(step) for step in range(9)]
    return hashlib.sha256(b"".join(b.input_ids.tobytes() + b.labels.tobytes() for b in batches)).hexdigest()[:16]


def sampler_of(source: SplitData, packing: Any) -> Sampler:
    masking = Masking(MaskingConfig(whole_word=True), ROBERTA, NEWLINE)
    return Sampler(source, SamplerConfig(batch=6, length=24, packing=packing), ROBERTA, masking)


DIGESTS = {"stream": "f13a79215214a1a0", "complete": "791d2c4fc6b0995e", "line": "00e3d734cf4ed7e5"}


@pytest.mark.parametrize(("packing", "expected"), DIGESTS.items())
def test_batches_are_stable(source, packing, expected):
    assert digest(sampler_of(source, packing)) == expected


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write `MEMORY` as a dataset on disk."""
    tokens, marks, sizes = MEMORY.tokens, MEMORY.marks(0, 360).tolist(), np.full(8, 45)
    (tmp_path / "train.bin").write_bytes(tokens.astype("<u2").tobytes())
    (tmp_path / "train.marks").write_bytes(written(marks))
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, 8, 9)
    index = [sizes.astype("<i4"), (np.arange(8) * 90).astype("<i8"), np.arange(9).astype("<i8")]
    (tmp_path / "train.idx").write_bytes(head + b"".join(part.tobytes() for part in index))
    about = {"jprep": "0", "format": 1, "name": "x", "signature": "", "fingerprint": "f" * 32, "made_from": {}}
    more = {"dtype": "uint16", "vocab_size": 1000, "end": END, "newline": NEWLINE, "parts": [], "sources": []}
    split = {"name": "train", "documents": 8, "tokens": 360, "files": []}
    write_dataset(tmp_path, msgspec.convert(about | more | {"splits": [split], "counts": {}}, DatasetManifest))
    return tmp_path


@pytest.mark.parametrize("packing", DIGESTS)
def test_dataset_on_disk_gives_the_same_batches(folder, packing):
    sampler = sampler_of(open_split_data(folder, "train"), packing)
    assert digest(sampler) == DIGESTS[packing]
    copied = pickle.dumps(sampler)
    assert digest(pickle.loads(copied)) == DIGESTS[packing]
    assert len(copied) < 8192  # contains no tokens


def test_unknown_split_is_rejected(folder):
    with pytest.raises(ConfigError, match="no split 'test'"):
        open_split_data(folder, "test")


def test_sample_indices_can_be_elsewhere(folder, tmp_path_factory):
    elsewhere, before = tmp_path_factory.mktemp("lists"), sorted(folder.iterdir())
    sampler_of(open_split_data(folder, "train", elsewhere), "line")
    assert len(list(elsewhere.iterdir())) == 1
    assert sorted(folder.iterdir()) == before


def test_names_of_sample_indices_contain_their_dependencies(source):
    for packing, length, special in [("complete", 16, ROBERTA), ("complete", 16, PLAIN), ("line", 20, ROBERTA)]:
        Sampler(source, SamplerConfig(batch=1, length=length, packing=packing), special)
    assert sorted(path.name for path in source.folder.iterdir()) == [
        f"train.{name}-{'f' * 32}.samples" for name in ("complete-16-0", "complete-16-2", "line-20-2")
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"length": 2}, "no room"),
        ({"batch": 0}, "at least one row"),
        ({"seed": -1}, "seed"),
        ({"packing": "complete", "length": 1 << 21}, "requires a length below"),
    ],
)
def test_invalid_values_are_rejected(source, change, what):
    config = SamplerConfig(**{"batch": 4, "length": 16} | change)
    with pytest.raises(ConfigError, match=what):
        Sampler(source, config, ROBERTA)


def test_other_tokenizer_is_rejected(source):
    with pytest.raises(ConfigError, match="32000 ids, the dataset 1000"):
        Sampler(source, SamplerConfig(batch=4, length=16), SpecialIds(vocab_size=32_000))


def test_empty_split_is_rejected(source):
    class Empty(Memory):
        def __init__(self) -> None:
            self.tokens, self._marks = np.zeros(0, np.uint16), np.zeros(0, np.uint8)

    for packing in ("stream", "complete", "line"):
        with pytest.raises(ConfigError, match="no sample"):
            Sampler(source._replace(tokens=Empty()), SamplerConfig(batch=4, length=16, packing=packing), ROBERTA)


@pytest.mark.parametrize("place", [(0, 0, 5), (0, 2, 2), (0, -1, 2), (-1, 0, 1), (0, 0, 0)])
def test_invalid_ranks_are_rejected(place):
    with pytest.raises(ConfigError, match=r"divided|does not exist"):
        SampleOrder(10, 4, 1, "train").rows(*place)


def test_the_last_incomplete_batch_of_an_epoch_is_left_out() -> None:
    whole, dropped = SampleOrder(10, 4, 1, "train"), SampleOrder(10, 4, 1, "train", drop_last=True).checked()
    assert (whole.epoch_rows, dropped.epoch_rows) == (10, 8)
    assert dropped.places(0, 8)[1].tolist() == whole.places(0, 8)[1].tolist()
    assert dropped.places(8, 16)[1].tolist() == whole.places(10, 18)[1].tolist()
    assert [dropped.rows(step)[0].tolist() for step in (1, 2)] == [[0] * 4, [1] * 4]
    with pytest.raises(ConfigError, match="3 rows are less than a batch of 4"):
        SampleOrder(3, 4, 1, "train", drop_last=True).checked()


def test_directory_without_a_dataset_is_rejected(tmp_path: Path):
    with pytest.raises(ConfigError, match="no finished dataset"):
        open_split_data(tmp_path, "train")


def test_special_ids_match_the_tokenizer():
    class Tokenizer:
        special = SPECIAL_TOKEN_SETS["bert"]
        vocab_size = 100

        def id_of(self, piece: str) -> int:
            return self.special.tokens.index(piece)

    found = special_ids(Tokenizer())
    assert (found.before, found.after, found.between, found.pair_after) == ((2,), (3,), (3,), (3,))
    assert (found.pad, found.mask, found.special, found.types) == (0, 4, (0, 1, 2, 3, 4), True)
    assert (found.around, found.around_pair) == (2, 3)
