"""What the pieces of a tokenizer stand for, whatever its spelling of bytes, spaces and continued words is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from jprep.tokenizer.external.documents import steps_of
from jprep.tokenizer.external.files import read_json
from jprep.tokenizer.formats.byte_level import CHARACTER_TO_BYTE
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.formats.pieces import fallback_byte
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX, SPACE_PIECE

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

Spelling = Literal["bytes", "characters", "words", "wordpiece", "spaced wordpiece"]
"""GPT-2's characters, one for each byte; characters with `▁` for a space and `<0x..>` for a byte; whole words; or
pieces of words with `##` before what continues one, where spaces are not part of pieces, or are, as in jprep's."""

_STEPS = ("normalizer", "pre_tokenizer", "decoder")


class PieceText(NamedTuple):
    """What a piece stands for.

    Attributes:
        data: its UTF-8 bytes, which may be incomplete characters; spaces are part of them unless `begins_word`. Empty
            if the tokenizer does not say.
        begins_word: whether it begins a word although no space is part of it: a word, or the first piece of one.
    """

    data: bytes
    begins_word: bool


def spelling_of(tokenizer: Tokenizer) -> Spelling:
    """Return how a tokenizer spells its pieces."""
    if tokenizer.card.jprep:
        config = tokenizer.card.config
        if config.whole_words:
            return "wordpiece" if config.boundaries == "bert" else "words"
        if config.model == "wordpiece" and config.boundaries == "hard":
            return "spaced wordpiece"
        return "bytes" if config.model == "byte-bpe" else "characters"
    path = tokenizer.folder / TOKENIZER_JSON
    if not path.is_file():
        return guessed_spelling([tokenizer.piece_of(number) for number in range(tokenizer.vocab_size)])
    document = read_json(path)
    if document["model"].get("type") == "WordPiece" or document["model"].get("continuing_subword_prefix"):
        return "wordpiece"
    steps = [step["type"] for key in _STEPS for step in steps_of(document.get(key))]
    return "bytes" if "ByteLevel" in steps else "characters"


def guessed_spelling(pieces: list[str]) -> Spelling:
    """Return how a tokenizer without a `tokenizer.json` spells its pieces: WordPiece has neither `▁` nor `<0x..>`."""
    has_spaces = any(SPACE_PIECE in piece or fallback_byte(piece) for piece in pieces)
    return "wordpiece" if not has_spaces and any(map(_continues, pieces)) else "characters"


def piece_texts(tokenizer: Tokenizer) -> list[PieceText]:
    """Return what each id stands for; special tokens stand for themselves."""
    ids = np.arange(tokenizer.vocab_size, dtype=np.int32)
    decoded = tokenizer.decode_batch(ids, np.arange(ids.size + 1))
    spelling = spelling_of(tokenizer)
    return [_piece_text(tokenizer.piece_of(number), text, spelling) for number, text in enumerate(decoded)]


def _piece_text(piece: str, decoded: str, spelling: Spelling) -> PieceText:
    if spelling in ("wordpiece", "spaced wordpiece") and _continues(piece):
        return PieceText(piece.removeprefix(CONTINUATION_PREFIX).encode(), False)
    if spelling in ("words", "wordpiece"):
        return PieceText(decoded.encode(), True)
    if spelling == "characters" and (byte := fallback_byte(piece)):
        return PieceText(byte, False)
    if spelling == "characters" and piece.startswith(SPACE_PIECE):
        return PieceText(piece.replace(SPACE_PIECE, " ").encode(), False)
    if spelling == "bytes" and "\ufffd" in decoded and all(character in CHARACTER_TO_BYTE for character in piece):
        return PieceText(bytes(CHARACTER_TO_BYTE[character] for character in piece), False)
    return PieceText(b"" if "\ufffd" in decoded else decoded.encode(), False)


def _continues(piece: str) -> bool:
    return piece.startswith(CONTINUATION_PREFIX) and len(piece) > len(CONTINUATION_PREFIX)
