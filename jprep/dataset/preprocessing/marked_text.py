"""Split the marked text of documents into texts to encode, and find where words and sentences start.

Nothing here loops over characters: all bytes of a batch are processed at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.document import WORD
from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.manifest import SENTENCE_START, WORD_START
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.vocabulary import NEWLINE_PIECE, SPACE_PIECE

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_NEWLINE, _SPACE, _SENTENCE = 0x0A, 0x20, 0x1E
_MARKS = b"\x1e\x1f"

_JOINS_NO_SPACE = np.zeros(256, bool)
"""First bytes of characters that a preceding space does not join; see `jprep.tokenizer.counting.units`."""
_JOINS_NO_SPACE[[0x00, 0x09, 0x0A, 0x0D, _SPACE]] = True


class MarkedTexts(NamedTuple):
    """Texts to encode, and their characters concatenated with a newline between two texts.

    Attributes:
        texts: paragraphs, or whole documents if the tokenizer replaces newlines by spaces. With marks under hard
            boundaries.
        documents: int64, (documents + 1,): document d is the texts from `documents[d]` to before `documents[d + 1]`.
        size: int64, (documents,): UTF-8 bytes of a document's text.
        begins: int64, (texts,): position of each text's first character.
        starts: uint8, (characters,): marks of a character that begins a word or a sentence. A space that the tokenizer
            joins to the next word has that word's marks.
        cuts: bool, (characters,): whether a WordPiece piece must begin here, under hard boundaries; else empty.
    """

    texts: list[str]
    documents: Integers
    size: Integers
    begins: Integers
    starts: Marks
    cuts: Flags


def parse_documents(documents: list[bytes], config: TokenizerConfig) -> MarkedTexts:
    """Split documents into texts and find their marks.

    Args:
        documents: their `words`, UTF-8; at least one.
        config: the tokenizer's config, for its policies for spaces, newlines, digits and boundaries.
    """
    whole = b"\n" + b"\n".join(documents)
    lines = np.cumsum([0] + [document.count(b"\n") + 1 for document in documents], dtype=np.int64)
    size = np.array([len(document) - document.count(b"\x1e") - document.count(b"\x1f") for document in documents])
    data = np.frombuffer(whole, np.uint8)
    places = np.flatnonzero(((data & 0xC0) != 0x80) & ((data >> 1) != 0x0F))[1:]
    firsts, starts = data[places], _marks_before(data)[places]
    ends = np.flatnonzero(firsts == _NEWLINE)
    starts[ends] = 0
    begins, marked = np.concatenate([[0], ends + 1]), starts != 0
    if config.newline == "space":
        inner = np.delete(ends, lines[1:-1] - 1)
        firsts[inner] = _SPACE
        marked[begins[1:][begins[1:] < len(marked)]] = False  # a line ends there, without a mark
        begins, lines = begins[lines[:-1]], np.arange(len(documents) + 1)
        marked[begins] = True
    digits = _single_digits(data, places, firsts, config)
    joins, cuts = ~_JOINS_NO_SPACE[firsts] & ~digits, np.zeros(0, bool)
    if config.boundaries == "hard" and config.model == "wordpiece":
        spelt = np.where(_equal(data, places, firsts, SPACE_PIECE), np.uint8(_SPACE), firsts)  # a space to the model
        alone = digits | _equal(data, places, firsts, NEWLINE_PIECE)
        cuts = _unit_starts(spelt, marked, joins & (spelt != _SPACE), alone, config)
    if config.spaces == "prefix":
        _move_marks_to_spaces(starts, firsts, joins)
    return MarkedTexts(_split_texts(whole, documents, config), lines, size, begins, starts, cuts)


def _split_texts(whole: bytes, documents: list[bytes], config: TokenizerConfig) -> list[str]:
    """Return the texts. Under hard boundaries each ends in a mark, so that a text of one word counts as segmented."""
    end, gone = (WORD.encode(), b"") if config.boundaries == "hard" else (b"", _MARKS)
    if config.newline == "space":
        return [(document.translate(None, gone) + end).decode() for document in documents]
    return (whole[1:].translate(None, gone).replace(b"\n", end + b"\n") + end).decode().split("\n")


def _marks_before(data: Bytes) -> Marks:
    """Return, for each byte, the marks of a character that begins there, from the bytes before it."""
    mark = (data >> 1) == 0x0F
    strong = (data == _SENTENCE) | (data == _NEWLINE)
    while (more := strong[:-1] & mark[1:] & ~strong[1:]).any():  # several marks in a row: rare
        strong[1:] |= more
    starts = np.zeros(len(data), np.uint8)
    starts[1:] = mark[:-1] * np.uint8(WORD_START)
    starts[1:] |= strong[:-1] * np.uint8(WORD_START | SENTENCE_START)
    return starts


def _single_digits(data: Bytes, places: Integers, firsts: Bytes, config: TokenizerConfig) -> Flags:
    """Return which characters are digits that are tokens of their own."""
    if config.digits == "keep":
        return np.zeros(len(firsts), bool)
    digits: Flags = (firsts >= 0x30) & (firsts <= 0x39)
    wide = np.flatnonzero(firsts == 0xEF)  # U+FF10 to U+FF19 are EF BC 90 to EF BC 99
    second, third = data[places[wide] + 1], data[places[wide] + 2]
    digits[wide] = (second == 0xBC) & (third >= 0x90) & (third <= 0x99)
    return digits


def _move_marks_to_spaces(starts: Marks, firsts: Bytes, joins: Flags) -> None:
    """Move the marks of a word to the space before it, in place."""
    found = np.flatnonzero((starts[1:] != 0) & joins[1:] & (firsts[:-1] == _SPACE))
    starts[found] |= starts[found + 1]
    starts[found + 1] = 0


def _unit_starts(firsts: Bytes, marked: Flags, joins: Flags, alone: Flags, config: TokenizerConfig) -> Flags:
    """Return where units begin under hard boundaries: at marks, adjusted by the policies for spaces and digits."""
    cuts, space = marked.copy(), firsts == _SPACE
    follows = np.zeros(len(firsts), bool)
    follows[1:] = space[:-1]
    if config.spaces == "prefix":
        cuts &= ~follows
        cuts |= space & ~follows
        cuts[:-1] |= space[:-1] & joins[1:]
    else:
        cuts |= space != follows
        cuts &= ~(space & follows)
    cuts |= alone
    cuts[1:] |= alone[:-1]
    cuts[firsts == _NEWLINE] = False
    return cuts


def _equal(data: Bytes, places: Integers, firsts: Bytes, character: str) -> Flags:
    """Return where a given character of three bytes is."""
    first, second, third = character.encode()
    equal: Flags = firsts == first
    found = np.flatnonzero(equal)
    equal[found] = (data[places[found] + 1] == second) & (data[places[found] + 2] == third)
    return equal
