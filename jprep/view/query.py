"""What a user asks of a corpus: words to search for and filters, as the parameters of a URL."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import urlencode

import msgspec

from jprep.errors import ConfigError

Kind = Literal["documents", "rejects"]
KINDS: tuple[Kind, ...] = ("documents", "rejects")

CHARACTERS = "characters"
"""Name of the filter for the length of a document's text."""

_MAX_WORDS = 1000  # characters of the search field
_MAX_TERMS = 16
_TERM = re.compile(r'"([^"]+)"|(\S+)')


class Range(msgspec.Struct, frozen=True):
    """Limits of a number, both inclusive; None means no limit."""

    low: float | None = None
    high: float | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search for documents or rejects. Every condition has to hold.

    Attributes:
        kind: what to search.
        words: the search field as typed; see `terms`.
        id: an id, or the part of one after its source, e.g. a page number; "" for any.
        source: name of a source; "" for all.
        reason: `step/reason` of a reject; "" for all.
        ranges: limits by name of a column with numbers, or `CHARACTERS`.
        values: required values by name of a column with text.
    """

    kind: Kind = "documents"
    words: str = ""
    id: str = ""
    source: str = ""
    reason: str = ""
    ranges: dict[str, Range] = {}
    values: dict[str, str] = {}

    @property
    def terms(self) -> list[str]:
        """The strings that all have to occur in the title or the text."""
        return split_terms(self.words)

    @property
    def key(self) -> str:
        """A text that is equal for equal queries."""
        return f"{self.kind}?{self.parameters()}"

    @property
    def has_conditions(self) -> bool:
        """Whether anything is asked besides the kind."""
        return bool(self.parameters())

    def parameters(self, **more: object) -> str:
        """Return the query string of a URL, without the kind.

        Args:
            more: further parameters; those that are "" or None are left out.
        """
        named: dict[str, object] = {"q": self.words, "id": self.id, "source": self.source, "reason": self.reason}
        for name, limits in self.ranges.items():
            named |= {f"min.{name}": _spelt(limits.low), f"max.{name}": _spelt(limits.high)}
        named |= {f"is.{name}": value for name, value in self.values.items()}
        return urlencode({name: value for name, value in (named | more).items() if value not in ("", None)})


def split_terms(words: str) -> list[str]:
    """Return the terms of a search field: words between white space, and phrases between quotation marks.

    >>> split_terms('東京 "the end"')
    ['東京', 'the end']
    """
    return [quoted or bare for quoted, bare in _TERM.findall(words)]


def parse_query(kind: Kind, parameters: Mapping[str, str], numbers: Iterable[str], texts: Iterable[str]) -> Query:
    """Return the query in the parameters of a URL; unknown parameters are ignored.

    Args:
        kind: what to search.
        parameters: parameters by name.
        numbers: columns that can have limits.
        texts: columns that can have a required value.

    Raises:
        ConfigError: a limit is not a number, or the search is too long.
    """
    words = parameters.get("q", "").strip()
    if len(words) > _MAX_WORDS or len(split_terms(words)) > _MAX_TERMS:
        raise ConfigError("this search is too long", fix=f"search for at most {_MAX_TERMS} words")
    ranges = {name: Range(_limit(parameters, f"min.{name}"), _limit(parameters, f"max.{name}")) for name in numbers}
    values = {name: parameters.get(f"is.{name}", "") for name in texts}
    return Query(
        kind=kind,
        words=words,
        id=parameters.get("id", "").strip(),
        source=parameters.get("source", "") if kind == "documents" else "",
        reason=parameters.get("reason", "") if kind == "rejects" else "",
        ranges={name: limits for name, limits in ranges.items() if limits != Range()},
        values={name: value for name, value in values.items() if value},
    )


def _limit(parameters: Mapping[str, str], name: str) -> float | None:
    text = parameters.get(name, "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"expected a number, got {text[:40]!r}", where=name, fix="go back and correct the filter")
    return number


def _spelt(number: float | None) -> str:
    return "" if number is None else f"{number:.17g}"
