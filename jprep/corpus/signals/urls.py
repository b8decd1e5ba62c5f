"""Signals about URLs in a document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

URL = re.compile(r"(?:https?|ftp)://[!-~]+|www\.[!-~]+")
_SCHEMES = ("https", "http", "ftp")


class UrlSignals(Signal):
    """URLs.

    Columns: `url_share`, the fraction of characters that belong to URLs; `urls_per_1000`, the number of URLs per 1,000
    characters, which does not apply to a document with a single one.
    """

    name = "urls"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("url_share", "urls_per_1000")

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        number, characters = count_urls(batch)
        several = np.where(number == 1, 0, batch.lengths)
        return {"url_share": share(characters, batch.lengths), "urls_per_1000": share(1000 * number, several)}


def count_urls(batch: TextBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of URLs in each document of a batch, and of the characters that belong to them."""
    urls = np.array([*_urls(batch.joined)], np.int64).reshape(-1, 2)
    docs = np.searchsorted(batch.starts, urls[:, 0], side="right") - 1
    return batch.counts(docs), batch.counts(docs, urls[:, 1] - urls[:, 0])


def _urls(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the matches of `URL`: matching where one can begin is quicker than searching."""
    end = 0
    for place in sorted(_beginnings(text)):
        if place >= end and (url := URL.match(text, place)):
            end = url.end()
            yield place, end


def _beginnings(text: str) -> Iterator[int]:
    for place in _places(text, "://"):
        yield from (place - len(scheme) for scheme in _SCHEMES if text.endswith(scheme, 0, place))
    yield from _places(text, "www.")


def _places(text: str, mark: str) -> Iterator[int]:
    place = text.find(mark)
    while place >= 0:
        yield place
        place = text.find(mark, place + 1)
