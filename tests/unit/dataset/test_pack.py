"""Encoding of documents: every token of every paragraph, and marks where words and sentences start."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import SENTENCE, WORD
from jprep.dataset.manifest import SENTENCE_START, WORD_START
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.dataset.preprocessing.split_assignment import split_of_key
from jprep.errors import ConfigError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.pieces import piece_bytes
from jprep.tokenizer.tokenizer import Tokenizer
from tests.conftest import Run
from tests.fakes.config_sections import dataset_config

KINDS = {
    "byte-bpe": (),
    "bpe": ("--set", "tokenizer.digits=split"),
    "unigram": ("--set", "tokenizer.spaces=alone"),
    "wordpiece": (),
    "hard": ("--model", "wordpiece", "--boundaries", "hard"),
    "hard-bpe": ("--model", "bpe", "--boundaries", "hard", "--set", "tokenizer.digits=split"),
    "lines": ("--model", "bpe", "--set", "tokenizer.newline=space"),
}
NO_BREAK = "\n\0\t\r "
KNOWN = [8, 9, 10, 12, 15, 17, 21, 23, 29, 30, 31, 47, 50, 57, 58]


@pytest.fixture(scope="session")
def encoders(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run
) -> dict[str, tuple[DocumentEncoder, Tokenizer]]:
    """Return a small tokenizer of each model type with its encoder."""
    folder = tmp_path_factory.mktemp("tokenizers")
    made = {}
    for kind, options in KINDS.items():
        model = () if "--model" in options else ("--model", kind)
        alphabet = () if kind == "byte-bpe" else ("--alphabet", 700)
        jprep("tokenizer", "train", corpus, "-o", folder / kind, *model, *options, *alphabet, "--vocab-size", 1500)
        tokenizer = Tokenizer(folder / kind)
        made[kind] = (DocumentEncoder(tokenizer), tokenizer)
    return made


def starts_of(paragraph: str, config: TokenizerConfig) -> tuple[bytes, dict[int, int]]:
    """Return a paragraph's text and the marks of its bytes, by a slow reference implementation."""
    text, starts = "", {0: WORD_START | SENTENCE_START}
    for sentence in paragraph.split(SENTENCE):
        for number, word in enumerate(sentence.split(WORD)):
            mark = WORD_START if number else WORD_START | SENTENCE_START
            starts[len(text)] = starts.get(len(text), 0) | mark
            text += word
    stay = NO_BREAK + ("0123456789０１２３４５６７８９" if config.digits == "split" else "")
    for place in sorted(starts) if config.spaces == "prefix" else ():
        if 0 < place < len(text) and text[place - 1] == " " and text[place] not in stay:
            starts[place - 1] = starts.get(place - 1, 0) | starts.pop(place)
    return text.encode(), {len(text[:place].encode()): mark for place, mark in starts.items() if place < len(text)}


def marks_of(document: str, encoder: DocumentEncoder, tokenizer: Tokenizer, tokens: list[int]) -> list[int]:
    """Return the expected marks of a document, after checking that its tokens spell its text."""
    pieces = [tokenizer.piece_of(number) for number in range(tokenizer.vocab_size)]
    spelt, marks = piece_bytes(pieces, tokenizer.card.config, tokenizer.special), list[int]()
    left, paragraphs = iter(tokens), document.split("\n")
    for number, paragraph in enumerate(paragraphs):
        text, starts = starts_of(paragraph, tokenizer.card.config)
        at = 0
        while at < len(text):
            token = next(left)
            piece = spelt[token] if token != tokenizer.unk else text[at:].decode()[0].encode()
            assert text[at:].startswith(piece)
            marks.append(starts.get(at, 0))
            at += len(piece)
        assert next(left) == (encoder.newline if number < len(paragraphs) - 1 else encoder.end)
        marks.append(0)
    assert next(left, None) is None
    return marks


# U+2581 and U+2424 decode to the space and newline they represent in pieces, which the reference does not handle.
LETTERS = st.text(st.sampled_from("東京とあアab1２ \t　😀é#@ー<\0️"), min_size=1, max_size=5)
PARAGRAPHS = st.lists(st.lists(LETTERS, min_size=1, max_size=6).map(WORD.join), min_size=1, max_size=3).map(
    SENTENCE.join
)
DOCUMENTS = st.lists(st.lists(PARAGRAPHS, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "unigram", "wordpiece", "hard-bpe"])
@settings(max_examples=40)
@given(documents=DOCUMENTS)
def test_marks_match_the_reference(
    kind: str, documents: list[str], encoders: dict[str, tuple[DocumentEncoder, Tokenizer]]
) -> None:
    encoder, tokenizer = encoders[kind]
    done = encoder.encode([document.encode() for document in documents])
    assert done.lengths.sum() == len(done.tokens) == len(done.marks)
    place = 0
    for document, length, size in zip(documents, done.lengths.tolist(), done.size.tolist(), strict=True):
        tokens = done.tokens[place : place + length].tolist()
        assert done.marks[place : place + length].tolist() == marks_of(document, encoder, tokenizer, tokens)
        assert size == len(document.replace(WORD, "").replace(SENTENCE, "").encode())
        place += length


UNKNOWN = st.lists(st.text(st.sampled_from("東京とあ😀é#"), min_size=1, max_size=6), min_size=1, max_size=12)


@settings(max_examples=60)
@given(words=UNKNOWN)
def test_word_without_pieces_is_one_marked_token(
    words: list[str], encoders: dict[str, tuple[DocumentEncoder, Tokenizer]]
) -> None:
    """Under hard boundaries; `##`, which also begins continuing pieces, may begin a word."""
    encoder, tokenizer = encoders["hard"]
    done = encoder.encode([WORD.join(words).encode()])
    alone = [len(encoder.encode([word.encode()]).tokens) - 1 for word in words]
    starts = [mark for length in alone for mark in [WORD_START] + [0] * (length - 1)]
    assert done.marks.tolist() == [WORD_START | SENTENCE_START, *starts[1:], 0]
    assert tokenizer.unk in encoder.encode(["😀é".encode()]).tokens


def test_newline_as_space(encoders: dict[str, tuple[DocumentEncoder, Tokenizer]]) -> None:
    encoder, tokenizer = encoders["lines"]
    done = encoder.encode([f"東京{WORD}と\n京都{SENTENCE}東".encode(), "東".encode()])
    assert encoder.newline == -1 and done.tokens.tolist().count(encoder.end) == 2
    assert tokenizer.decode(done.tokens[: done.lengths[0] - 1].tolist()) == "東京と 京都東"
    begun = [tokenizer.decode([token]) for token, mark in zip(done.tokens, done.marks, strict=True) if mark & 2]
    assert [text[0] for text in begun] == ["東", " ", "東", "東"]


def test_split_of_an_id_is_stable() -> None:
    share = [split_of_key(f"jawiki:{number}", 0.25) for number in range(4000)]
    assert share.count("validation") == pytest.approx(1000, rel=0.1)
    assert [number for number in range(60) if share[number] == "validation"] == KNOWN
    smaller = [split_of_key(f"jawiki:{number}", 0.1) for number in range(4000)]
    assert all(share[number] == "validation" for number in range(4000) if smaller[number] == "validation")
    assert {split_of_key(f"jawiki:{number}", 0) for number in range(4000)} == {"train"}


@pytest.mark.parametrize("section", [{"validation": 1}, {"validation": -0.1}, {"validation": "x"}, {"valid": 0.1}])
def test_invalid_section_is_rejected(section: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="valid"):
        dataset_config(section, "[dataset]")
