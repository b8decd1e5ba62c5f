"""Adapters for tokenizers of other libraries: Hugging Face's tokenizers and sentencepiece."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from jprep.errors import ConfigError
from jprep.tokenizer.encoding.batch import TokenSpans, spans_of, token_spans
from jprep.tokenizer.evaluation.adapter import (
    TokenizerAdapter,
    partial_character_ids,
    piece_spelling,
)
from jprep.tokenizer.external.tokenizer import ExternalTokenizer


class HuggingFaceAdapter(TokenizerAdapter):
    """A `tokenizer.json`, loaded with the library tokenizers; no code of a model is run.

    Text is encoded unchanged and without adding special tokens; special tokens spelt in the text are treated as text.

    Args:
        path: the file.
        name: display name.

    Raises:
        ConfigError: the file is not a tokenizer.
    """

    def __init__(self, path: Path, name: str) -> None:
        import tokenizers

        data = path.read_bytes()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except Exception as error:  # the library raises no narrower class
            fix = "use a Hugging Face tokenizer.json, a sentencepiece .model or a directory of `jprep tokenizer train`"
            raise ConfigError(f"not a tokenizer: {error}", where=str(path), fix=fix) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        self.name, self.identity = name, hashlib.sha256(data).hexdigest()[:12]
        self.traits = {"tokenizers": tokenizers.__version__}
        self._read_pieces(msgspec.json.decode(data))

    def _read_pieces(self, parts: dict[str, Any]) -> None:
        vocabulary = self._tokenizer.get_vocab()
        byte_level = b'"type":"ByteLevel"' in msgspec.json.encode([parts.get("pre_tokenizer"), parts.get("decoder")])
        self.model = ("byte-" if byte_level else "") + str(parts["model"].get("type", "model")).lower()
        self.size = max(vocabulary.values(), default=-1) + 1
        model = parts["model"]
        unknown = model["unk_id"] if "unk_id" in model else vocabulary.get(str(model.get("unk_token")))
        self.unknown = -1 if unknown is None else unknown
        special = {token["content"] for token in parts.get("added_tokens") or []}
        ordinary = {piece: number for piece, number in vocabulary.items() if piece not in special}
        self.parts = partial_character_ids(ordinary, self.size, byte_level=byte_level)

    def encode(self, texts: Sequence[str]) -> TokenSpans:
        """See `TokenizerAdapter`."""
        return spans_of(self._tokenizer.encode_batch(list(texts), add_special_tokens=False))

    def decode(self, encoded: TokenSpans) -> list[str]:
        """See `TokenizerAdapter`."""
        return self._tokenizer.decode_batch(_lists(encoded), skip_special_tokens=False)

    def encode_only(self, texts: Sequence[str]) -> None:
        """See `TokenizerAdapter`."""
        self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)

    def spellings(self) -> list[str]:
        """See `TokenizerAdapter`."""
        found = [""] * self.size  # ids may have gaps
        for piece, number in self._tokenizer.get_vocab().items():
            found[number] = piece_spelling(piece, byte_level=self.model.startswith("byte-"))
        return found


class SentencePieceAdapter(TokenizerAdapter):
    """A sentencepiece model. Text is encoded unchanged.

    Args:
        path: the `.model` file.
        name: display name.

    Raises:
        ConfigError: the file is not a sentencepiece model.
    """

    def __init__(self, path: Path, name: str) -> None:
        import sentencepiece

        data = path.read_bytes()
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_proto=data)
        except (RuntimeError, ValueError) as error:
            fix = "use a .model file written by sentencepiece"
            raise ConfigError(f"not a sentencepiece model: {error}", where=str(path), fix=fix) from error
        self.name, self.identity, self.model = name, hashlib.sha256(data).hexdigest()[:12], "sentencepiece"
        self.traits = {"sentencepiece": sentencepiece.__version__}
        self.size, self.unknown = self._model.get_piece_size(), self._model.unk_id()
        self.parts = np.array([self._model.is_byte(number) for number in range(self.size)], bool)

    def encode(self, texts: Sequence[str]) -> TokenSpans:
        """See `TokenizerAdapter`."""
        encodings = self._model.encode(list(texts), return_type="offset_mapping", num_threads=1)
        return token_spans([each["ids"] for each in encodings], [each["offsets"] for each in encodings])

    def decode(self, encoded: TokenSpans) -> list[str]:
        """See `TokenizerAdapter`."""
        decoded: list[str] = self._model.decode(_lists(encoded))
        return decoded

    def encode_only(self, texts: Sequence[str]) -> None:
        """See `TokenizerAdapter`."""
        self._model.encode(list(texts), return_type="numpy", num_threads=1)

    def spellings(self) -> list[str]:
        """See `TokenizerAdapter`."""
        return [piece_spelling(self._model.id_to_piece(number), byte_level=False) for number in range(self.size)]


class TransformersAdapter(TokenizerAdapter):
    """A tokenizer that transformers reads in a backend's environment. Text is encoded unchanged.

    Args:
        tokenizer: the tokenizer.
        name: display name.
    """

    def __init__(self, tokenizer: ExternalTokenizer, name: str) -> None:
        self._tokenizer = tokenizer
        self.name, self.identity, self.model = name, tokenizer.card.fingerprint[:12], "transformers"
        self.size = tokenizer.vocab_size
        self.unknown = -1 if tokenizer.unk is None else tokenizer.unk
        special = set(tokenizer.special.tokens)
        pieces = {tokenizer.piece_of(number): number for number in range(self.size)}
        ordinary = {piece: number for piece, number in pieces.items() if piece not in special}
        self.parts = partial_character_ids(ordinary, self.size, byte_level=False)

    def encode(self, texts: Sequence[str]) -> TokenSpans:
        """See `TokenizerAdapter`."""
        return self._tokenizer.encode_with_spans(texts)

    def decode(self, encoded: TokenSpans) -> list[str]:
        """See `TokenizerAdapter`."""
        return self._tokenizer.decode_batch(encoded.ids, encoded.offsets)

    def encode_only(self, texts: Sequence[str]) -> None:
        """See `TokenizerAdapter`."""
        self._tokenizer.encode_batch(texts)

    def spellings(self) -> list[str]:
        """See `TokenizerAdapter`."""
        return [piece_spelling(self._tokenizer.piece_of(number), byte_level=False) for number in range(self.size)]


def _lists(encoded: TokenSpans) -> list[list[int]]:
    ids = encoded.ids.tolist()
    return [ids[start:end] for start, end in pairwise(encoded.offsets.tolist())]
