"""Filters on whole documents: length, script, symbols, URLs.

The defaults are made for crawled text such as CC-100, and keep encyclopedia articles, reviews, chats and literature.
`docs/filters.md` lists how much real text each filter rejects.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from jprep.corpus.document import Verdict
from jprep.corpus.filters.measures import Measure, MeasureFilter
from jprep.corpus.filters.verdicts import BatchFilter, verdicts
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.character_kinds import DIGIT, HIRAGANA, KANJI, KATAKANA, PUNCTUATION, SYMBOL
from jprep.corpus.signals.urls import count_urls
from jprep.corpus.step import Count, Share, StepConfig, Threshold


class LengthFilter(BatchFilter):
    """Rejects documents that are too short or too long. Reasons: `too_short`, `too_long`, `few_sentences`."""

    name = "length"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `length`.

        Attributes:
            min_chars: minimum number of characters.
            max_chars: maximum number of characters; 0 means no limit.
            min_sentences: minimum number of sentences found by the splitter.
        """

        min_chars: Count = 10
        max_chars: Count = 0
        min_sentences: Count = 1

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch."""
        config, lengths = self.config, batch.lengths
        few = np.zeros(len(batch), bool)
        if config.min_sentences > 1:  # most recipes do not ask for it
            few = batch.counts(batch.sentence_docs) < config.min_sentences
        too_long = (lengths > config.max_chars) & (config.max_chars > 0)
        short = (lengths < config.min_chars, "too_short")
        return verdicts(len(batch), short, (too_long, "too_long"), (few, "few_sentences"))

    def measure_all(self, batch: TextBatch) -> list[dict[str, float]]:
        """Return the numbers of characters and sentences of each document of a batch."""
        sentences = batch.counts(batch.sentence_docs).astype(int)
        counts = zip(batch.lengths.tolist(), sentences.tolist(), strict=True)
        return [{"characters": characters, "sentences": sentences} for characters, sentences in counts]

    def thresholds(self) -> dict[str, Threshold]:
        """Return the limits. `min_sentences = 1` is none: a document without sentences has no text."""
        config = self.config
        sentences = config.min_sentences if config.min_sentences > 1 else None
        return {"characters": (config.min_chars, config.max_chars or None), "sentences": (sentences, None)}


class JapaneseFilter(MeasureFilter):
    """Rejects text that is not Japanese.

    Reasons: `few_kana` (Chinese, lists of names), `foreign` (other scripts, code).
    """

    name = "japanese"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `japanese`. Fractions are of all characters except white space.

        Attributes:
            min_kana: minimum fraction of hiragana and katakana.
            min_japanese: minimum fraction of kana and kanji together.
        """

        min_kana: Share = 0.05
        min_japanese: Share = 0.3

    def measures(self, batch: TextBatch) -> list[Measure]:
        """Return the fractions of kana, and of kana and kanji together."""
        counts, config = batch.kind_counts, self.config
        kana = counts[:, HIRAGANA] + counts[:, KATAKANA]
        return [
            Measure("japanese_share", "foreign", kana + counts[:, KANJI], batch.visible, least=config.min_japanese),
            Measure("kana_share", "few_kana", kana, batch.visible, least=config.min_kana),
        ]


class SymbolFilter(MeasureFilter):
    """Rejects text with too many symbols. Reasons: `symbols`, `punctuation`, `digits`."""

    name = "symbols"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `symbols`. Fractions are of all characters except white space.

        Attributes:
            max_symbols: maximum fraction of symbols and emoji, without sentence punctuation and brackets.
            max_punctuation: maximum fraction of sentence punctuation and brackets.
            max_digits: maximum fraction of digits.
        """

        max_symbols: Share = 0.2
        max_punctuation: Share = 0.4
        max_digits: Share = 0.5

    def measures(self, batch: TextBatch) -> list[Measure]:
        """Return the fractions of symbols, punctuation and digits."""
        counts, visible, config = batch.kind_counts, batch.visible, self.config
        return [
            Measure("symbol_share", "symbols", counts[:, SYMBOL], visible, most=config.max_symbols),
            Measure("punctuation_share", "punctuation", counts[:, PUNCTUATION], visible, most=config.max_punctuation),
            Measure("digit_share", "digits", counts[:, DIGIT], visible, most=config.max_digits),
        ]


class UrlFilter(MeasureFilter):
    """Rejects lists of URLs. Reason: `urls`."""

    name = "urls"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `urls`.

        Attributes:
            max_share: maximum fraction of characters that belong to URLs.
            max_per_1000: maximum number of URLs per 1,000 characters; a single URL is always allowed.
        """

        max_share: Share = 0.4
        max_per_1000: Annotated[float, msgspec.Meta(ge=0)] = 30.0

    def measures(self, batch: TextBatch) -> list[Measure]:
        """Return the fraction of characters in URLs, and the URLs per 1,000 characters unless there is a single one."""
        number, characters = count_urls(batch)
        several = np.where(number == 1, 0, batch.lengths)
        return [
            Measure("url_share", "urls", characters, batch.lengths, most=self.config.max_share),
            Measure("urls_per_1000", "urls", 1000 * number, several, most=self.config.max_per_1000),
        ]
