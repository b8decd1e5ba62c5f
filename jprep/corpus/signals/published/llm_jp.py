"""Signals of LLM-jp Corpus v1, by the definitions of its filters. Cheap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from jprep.corpus.step import Signal, StepConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.document import Document
    from jprep.corpus.signals.batch import TextBatch

_KANA = re.compile("[ぁ-んァ-ン]")
_HEAD = 50
_WIKIPEDIA = "https://ja.wikipedia.org/"


class LlmJpSignals(Signal):
    """What LLM-jp's filters compare.

    Columns: `llm_jp_kana_at_start`: 1 if there is kana among the first 50 characters, else 0;
    `llm_jp_mean_sentence`: characters per 。, infinite without one, not for an empty text; `llm_jp_domain`: 1 if the
    host of the URL ends in one of the domains and is not ja.wikipedia.org, else 0; not for a document without a URL.
    """

    name = "llm_jp"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the signal `llm_jp`.

        Attributes:
            domains: top-level domains.
        """

        domains: list[str] = []

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("llm_jp_kana_at_start", "llm_jp_mean_sentence", "llm_jp_domain")

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        kana = [bool(_KANA.search(text, 0, _HEAD)) for text in batch.texts]
        ends = np.array([text.count("。") for text in batch.texts], np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = batch.lengths / ends
        domains = [self._domain(doc) for doc in batch.docs]
        return dict(zip(self.columns, (np.array(kana, np.float64), mean, np.array(domains, np.float64)), strict=True))

    def _domain(self, doc: Document) -> float:
        if not doc.url:
            return float("nan")
        try:
            host = urlsplit(doc.url).hostname or ""
        except ValueError:  # no URL
            return 0.0
        return float(host.split(".")[-1] in self.config.domains and not doc.url.startswith(_WIKIPEDIA))
