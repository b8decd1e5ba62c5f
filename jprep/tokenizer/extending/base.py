"""The tokenizer that is extended: what it needs to have, and the tokens that it cuts training units into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from jprep.errors import ConfigError
from jprep.tokenizer.external.documents import steps_of, within_text
from jprep.tokenizer.external.files import read_json
from jprep.tokenizer.formats.byte_level import ALPHABET, count_characters
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.learning.assembly import BYTE_PIECES
from jprep.tokenizer.vocabulary import SPACE_PIECE

Kind = Literal["bpe", "byte-bpe", "unigram"]

BYTE_NAMES = frozenset(piece.text for piece in BYTE_PIECES)
"""The names of bytes in byte fallback."""

_BATCH = 4096  # units per call
_SUPPORTED = (
    "jprep extends a tokenizer.json of Unigram, or of BPE with merges: byte-level (as GPT-2), or of characters with "
    "byte fallback"
)


class BaseTokenizer:
    """A `tokenizer.json` of Unigram, or of BPE, byte-level or with byte fallback.

    Args:
        folder: the tokenizer's folder.

    Attributes:
        folder: the folder.
        document: the content of the file.
        kind: `unigram`, `byte-bpe`, or `bpe` for characters with byte fallback.
        scores: log probability of each piece of Unigram.
        lowest_score: the lowest of those that are neither added tokens nor bytes.
        ids: the id of each token, those of added tokens included.
        special: the contents of added tokens.
        size: the first id after all of them.

    Raises:
        ConfigError: there is no such file, or it is a tokenizer of another kind.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / TOKENIZER_JSON
        if not path.is_file():
            fix = "give the folder of a tokenizer.json, or a name on the Hub: org/name"
            raise ConfigError(f"there is no {TOKENIZER_JSON} to extend", where=str(folder), fix=fix)
        self.folder, self.document = folder, read_json(path)
        self.model: dict[str, Any] = self.document["model"]
        self.kind: Kind = self._kind(str(path))
        added = {token["content"]: token["id"] for token in self.document.get("added_tokens") or []}
        vocab = self.model["vocab"]
        self.scores: dict[str, float] = dict(vocab) if self.kind == "unigram" else {}
        self.ids: dict[str, int] = {**(_numbers(vocab, str(path)) if self.scores else vocab), **added}
        self.special = set(added)
        hidden = self.special | BYTE_NAMES
        self.lowest_score = min((score for piece, score in self.scores.items() if piece not in hidden), default=0.0)
        self.size = max(self.ids.values()) + 1

    def _kind(self, where: str) -> Kind:
        model = self.model
        if model.get("type") == "Unigram" and isinstance(model.get("vocab"), list) and model["vocab"]:
            return "unigram"
        affixes = [model.get(key) for key in ("continuing_subword_prefix", "end_of_word_suffix", "dropout")]
        if model.get("type") == "BPE" and not any(affixes) and not model.get("ignore_merges"):
            if _has_byte_level(self.document) and set(ALPHABET) <= model["vocab"].keys():
                return "byte-bpe"
            if model.get("byte_fallback") and model["vocab"].keys() >= BYTE_NAMES:
                return "bpe"
        what = f"this tokenizer cannot be extended (its model is {model.get('type')})"
        raise ConfigError(what, where=where, fix=f"{_SUPPORTED}, without ignore_merges, prefixes, suffixes and dropout")

    def is_known(self, character: str) -> bool:
        """Return whether a character has a piece, or needs none: byte-level tokenizers know all."""
        return self.kind == "byte-bpe" or character.replace(" ", SPACE_PIECE) in self.ids

    def length_of(self, piece: str) -> int:
        """Return the number of characters of a piece."""
        return count_characters(piece) if self.kind == "byte-bpe" else len(piece)

    def cut(self, units: Sequence[str], characters: Sequence[str]) -> Iterator[list[list[str]]]:
        """Yield the tokens of each unit, in a list for each part that the pre-tokenizers find.

        Args:
            units: words and other units as they are inside a text.
            characters: further characters that have a piece.
        """
        from tokenizers import Tokenizer

        inner = Tokenizer.from_str(msgspec.json.encode(self._inner(characters)).decode())
        for start in range(0, len(units), _BATCH):
            for found in inner.encode_batch(list(units[start : start + _BATCH]), add_special_tokens=False):
                parts = groupby(zip(found.word_ids, found.tokens, strict=True), key=lambda pair: pair[0])
                yield [[token for _, token in part] for _, part in parts]

    def _inner(self, characters: Sequence[str]) -> dict[str, Any]:
        """Return the tokenizer without what it does at the beginning of a text only."""
        vocab: Any = self.model["vocab"]
        if self.kind == "unigram":
            vocab = vocab + [[each, self.lowest_score] for each in characters]
        else:
            vocab = vocab | {each: self.size + number for number, each in enumerate(characters)}
        changed: dict[str, Any] = {"truncation": None, "padding": None, "added_tokens": [], "post_processor": None}
        return within_text(self.document) | changed | {"model": self.model | {"vocab": vocab}}


def _numbers(vocab: list[tuple[str, float]], where: str) -> dict[str, int]:
    """Return the ids of Unigram's pieces: their places."""
    numbers = {piece: number for number, (piece, _) in enumerate(vocab)}
    if len(numbers) < len(vocab):
        pieces = [piece for number, (piece, _) in enumerate(vocab) if numbers[piece] != number]
        raise ConfigError(f"the piece {pieces[0]!r} occurs twice", where=where, fix="a piece can have one id only")
    return numbers


def _has_byte_level(document: dict[str, Any]) -> bool:
    return any(
        step["type"] == "ByteLevel" for key in ("normalizer", "pre_tokenizer") for step in steps_of(document.get(key))
    )
