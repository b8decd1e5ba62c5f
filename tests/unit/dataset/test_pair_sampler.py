"""Sentence pairs: an independent implementation of `docs/sampling.md`, the shares, and datasets without pairs."""

from __future__ import annotations

import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import IGNORE_INDEX, Masking
from jprep.dataset.sampling.pair_sampler import PairSampler, truncation
from jprep.dataset.sampling.sampler import Batch, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.random.counter_bits import key
from tests.fakes.small_dataset import NEWLINE, VOCAB, Document, lay_out, some

BERT = SpecialIds(
    before=(5,), after=(2,), between=(2,), pair_after=(2,), pad=0, mask=4, special=(0, 2, 4, 5), vocab_size=VOCAB,
    types=True,
)  # fmt: skip
LENGTH, ROOM = 64, 61
DOCUMENTS = [*some(40, 5), [[[300]]], [[list(range(400, 600))]]]


def sampler(folder: Path, documents: list[Document] = DOCUMENTS, *, mask: bool = False, **config: Any) -> PairSampler:
    folder = lay_out(folder, {"train": documents})
    masking = Masking(MaskingConfig(whole_word=True), BERT, NEWLINE) if mask else None
    chosen = {"batch": 8, "length": LENGTH, "seed": 3} | config
    return PairSampler(open_split_data(folder, "train"), SamplerConfig(**chosen), BERT, masking)


def mixed(word: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ word >> shift) * factor % 2**64
    return word ^ word >> 31


def sentences_of(document: Document) -> list[list[int]]:
    """Return a document's sentences; long ones are cut."""
    whole = chain.from_iterable(document)
    return [sentence[at : at + ROOM] for sentence in whole for at in range(0, len(sentence), ROOM)]


def chunks_of(documents: list[Document]) -> list[tuple[int, list[list[int]]]]:
    """Return the chunks with the numbers of their documents."""
    chunks = []
    for number, document in enumerate(documents):
        chunk: list[list[int]] = []
        for sentence in sentences_of(document):
            chunk.append(sentence)
            if sum(map(len, chunk)) >= ROOM:
                chunks.append((number, chunk))
                chunk = []
        if chunk:
            chunks.append((number, chunk))
    return chunks


def enough(sentences: list[list[int]], first: int, tokens: int) -> int:
    last = first + 1
    while last < len(sentences) and sum(map(len, sentences[first:last])) < tokens:
        last += 1
    return last


def expected_pair(documents: list[Document], epoch: int, index: int) -> tuple[list[int], list[int], int]:
    """Return both segments and the label of a sample, by the rules of the documentation, one number at a time."""
    k = int(key(3, "train", epoch, index, "pair")[0])

    def w(counter: int) -> int:
        return mixed(mixed((counter * 0x9E3779B97F4A7C15 + k) % 2**64) ^ k)

    def draw(counter: int, limit: int) -> int:
        return w(counter) * limit >> 64

    def chance(counter: int, q: float) -> bool:
        return w(counter) >> 32 < int(q * 2**32 + 0.5)

    number, chunk = chunks_of(documents)[index]
    target = 2 + draw(1, ROOM - 1) if chance(0, 0.1) else ROOM
    if target < ROOM:
        first = draw(2, len(chunk))
        chunk = chunk[first : enough(chunk, first, target)]
    else:
        chunk = chunk[: enough(chunk, 0, target)]
    middle = 1 + draw(3, len(chunk) - 1) if len(chunk) > 1 else 1
    head, tail = chunk[:middle], chunk[middle:]
    if len(chunk) > 1 and not chance(4, 0.5):
        one, other, label = list(chain(*head)), list(chain(*tail)), 0
    else:
        one = list(chain(*(tail if len(chunk) > 1 and chance(5, 0.5) else head)))
        place = draw(6, len(documents) - 1)
        elsewhere = sentences_of(documents[place + (place >= number)])
        start = draw(7, len(elsewhere))
        other, label = list(chain(*elsewhere[start : enough(elsewhere, start, target - len(one))])), 1
    counter = 8
    while len(one) + len(other) > ROOM:
        longer = one if len(one) > len(other) else other
        longer.pop(0 if chance(counter, 0.5) else -1)
        counter += 1
    return one, other, label


def segments(batch: Batch, row: int) -> tuple[list[int], list[int], int]:
    """Return the segments of a row, after checking what surrounds them."""
    length, types = int(batch.lengths[row]), batch.segments[row].tolist()
    ids = np.where(batch.labels[row] == IGNORE_INDEX, batch.input_ids[row], batch.labels[row]).tolist()
    second = types.index(1)
    assert types == [0] * second + [1] * (length - second) + [0] * (LENGTH - length)
    assert ids[0] == 5 and ids[second - 1] == ids[length - 1] == 2 and not any(ids[length:])
    return ids[1 : second - 1], ids[second : length - 1], int(batch.next_sentence[row])


def test_pairs_match_the_documented_rules(tmp_path: Path) -> None:
    found = sampler(tmp_path, mask=True)
    assert found.samples == len(chunks_of(DOCUMENTS))
    for step in range(3 * found.samples // 8):
        batch = found.batch(step)
        for row, (epoch, index) in enumerate(zip(batch.epochs.tolist(), batch.indices.tolist(), strict=True)):
            assert segments(batch, row) == expected_pair(DOCUMENTS, epoch, index)


@given(first=st.integers(0, 80), second=st.integers(0, 80), most=st.integers(2, 60), seed=st.integers(0, 1000))
def test_truncation_removes_from_the_longer_segment(first: int, second: int, most: int, seed: int) -> None:
    (a_front, a_back), (b_front, b_back) = truncation(first, second, most, key(seed))
    lengths = [first, second]
    while sum(lengths) > most:
        lengths[lengths[0] <= lengths[1]] -= 1
    assert [first - a_front - a_back, second - b_front - b_back] == lengths


def test_shares_are_the_published_ones(tmp_path: Path) -> None:
    found = sampler(tmp_path, some(400, 9), batch=4000)
    batch = found.batch(0)
    several = [len(chunk) > 1 for _, chunk in chunks_of(some(400, 9))]
    own = np.array(several)[batch.indices]
    assert batch.next_sentence[own].mean() == pytest.approx(0.5, abs=0.05)  # short rows may have one sentence only
    assert batch.next_sentence[~own].all()


def test_ranks_divide_the_batch_and_a_pickled_sampler_is_the_same(tmp_path: Path) -> None:
    found = sampler(tmp_path, mask=True)
    whole, parts = found.batch(4), [pickle.loads(pickle.dumps(found)).batch(4, rank, 4) for rank in range(4)]
    for name in ("input_ids", "labels", "lengths", "segments", "next_sentence", "epochs", "indices"):
        assert (np.concatenate([getattr(part, name) for part in parts]) == getattr(whole, name)).all()
    rows = found.rows(4 * 8 + 2, 4 * 8 + 5)
    assert (rows.input_ids == whole.input_ids[2:5]).all()


def test_chunks_cover_all_text_once(tmp_path: Path) -> None:
    found = sampler(tmp_path)
    tokens = np.asarray(found._split.tokens)
    starts, sizes = found._samples.spans(np.arange(found.samples))
    parts = [tokens[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    text = [token for part in parts for token in part.tolist() if token != NEWLINE]
    assert text == list(chain.from_iterable(chain.from_iterable(map(sentences_of, DOCUMENTS))))
    assert all(stop <= start for stop, start in zip((starts + sizes)[:-1], starts[1:], strict=True))


ONE_SENTENCE: list[Document] = [[[[300, 301]]], [[[302]]]]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (ONE_SENTENCE, "this dataset has no sentence boundaries"),
        ([[[[300], [301]]]], "at least two documents"),
        ([[[[300], [301]]], [[]]], "at least two documents"),
    ],
)
def test_a_dataset_without_pairs_is_refused(tmp_path: Path, documents: list[Document], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sampler(tmp_path, documents)


def test_an_empty_document_is_never_a_second_segment(tmp_path: Path) -> None:
    found = sampler(tmp_path, [[[[300], [301]]], [[]], [[[400], [401]]]], batch=400)
    batch = found.batch(0)
    assert {len(segments(batch, row)[1]) for row in range(400)} <= {1, 2}


@pytest.mark.parametrize("length", [4, 1 << 20])
def test_a_length_without_room_for_pairs_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(ConfigError, match="cannot hold two segments"):
        sampler(tmp_path, length=length)


def test_limited_masks_are_a_part_of_all_masks() -> None:
    masking = Masking(MaskingConfig(rate=0.5, whole_word=True), BERT, NEWLINE)
    ids = np.arange(100, 100 + 40 * 30, dtype=np.int32).reshape(40, 30)
    starts, keys = np.tile([True, False, True], (40, 10)), key(1, np.arange(40))
    masked = masking(ids, np.full(40, 30, np.int32), keys, starts)
    limited = masking.limit(masked, keys, 9, starts)
    kept = limited.labels != IGNORE_INDEX
    assert kept.sum(axis=1).max() == 9 and kept.sum(axis=1).min() >= 7
    assert (limited.labels[kept] == masked.labels[kept]).all()
    assert (limited.ids[kept] == masked.ids[kept]).all() and (limited.ids[~kept] == ids[~kept]).all()
    words = np.cumsum(starts, axis=1)
    for row in range(40):
        assert set(words[row, kept[row]]).isdisjoint(words[row, ~kept[row] & (masked.labels[row] >= 0)])
    assert masking.limit(masked, keys, 30, starts).labels.tolist() == masked.labels.tolist()
