"""The tokens of a passage, by any tokenizer that `jprep tokenizer evaluate` loads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jprep.corpus.document import SENTENCE, WORD
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from jprep.tokenizer.evaluation.adapter import TokenizerAdapter


class Token(NamedTuple):
    """A piece of text.

    Attributes:
        text: its characters.
        ids: ids of its tokens: several if each is a part of a character, none if no token covers it.
    """

    text: str
    ids: list[int]


class TokenizerView:
    """A tokenizer, loaded when it is first used.

    Args:
        path: its directory, or its name on the Hub.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._adapter: TokenizerAdapter | None = None
        self._lock = threading.Lock()

    def load(self) -> TokenizerAdapter:
        """Return the tokenizer.

        Raises:
            JprepError: it cannot be loaded.
        """
        from jprep.tokenizer.evaluation.loading import load_adapters

        with self._lock:
            if self._adapter is None:
                [self._adapter] = load_adapters([self.path])
            return self._adapter

    def tokens(self, words: str) -> list[list[Token]]:
        """Return the tokens of each paragraph of a text with separators.

        Raises:
            JprepError: the tokenizer cannot be loaded, or needs words that the text does not have.
        """
        adapter, paragraphs = self.load(), [line for line in words.split("\n") if line]
        if adapter.marked and WORD not in words:
            fix = "build the corpus with a segmenter"
            raise ConfigError("this tokenizer needs text with word boundaries", where=adapter.name, fix=fix)
        marked = [line.replace(SENTENCE, WORD) for line in paragraphs]
        if adapter.spaced:
            from jprep.tokenizer.word_spaces import separate_words

            marked = [separate_words(line) for line in paragraphs]
        texts = [line.replace(WORD, "").replace(SENTENCE, "") for line in marked]
        with self._lock:
            encoded = adapter.encode(marked if adapter.marked else texts)
        ids, starts, ends = (array.tolist() for array in (encoded.ids, encoded.starts, encoded.ends))
        offsets = encoded.offsets.tolist()
        return [
            list(_pieces(text, ids[low:high], list(zip(starts[low:high], ends[low:high], strict=True))))
            for text, low, high in zip(texts, offsets[:-1], offsets[1:], strict=True)
        ]


def _pieces(text: str, ids: list[int], spans: list[tuple[int, int]]) -> Iterator[Token]:
    """Yield a text in pieces: tokens that share a character are one piece."""
    at, start = 0, 0
    together: list[int] = []
    for number, (first, last) in zip(ids, spans, strict=True):
        if together and first >= at:
            yield Token(text[start:at], together)
            start, together = at, []
        if first > at:
            yield Token(text[at:first], [])
            start = first
        together, at = [*together, number], max(at, last)
    if together:
        yield Token(text[start:at], together)
    if at < len(text):
        yield Token(text[at:], [])


def find_tokenizer(corpus: Path) -> Path | None:
    """Return the tokenizer beside a corpus in a work directory, or None."""
    from jprep.tokenizer.card import CARD_JSON

    beside = corpus.absolute().parent / "tokenizer"
    return beside if (beside / CARD_JSON).is_file() else None


def open_tokenizer(path: Path) -> TokenizerView:
    """Return a tokenizer that the user named, loaded, so that a wrong name is an error at once.

    Raises:
        JprepError: it cannot be loaded.
    """
    view = TokenizerView(path)
    view.load()
    return view
