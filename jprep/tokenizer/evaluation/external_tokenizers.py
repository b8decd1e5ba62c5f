"""Other people's tokenizers, as an evaluation sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from jprep.errors import ConfigError
from jprep.tokenizer.batch_encoding import cumulative_offsets
from jprep.tokenizer.evaluation.adapter import EncodingWithOffsets, Integers, TokenizerAdapter, partial_character_ids


class HuggingFaceAdapter(TokenizerAdapter):
    """A `tokenizer.json`, through the library tokenizers: no model's own code is run.

    It gets text as it is, and adds no special tokens; where the text spells one, that is text.

    Args:
        path: the file.
        name: for people.

    Raises:
        ConfigError: it is no such file.
    """

    def __init__(self, path: Path, name: str) -> None:
        import tokenizers

        data = path.read_bytes()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except Exception as error:  # the library raises nothing narrower
            fix = "give a tokenizer.json of Hugging Face's, a sentencepiece .model or a folder of jprep's"
            raise ConfigError(f"this is no tokenizer: {error}", where=str(path), fix=fix) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        self.name, self.identity = name, hashlib.sha256(data).hexdigest()[:12]
        self.traits = {"tokenizers": tokenizers.__version__}
        self._learn_pieces(msgspec.json.decode(data))

    def _learn_pieces(self, parts: dict[str, Any]) -> None:
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

    def encode(self, texts: Sequence[str]) -> EncodingWithOffsets:
        """See `TokenizerAdapter`."""
        done = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return _encoded([each.ids for each in done], [each.offsets for each in done])

    def decode(self, encoded: EncodingWithOffsets) -> list[str]:
        """See `TokenizerAdapter`."""
        return self._tokenizer.decode_batch(_lists(encoded), skip_special_tokens=False)

    def encode_only(self, texts: Sequence[str]) -> None:
        """See `TokenizerAdapter`."""
        self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)


class SentencePieceAdapter(TokenizerAdapter):
    """A sentencepiece model. It gets text as it is.

    Args:
        path: the `.model` file.
        name: for people.

    Raises:
        ConfigError: it is no such file.
    """

    def __init__(self, path: Path, name: str) -> None:
        import sentencepiece

        data = path.read_bytes()
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_proto=data)
        except (RuntimeError, ValueError) as error:
            fix = "give the .model file that sentencepiece wrote"
            raise ConfigError(f"this is no sentencepiece model: {error}", where=str(path), fix=fix) from error
        self.name, self.identity, self.model = name, hashlib.sha256(data).hexdigest()[:12], "sentencepiece"
        self.traits = {"sentencepiece": sentencepiece.__version__}
        self.size, self.unknown = self._model.get_piece_size(), self._model.unk_id()
        self.parts = np.array([self._model.is_byte(number) for number in range(self.size)], bool)

    def encode(self, texts: Sequence[str]) -> EncodingWithOffsets:
        """See `TokenizerAdapter`."""
        done = self._model.encode(list(texts), return_type="offset_mapping", num_threads=1)
        return _encoded([each["ids"] for each in done], [each["offsets"] for each in done])

    def decode(self, encoded: EncodingWithOffsets) -> list[str]:
        """See `TokenizerAdapter`."""
        decoded: list[str] = self._model.decode(_lists(encoded))
        return decoded

    def encode_only(self, texts: Sequence[str]) -> None:
        """See `TokenizerAdapter`."""
        self._model.encode(list(texts), return_type="numpy", num_threads=1)


def _encoded(ids: Sequence[Sequence[int]], spans: Sequence[Sequence[tuple[int, int]]]) -> EncodingWithOffsets:
    offsets = cumulative_offsets([len(each) for each in ids])
    flat = np.fromiter(chain.from_iterable(ids), np.int32, offsets[-1])
    places: Integers = np.fromiter(chain.from_iterable(chain.from_iterable(spans)), np.int64, 2 * offsets[-1]).reshape(
        -1, 2
    )
    return EncodingWithOffsets(flat, offsets, places[:, 0], places[:, 1])


def _lists(encoded: EncodingWithOffsets) -> list[list[int]]:
    ids = encoded.ids.tolist()
    return [ids[start:end] for start, end in pairwise(encoded.offsets.tolist())]
