"""Filters that look at a document as a whole: its length, its script, its symbols, its addresses.

The defaults are made for crawled text such as CC-100, and let encyclopaedia articles, reviews, chats and literature
pass; what each rejects of real text is in `docs/filters.md`.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from jprep.corpus.document import KEEP, SENTENCE, Document, Verdict
from jprep.corpus.filters.profile import profile
from jprep.corpus.step import Count, Filter, Share, StepConfig


class LengthFilter(Filter):
    """Rejects what is too short or too long: `too_short`, `too_long`, `few_sentences`."""

    name = "length"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `length`.

        Attributes:
            min_chars: characters that a document has at least.
            max_chars: characters that a document has at most; 0 is no limit.
            min_sentences: sentences that a document has at least, as the splitter found them.
        """

        min_chars: Count = 10
        max_chars: Count = 0
        min_sentences: Count = 1

    def judge(self, doc: Document) -> Verdict:
        """Keep the document or drop it."""
        config = self.config
        if len(doc.text) < config.min_chars:
            return Verdict(False, "too_short")
        if 0 < config.max_chars < len(doc.text):
            return Verdict(False, "too_long")
        if config.min_sentences > 1 and _sentences(doc) < config.min_sentences:
            return Verdict(False, "few_sentences")
        return KEEP


def _sentences(doc: Document) -> int:
    """Sentences of a document; its paragraphs, if it was not split."""
    marked = doc.words or doc.text
    return marked.count(SENTENCE) + sum(1 for paragraph in marked.split("\n") if paragraph)


class JapaneseFilter(Filter):
    """Rejects what is not Japanese: `few_kana` (Chinese, lists of names) and `foreign` (other scripts, code)."""

    name = "japanese"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `japanese`; shares are of all characters but white space.

        Attributes:
            min_kana: least share of hiragana and katakana.
            min_japanese: least share of kana and kanji together.
        """

        min_kana: Share = 0.05
        min_japanese: Share = 0.3

    def judge(self, doc: Document) -> Verdict:
        """Keep the document or drop it."""
        counts = profile(doc.text)
        if counts.kana + counts.kanji < self.config.min_japanese * counts.visible:
            return Verdict(False, "foreign")
        return KEEP if counts.kana >= self.config.min_kana * counts.visible else Verdict(False, "few_kana")


class SymbolFilter(Filter):
    """Rejects what is mostly signs: `symbols`, `punctuation` and `digits`."""

    name = "symbols"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `symbols`; shares are of all characters but white space.

        Attributes:
            max_symbols: largest share of symbols and emoji, sentence punctuation and brackets left out.
            max_punctuation: largest share of sentence punctuation and brackets.
            max_digits: largest share of digits.
        """

        max_symbols: Share = 0.2
        max_punctuation: Share = 0.4
        max_digits: Share = 0.5

    def judge(self, doc: Document) -> Verdict:
        """Keep the document or drop it."""
        config, counts = self.config, profile(doc.text)
        if counts.symbol > config.max_symbols * counts.visible:
            return Verdict(False, "symbols")
        if counts.punctuation > config.max_punctuation * counts.visible:
            return Verdict(False, "punctuation")
        return KEEP if counts.digit <= config.max_digits * counts.visible else Verdict(False, "digits")


class UrlFilter(Filter):
    """Rejects lists of links: `urls`."""

    name = "urls"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `urls`.

        Attributes:
            max_share: largest share of a document's characters that stand in addresses.
            max_per_1000: most addresses for each thousand characters; a first one is always allowed.
        """

        max_share: Share = 0.4
        max_per_1000: Annotated[float, msgspec.Meta(ge=0)] = 30.0

    def judge(self, doc: Document) -> Verdict:
        """Keep the document or drop it."""
        if "://" not in doc.text and "www." not in doc.text:
            return KEEP
        lengths = [len(address) for address in _URL.findall(doc.text)]
        crowded = len(lengths) > 1 and len(lengths) * 1000 > self.config.max_per_1000 * len(doc.text)
        too_much = sum(lengths) > self.config.max_share * len(doc.text)
        return Verdict(False, "urls") if crowded or too_much else KEEP


_URL = re.compile(r"(?:https?|ftp)://[!-~]+|www\.[!-~]+")
