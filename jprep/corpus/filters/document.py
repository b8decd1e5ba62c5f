"""Filters on whole documents: length, script, symbols, URLs.

The defaults are made for crawled text such as CC-100, and keep encyclopedia articles, reviews, chats and literature.
`docs/filters.md` lists how much real text each filter rejects.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from jprep.corpus.document import KEEP, SENTENCE, Document, Verdict
from jprep.corpus.filters.characters import count_characters
from jprep.corpus.filters.measures import fraction
from jprep.corpus.filters.verdicts import verdicts
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.character_kinds import DIGIT, HIRAGANA, KANJI, KATAKANA, PUNCTUATION, SYMBOL
from jprep.corpus.signals.urls import URL, URL_MARKS, count_urls
from jprep.corpus.step import Count, Filter, Share, StepConfig, Threshold


class LengthFilter(Filter):
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

    def judge(self, doc: Document) -> Verdict:
        """Return whether to keep the document."""
        config = self.config
        if len(doc.text) < config.min_chars:
            return Verdict(False, "too_short")
        if 0 < config.max_chars < len(doc.text):
            return Verdict(False, "too_long")
        if config.min_sentences > 1 and _sentences(doc) < config.min_sentences:
            return Verdict(False, "few_sentences")
        return KEEP

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch."""
        config, lengths = self.config, batch.lengths
        few = np.zeros(len(batch), bool)
        if config.min_sentences > 1:
            few = np.array([_sentences(doc) for doc in batch.docs], int) < config.min_sentences
        too_long = (lengths > config.max_chars) & (config.max_chars > 0)
        short = (lengths < config.min_chars, "too_short")
        return verdicts(len(batch), short, (too_long, "too_long"), (few, "few_sentences"))

    def measure(self, doc: Document) -> dict[str, float]:
        """Return the numbers of characters and sentences."""
        return {"characters": len(doc.text), "sentences": _sentences(doc)}

    def thresholds(self) -> dict[str, Threshold]:
        """Return the limits. `min_sentences = 1` is none: a document without sentences has no text."""
        config = self.config
        sentences = config.min_sentences if config.min_sentences > 1 else None
        return {"characters": (config.min_chars, config.max_chars or None), "sentences": (sentences, None)}


def _sentences(doc: Document) -> int:
    """Return the number of sentences, or of paragraphs if the document was not split."""
    marked = doc.words or doc.text
    return marked.count(SENTENCE) + sum(1 for paragraph in marked.split("\n") if paragraph)


class JapaneseFilter(Filter):
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

    def judge(self, doc: Document) -> Verdict:
        """Return whether to keep the document."""
        counts = count_characters(doc.text)
        if counts.kana + counts.kanji < self.config.min_japanese * counts.visible:
            return Verdict(False, "foreign")
        return KEEP if counts.kana >= self.config.min_kana * counts.visible else Verdict(False, "few_kana")

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch."""
        counts, config = batch.kind_counts, self.config
        visible = counts[:, 1:].sum(1)
        kana = counts[:, HIRAGANA] + counts[:, KATAKANA]
        foreign = kana + counts[:, KANJI] < config.min_japanese * visible
        return verdicts(len(batch), (foreign, "foreign"), (kana < config.min_kana * visible, "few_kana"))

    def measure(self, doc: Document) -> dict[str, float]:
        """Return the fractions of kana, and of kana and kanji together; nothing for text that is only white space."""
        counts, config = count_characters(doc.text), self.config
        if not counts.visible:
            return {}
        return {
            "japanese_share": fraction(counts.kana + counts.kanji, counts.visible, config.min_japanese),
            "kana_share": fraction(counts.kana, counts.visible, config.min_kana),
        }

    def thresholds(self) -> dict[str, Threshold]:
        """Return the smallest fractions."""
        return {"japanese_share": (self.config.min_japanese, None), "kana_share": (self.config.min_kana, None)}


class SymbolFilter(Filter):
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

    def judge(self, doc: Document) -> Verdict:
        """Return whether to keep the document."""
        config, counts = self.config, count_characters(doc.text)
        if counts.symbol > config.max_symbols * counts.visible:
            return Verdict(False, "symbols")
        if counts.punctuation > config.max_punctuation * counts.visible:
            return Verdict(False, "punctuation")
        return KEEP if counts.digit <= config.max_digits * counts.visible else Verdict(False, "digits")

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch."""
        counts, config = batch.kind_counts, self.config
        visible = counts[:, 1:].sum(1)
        return verdicts(
            len(batch),
            (counts[:, SYMBOL] > config.max_symbols * visible, "symbols"),
            (counts[:, PUNCTUATION] > config.max_punctuation * visible, "punctuation"),
            (counts[:, DIGIT] > config.max_digits * visible, "digits"),
        )

    def measure(self, doc: Document) -> dict[str, float]:
        """Return the fractions of symbols, punctuation and digits; nothing for text that is only white space."""
        counts, config = count_characters(doc.text), self.config
        if not counts.visible:
            return {}
        return {
            "symbol_share": fraction(counts.symbol, counts.visible, config.max_symbols),
            "punctuation_share": fraction(counts.punctuation, counts.visible, config.max_punctuation),
            "digit_share": fraction(counts.digit, counts.visible, config.max_digits),
        }

    def thresholds(self) -> dict[str, Threshold]:
        """Return the largest fractions."""
        config = self.config
        return {
            "symbol_share": (None, config.max_symbols),
            "punctuation_share": (None, config.max_punctuation),
            "digit_share": (None, config.max_digits),
        }


class UrlFilter(Filter):
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

    def judge(self, doc: Document) -> Verdict:
        """Return whether to keep the document."""
        if not any(mark in doc.text for mark in URL_MARKS):
            return KEEP
        lengths = [len(url) for url in URL.findall(doc.text)]
        too_many = len(lengths) > 1 and len(lengths) * 1000 > self.config.max_per_1000 * len(doc.text)
        too_long = sum(lengths) > self.config.max_share * len(doc.text)
        return Verdict(False, "urls") if too_many or too_long else KEEP

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch."""
        number, characters = count_urls(batch)
        lengths, config = batch.lengths, self.config
        with np.errstate(invalid="ignore"):  # an infinite limit times an empty text
            too_many = (number > 1) & (number * 1000 > config.max_per_1000 * lengths)
        too_long = characters > config.max_share * lengths
        return verdicts(len(batch), (too_many | too_long, "urls"))

    def measure(self, doc: Document) -> dict[str, float]:
        """Return the fraction of characters in URLs, and the URLs per 1,000 characters unless there is a single one."""
        size, lengths = len(doc.text), [len(url) for url in URL.findall(doc.text)]
        if not size:
            return {}
        share = {"url_share": fraction(sum(lengths), size, self.config.max_share)}
        if len(lengths) == 1:
            return share
        return share | {"urls_per_1000": fraction(1000 * len(lengths), size, self.config.max_per_1000)}

    def thresholds(self) -> dict[str, Threshold]:
        """Return the largest values."""
        return {"url_share": (None, self.config.max_share), "urls_per_1000": (None, self.config.max_per_1000)}
