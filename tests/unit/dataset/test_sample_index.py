"""Packing: against a plain second writing of each rule, and its laws."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.indexed.memory_map import release_pages
from jprep.dataset.manifest import SENTENCE_START, WORD_START
from jprep.dataset.sampling import sample_index
from jprep.dataset.sampling.sample_index import LENGTH_BITS, SampleIndex, SeparatorIds, StreamSamples, open_sample_index

END, NEWLINE = 2, 14
SEPARATORS = SeparatorIds(END, NEWLINE)
SENTENCE = WORD_START | SENTENCE_START


class Memory:
    """A split in memory."""

    def __init__(self, tokens: list[int], marks: list[int]) -> None:
        self.tokens, self._marks = np.array(tokens, np.uint16), np.array(marks, np.uint8)

    def marks(self, start: int, stop: int) -> Any:
        return self._marks[start:stop]

    def release(self) -> None:
        """It is in memory."""


@st.composite
def splits(draw):
    """Documents of paragraphs of sentences of tokens; now and then an empty one."""
    sentence, tokens, marks = st.integers(0, 12), [], []
    for document in draw(st.lists(st.lists(st.lists(sentence, max_size=4), max_size=4), min_size=1, max_size=6)):
        for number, paragraph in enumerate(document):
            if number:
                tokens.append(NEWLINE)
                marks.append(0)
            for size in paragraph:
                tokens += range(100, 100 + size)
                marks += [SENTENCE, *[WORD_START] * (size - 1)][:size]
        tokens.append(END)
        marks.append(0)
    return Memory(tokens, marks)


def runs(samples) -> list[tuple[int, int]]:
    starts, lengths = samples.spans(np.arange(len(samples)))
    return list(zip(starts.tolist(), lengths.tolist(), strict=True))


def sentences_of(split: Memory) -> list[int]:
    """Lengths of sentences, in which newlines and ends belong to the one before."""
    starts = [i for i in range(1, len(split.tokens)) if split.marks(i, i + 1)[0] & SENTENCE_START]
    return np.diff([0, *starts, len(split.tokens)]).tolist()


def complete(split: Memory, length: int) -> list[tuple[int, int]]:
    """fairseq's rule: a sentence goes into the sample if it fits, else into a new one."""
    found, start, size = [], 0, 0
    for sentence in sentences_of(split):
        while sentence:
            piece = min(sentence, length)
            if size + piece > length:
                found.append((start, size))
                start, size = start + size, 0
            size, sentence = size + piece, sentence - piece
    return [*found, (start, size)]


def lines(split: Memory, length: int) -> list[tuple[int, int]]:
    found, start = [], 0
    for place, token in enumerate(split.tokens.tolist()):
        if token in (END, NEWLINE):
            found += [(cut, min(length, place - cut)) for cut in range(start, place, length)]
            start = place + 1
    return found


@given(splits(), st.integers(1, 40), st.integers(1, 50))
def test_complete_is_fairseqs_rule(tmp_path_factory, split, length, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_index, "_BLOCK", block)
        found = runs(open_sample_index(tmp_path_factory.mktemp("lists") / "x", split, "complete", length, SEPARATORS))
    assert found == complete(split, length)
    assert sum(size for _, size in found) == len(split.tokens)


@given(splits(), st.integers(1, 40), st.integers(1, 50))
def test_line_is_paragraphs_without_separators(tmp_path_factory, split, length, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_index, "_BLOCK", block)
        found = runs(open_sample_index(tmp_path_factory.mktemp("lists") / "x", split, "line", length, SEPARATORS))
    assert found == lines(split, length)


@given(st.integers(0, 1000), st.integers(1, 60))
def test_stream_has_each_token_once(tokens, length):
    found = runs(StreamSamples(tokens, length))
    assert [token for start, size in found for token in range(start, start + size)] == list(range(tokens))
    assert all(size == length for _, size in found[:-1])


def small() -> Memory:
    return Memory([100, 101, 100, NEWLINE, 100, END], [3, 1, 3, 0, 3, 0])


def test_a_file_of_many_tokens_and_long_samples_is_exact(tmp_path: Path):
    entry = (1 << 43) - 7 << LENGTH_BITS | (1 << 20) - 1
    path = tmp_path / "list"
    path.write_bytes(np.array([entry, 1], "<i8").tobytes())
    assert runs(SampleIndex(path)) == [((1 << 43) - 7, (1 << 20) - 1)]


def test_a_list_is_made_once(tmp_path: Path):
    path = tmp_path / "list"
    open_sample_index(path, small(), "complete", 3, SEPARATORS)
    before = path.stat().st_mtime_ns
    assert runs(open_sample_index(path, Memory([], []), "complete", 3, SEPARATORS)) == [(0, 2), (2, 2), (4, 2)]
    assert path.stat().st_mtime_ns == before
    assert [file.name for file in tmp_path.iterdir()] == ["list"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-16],
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data[8:],
        *(lambda data, at=at: data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in range(32)),
    ],
)
def test_a_damaged_list_is_made_again(tmp_path: Path, damage):
    path = tmp_path / "list"
    open_sample_index(path, small(), "line", 3, SEPARATORS)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert runs(open_sample_index(path, small(), "line", 3, SEPARATORS)) == [(0, 3), (4, 1)]
    assert path.read_bytes() == whole


def test_what_is_let_go_is_read_again(tmp_path: Path):
    path = tmp_path / "tokens"
    path.write_bytes(np.arange(1 << 14, dtype="<u2").tobytes())
    mapped = np.memmap(path, "<u2", "r")
    for array in (mapped, np.asarray(mapped)[5:], np.arange(3)):
        before = array.tolist()
        release_pages(array)
        assert array.tolist() == before


def test_a_list_can_be_pickled(tmp_path: Path):
    found = open_sample_index(tmp_path / "list", small(), "line", 3, SEPARATORS)
    assert runs(pickle.loads(pickle.dumps(found))) == runs(found)


@pytest.mark.parametrize("kind", ["complete", "line"])
def test_an_empty_split_has_no_samples(tmp_path: Path, kind):
    assert runs(open_sample_index(tmp_path / "list", Memory([], []), kind, 3, SEPARATORS)) == []
