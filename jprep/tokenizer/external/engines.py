"""What encodes with a tokenizer from elsewhere: the library tokenizers here, or transformers in another environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from jprep.errors import ConfigError
from jprep.tokenizer.encoding.batch import EncodedBatch, TokenSpans, cumulative_offsets, spans_of
from jprep.tokenizer.encoding.tokenizers_encoder import load_for_text
from jprep.tokenizer.external.documents import Preceding, within_text, without_special_tokens
from jprep.tokenizer.external.files import read_json
from jprep.tokenizer.external.roles import WithSpecialTokens, make_special_tokens, read_additional, read_roles
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.special_tokens import SpecialTokens


class Engine(ABC):
    """Encodes and decodes with the vocabulary of a folder.

    Attributes:
        pieces: the token of each id; "" for an id without one.
        special: the special tokens.
    """

    pieces: list[str]
    special: SpecialTokens

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Return the ids of texts, without special tokens around them; those spelt in a text are text."""

    def encode_after(self, before: Preceding, texts: Sequence[str]) -> EncodedBatch:
        """Return the ids of texts as `encode`; after a token or text, some tokenizers put no space before them.

        An engine that cannot tell gives the ids of `encode`.
        """
        return self.encode(texts)

    @abstractmethod
    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of a text in which special tokens such as masks are spelt; none are added around it."""

    @abstractmethod
    def encode_with_spans(self, texts: Sequence[str]) -> TokenSpans:
        """Return the ids of texts, and the characters that each token covers."""

    @abstractmethod
    def decode(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids, special tokens included."""


_MOST_IDS = 1 << 24
"""Ids of the largest vocabulary that is read: a list of tokens is as long as the largest id."""


class FastEngine(Engine):
    """A `tokenizer.json`, loaded with the library tokenizers; no code of a model is run.

    Args:
        folder: the tokenizer's folder.

    Raises:
        ConfigError: the file is not a tokenizer, or an id is larger than that of any vocabulary.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / TOKENIZER_JSON
        self._tokenizer = load_tokenizer_json(self._path)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        size = max(vocabulary.values(), default=-1) + 1
        if size > _MOST_IDS:
            what, place = f"the vocabulary has the id {size - 1:,}", str(folder / TOKENIZER_JSON)
            raise ConfigError(what, where=place, fix=f"jprep reads ids below {_MOST_IDS:,}: check the file")
        self.pieces = [""] * size
        for piece, number in vocabulary.items():
            self.pieces[number] = piece
        added = self._tokenizer.get_added_tokens_decoder().values()
        tokens = [*(token.content for token in added if token.special), *read_additional(folder)]
        listed = [token for token in tokens if token in vocabulary]
        roles = read_roles(folder, vocabulary)
        self.special = make_special_tokens(roles, listed, self.pieces.__getitem__, self._probe, str(folder))
        self._tokenizer.encode_special_tokens = True
        self._for_text: dict[Preceding, Any] = {}

    def _tokenizer_of(self, before: Preceding) -> Any:
        """Return the tokenizer of texts with something before them; it is made when it is first needed."""
        if before not in self._for_text:
            document = read_json(self._path)
            changed = without_special_tokens(within_text(document, before), self.special.tokens)
            self._for_text[before] = (
                self._tokenizer
                if changed is document
                else load_for_text(changed | {"truncation": None, "padding": None})
            )
        return self._for_text[before]

    def _probe(self, text: str, pair: str | None) -> tuple[Sequence[int], WithSpecialTokens]:
        whole = self._tokenizer.encode(text, pair)
        plain = self._tokenizer.encode(text, add_special_tokens=False).ids
        return plain, WithSpecialTokens(whole.ids, whole.type_ids)

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """See `Engine`."""
        return self.encode_after("", texts)

    def encode_after(self, before: Preceding, texts: Sequence[str]) -> EncodedBatch:
        """See `Engine`."""
        tokenizer = self._tokenizer_of(before)
        return _batch([each.ids for each in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)])

    def encode_prompt(self, text: str) -> list[int]:
        """See `Engine`."""
        self._tokenizer.encode_special_tokens = False
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        finally:
            self._tokenizer.encode_special_tokens = True

    def encode_with_spans(self, texts: Sequence[str]) -> TokenSpans:
        """See `Engine`."""
        return spans_of(self._tokenizer_of("").encode_batch(list(texts), add_special_tokens=False))

    def decode(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """See `Engine`."""
        return list(self._tokenizer.decode_batch([list(ids) for ids in texts], skip_special_tokens=False))


def load_tokenizer_json(path: Path) -> Any:
    """Load a `tokenizer.json` with the library tokenizers.

    Raises:
        ConfigError: the file is not a tokenizer.
    """
    import tokenizers

    try:
        return tokenizers.Tokenizer.from_buffer(path.read_bytes())
    except Exception as error:  # the library raises no narrower class
        fix = "save it again with AutoTokenizer….save_pretrained, or download it again"
        raise ConfigError(f"not a tokenizer: {error}", where=str(path), fix=fix) from error


def _batch(parts: Sequence[Sequence[int]]) -> EncodedBatch:
    offsets = cumulative_offsets(map(len, parts))
    return EncodedBatch(np.fromiter(chain.from_iterable(parts), np.int32, int(offsets[-1])), offsets)
