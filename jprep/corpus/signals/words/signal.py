"""The signal `ng_words`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.words.lists import CATEGORIES, WordList, by_category, shipped_list, user_list
from jprep.corpus.signals.words.matching import Matches, WordMatcher
from jprep.corpus.step import Count, Signal, StepConfig
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NgWordsSignal(Signal):
    """Words that mark pornography, violence, slurs and advertisements.

    Columns, for each category: `ng_CATEGORY_words`, how many different words of its list occur; `ng_CATEGORY_share`,
    the fraction of characters in them, which is 0 if fewer than `min_words` different ones occur: an article on a topic
    uses few of its words, if often. Neither applies to an empty text.
    """

    name = "ng_words"
    version = 1
    local = frozenset({"lists"})

    class Config(StepConfig, frozen=True):
        """Options of the signal `ng_words`.

        Attributes:
            categories: lists that come with jprep to use.
            lists: paths of further lists: text files, one word on a line, lines with `#` being comments. The name of a
                file without its ending is its category.
            min_words: different words that a text needs for its share to count.
        """

        categories: tuple[str, ...] = CATEGORIES
        lists: tuple[str, ...] = ()
        min_words: Count = 3

    @cached_property
    def _lists(self) -> list[WordList]:
        shipped = [shipped_list(category) for category in self.config.categories]
        return [*shipped, *(user_list(path) for path in self.config.lists)]

    @cached_property
    def _matcher(self) -> WordMatcher:
        return WordMatcher(self._words)

    @cached_property
    def _words(self) -> list[str]:
        words = sorted({word for each in self._lists for word in each.words})
        if words:
            return words
        raise ConfigError("no words to look for", where="signal 'ng_words'", fix="give `categories` or `lists`")

    @cached_property
    def _members(self) -> dict[str, NDArray[np.bool_]]:
        """Whether each word belongs to a category."""
        categories = by_category(self._lists)
        return {category: np.array([word in words for word in self._words]) for category, words in categories.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        categories = dict.fromkeys([*self.config.categories, *(Path(path).stem for path in self.config.lists)])
        return tuple(f"ng_{category}_{what}" for category in categories for what in ("words", "share"))

    def provenance(self) -> dict[str, str]:
        """Return the hash of each list, by its place and category."""
        return {f"{place}.{each.category}": each.digest for place, each in enumerate(self._lists)}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        found = self._matcher.find(batch.codes)
        measured: dict[str, NDArray[np.float64]] = {}
        for category, member in self._members.items():
            different, covered = _count(batch, found.take(np.flatnonzero(member[found.words])).outermost())
            counted = np.where(different >= self.config.min_words, covered, 0)
            measured[f"ng_{category}_words"] = np.where(batch.lengths > 0, different, np.nan)
            measured[f"ng_{category}_share"] = share(counted, batch.lengths)
        return measured


def _count(batch: TextBatch, found: Matches) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how many different words each document has, and how many characters are in them."""
    docs = np.searchsorted(batch.starts, found.starts, side="right") - 1
    different = np.unique(np.stack([docs, found.words]), axis=1)
    return batch.counts(different[0]), batch.counts(docs, found.covered)
