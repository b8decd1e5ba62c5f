"""A tokenizer from elsewhere, with the interface of one that jprep trained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jprep.tokenizer.encoding.batch import EncodedBatch, Ids, Offsets, TokenSpans
from jprep.tokenizer.external.documents import Preceding
from jprep.tokenizer.external.engines import Engine, FastEngine
from jprep.tokenizer.external.files import external_card, resolve_tokenizer
from jprep.tokenizer.external.process import ProcessEngine
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.tokenizer import Tokenizer, without_surrogates


class ExternalTokenizer(Tokenizer):
    """A tokenizer from elsewhere: a folder that `AutoTokenizer` loads, or a name on the Hub.

    A folder with `tokenizer.json` is read by the library tokenizers. Any other is read by transformers, in a process of
    the environment that `jprep backends install torch` makes. The ids are those of
    `AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False, split_special_tokens=True)`: text is not
    normalized, special tokens spelt in it are text, and none are added. transformers finds spelt ones that the model
    has in its vocabulary, as Unigram does, or that no flag calls special; jprep does not.

    Args:
        folder: the folder, or the name.

    Attributes:
        folder: the folder.
        card: a card with the hashes of its files.
        special: special tokens, with those that the tokenizer adds around texts.

    Raises:
        ConfigError: the folder holds no tokenizer, or transformers cannot load it.
        InputError: a file is damaged.
        MachineError: no environment with transformers is installed, and the tokenizer needs one.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = resolve_tokenizer(folder)
        self.card = external_card(self.folder)
        fast = (self.folder / TOKENIZER_JSON).is_file()
        self._engine: Engine = FastEngine(self.folder) if fast else ProcessEngine(self.folder)
        self.special = self._engine.special
        self._pieces = self._engine.pieces
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}

    def __reduce__(self) -> tuple[Any, ...]:
        return ExternalTokenizer, (self.folder,)

    @cached_property
    def newline_id(self) -> int | None:
        """Id of a newline; None if a newline is not a token of its own."""
        ids = self._engine.encode(["\n"]).ids.tolist()
        single = len(ids) == 1 and ids[0] != self.unk and self._engine.decode([ids]) == ["\n"]
        return ids[0] if single else None

    def encode_batch(self, texts: Sequence[str], *, normalized: bool = False) -> EncodedBatch:
        """Return the ids of many texts, which are encoded unchanged; see the class."""
        if isinstance(texts, str):
            raise TypeError("encode_batch expects a list of texts; use encode for one text")
        return self._engine.encode(without_surrogates(texts))

    def encode_after(self, before: Preceding, texts: Sequence[str]) -> EncodedBatch:
        """Return the ids of texts with something before them; see `Tokenizer.encode_after`."""
        return self._engine.encode_after(before, without_surrogates(texts))

    def _prepared(self, text: str) -> str:
        """Return a text unchanged: what prepares it is part of the tokenizer."""
        return text

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of a text in which special tokens such as masks are spelt; none are added around it."""
        return self._engine.encode_prompt(without_surrogates([text])[0])

    @property
    def has_spans(self) -> bool:
        """Whether `encode_with_spans` tells where tokens are: always."""
        return True

    def encode_with_spans(self, texts: Sequence[str]) -> TokenSpans:
        """Return the ids of many texts, and the characters that each token covers."""
        return self._engine.encode_with_spans(without_surrogates(texts))

    def decode_batch(self, ids: Ids, offsets: Offsets) -> list[str]:
        """Return the texts of a batch as returned by `encode_batch`.

        Raises:
            IndexError: an id does not exist, such as the label -100.
        """
        if ids.size and (ids.min() < 0 or ids.max() >= self.vocab_size):
            raise IndexError(f"id {ids.min() if ids.min() < 0 else ids.max()} does not exist")
        numbers = np.asarray(ids).tolist()
        return self._engine.decode([numbers[start:end] for start, end in pairwise(offsets.tolist())])
