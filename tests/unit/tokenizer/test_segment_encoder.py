"""`SegmentEncoder` gives the ids of the library that it uses, whatever it has kept before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import WORDS, finished, small

from jprep.tokenizer.encoding import segment_encoder
from jprep.tokenizer.encoding.batch import EncodedBatch
from jprep.tokenizer.encoding.integer_numbers import IntegerNumbers
from jprep.tokenizer.encoding.segment_encoder import SegmentEncoder
from jprep.tokenizer.tokenizer import Tokenizer

PARTS = [word.replace("▁", " ") for word in WORDS] + [" ", "  ", "▁", "\n", "\0", "龘", "𠮟", "<0x41>", "x" * 30]
TEXTS = st.lists(
    st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.lists(st.sampled_from(PARTS)).map("".join)),
    max_size=8,
)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SegmentEncoder:
    tokenizer = Tokenizer(finished(tmp_path_factory.mktemp("tokenizer"), small(request.param)))
    assert isinstance(tokenizer._encoder, SegmentEncoder)
    return tokenizer._encoder


@pytest.fixture(params=[(7, 1 << 14), (10, 12)])
def small_limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is too short, what is kept is deleted often, and few characters can be kept."""
    longest, characters = request.param
    values = {"_MIN_CHARACTERS": 1, "_SEGMENTS_AT_ONCE": 5, "_MAX_PREFIXES": 40}
    for name, value in {**values, "_LONGEST": longest, "_KNOWN_CHARACTERS": characters - 1}.items():
        monkeypatch.setattr(segment_encoder, name, value)


def lists(batch: EncodedBatch) -> list[list[int]]:
    return [batch.ids[start:end].tolist() for start, end in pairwise(batch.offsets)]


@pytest.mark.usefixtures("small_limits")
def test_ids_are_those_of_the_library(encoder: SegmentEncoder) -> None:
    @settings(max_examples=300)
    @given(TEXTS)
    def check(texts: list[str]) -> None:
        found = encoder(texts)
        assert lists(found) == lists(encoder._encoder(texts))
        assert (found.ids.dtype, found.offsets.dtype) == (np.int32, np.int64)

    check()


def test_many_texts(encoder: SegmentEncoder) -> None:
    texts = [
        "すもももももももものうち。Hello, the world",
        "",
        "a\0b \n \t ▔",
        "東京都のPython 3.11は龘𠮟",
        "日本語" * 40,
    ] * 300
    for _ in range(2):  # what was kept is used
        assert lists(encoder(texts)) == lists(encoder._encoder(texts))


def test_segments_are_kept_and_short_calls_are_not(encoder: SegmentEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plain = encoder._encoder

    def recording(texts: list[str]) -> EncodedBatch:
        asked.extend(texts)
        return plain(texts)

    monkeypatch.setattr(encoder, "_encoder", recording)
    encoder(["日本語"])
    assert asked == ["日本語"]
    encoder(["日本、東京。日本、東京。"] * 1_000)
    asked.clear()
    encoder(["東京。日本、"] * 1_000)
    assert asked == []


def test_an_interrupted_call_leaves_a_valid_cache(encoder: SegmentEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["都のゲーム、年代。print is def"] * 500
    encoder(["日本、東京。"] * 1_000)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, name in ((encoder, "_encoder"), (IntegerNumbers, "_place"), (segment_encoder._Cache, "add")):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(owner, name, interrupted)
            encoder([*texts, f"20年代のPython、する{name}"])
        assert lists(encoder(texts)) == lists(encoder._encoder(texts))


def test_long_segments_are_not_kept(encoder: SegmentEncoder) -> None:
    encoder(["ゲ" * 100_000])
    assert encoder._cache is not None and len(encoder._cache.ids) < 10_000


def test_the_ids_of_a_long_line_do_not_depend_on_the_call(tmp_path: Path) -> None:
    """The sum of the scores of rare characters loses the bits that decide between a piece and its characters."""
    vocabulary = small("unigram")
    alone = {piece.text: -60.0 - number / 64 for number, piece in enumerate(vocabulary.pieces)}
    pieces = [
        msgspec.structs.replace(
            piece, score=sum(alone[c] for c in piece.text) + (-1) ** len(piece.text) * 1 / 1024 * (len(piece.text) > 1)
        )
        if piece.kind == "normal"
        else piece
        for piece in vocabulary.pieces
    ]
    tokenizer = Tokenizer(finished(tmp_path / "t", msgspec.structs.replace(vocabulary, pieces=pieces)))
    line = "龘" * 900 + "東京都の日本語、すもももものうち。the world is code" * 40
    assert len(line) < 4_096
    found = tokenizer.encode(line, normalized=True)
    assert of_first(tokenizer.encode_batch([line, *["日本語"] * 3_000], normalized=True)) == found
    parts = [tokenizer.encode(line[start : start + 1], normalized=True) for start in range(900)]
    assert found[: sum(map(len, parts))] == [number for part in parts for number in part]


def of_first(batch: EncodedBatch) -> list[int]:
    return lists(batch)[0]


@given(st.lists(st.lists(st.one_of(st.integers(0, 40), st.integers(0, 2**64 - 2)))))
def test_integers_are_numbered_once(batches: list[list[int]]) -> None:
    numbers, known = IntegerNumbers(), dict[int, int]()
    for batch in batches:
        found = numbers.number(np.array(batch, np.uint64)).tolist()
        for key, number in zip(batch, found, strict=True):
            assert known.setdefault(key, number) == number
    assert sorted(known.values()) == list(range(len(numbers)))


def test_many_integers_are_numbered() -> None:
    numbers = IntegerNumbers()
    keys = np.arange(100_000, dtype=np.uint64) << np.uint64(42)
    first = numbers.number(keys)
    assert np.array_equal(np.sort(first), np.arange(100_000)) and np.array_equal(
        numbers.number(keys[::-1]), first[::-1]
    )
