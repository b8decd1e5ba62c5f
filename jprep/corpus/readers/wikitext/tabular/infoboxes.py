"""Convert calls of infoboxes to rows of the parameters whose values are text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.html.entities import decode_entities
from jprep.corpus.readers.wikitext.placeholders import BREAK, EQUALS, GONE, LOST, PIPE, ROW_LINES, ROW_START
from jprep.corpus.readers.wikitext.tabular.grid import cell_text
from jprep.corpus.readers.wikitext.tabular.rows import key_and_value
from jprep.corpus.readers.wikitext.tabular.units import without_doubled_unit
from jprep.corpus.readers.wikitext.templating.definitions import InfoboxRules

MAX_VALUE = 1000
"""Characters. Longer values are prose or broken mark-up."""

_MAX_NAME = 60
_JAPANESE = re.compile(r"[ぁ-んァ-ヶ一-鿿]")
_NUMBER = re.compile(r"[\d_]+\Z")
_ITEM = re.compile(r"^(?!#[0-9a-f]{6}$)[*#:;]+[ \t]*", re.M | re.I)  # not a colour
_LOST_PART = re.compile(rf"(?<![^\n{BREAK}])[{GONE} \t]++(?:[\n{BREAK}]++|\Z)|[（(][{GONE} \t]++[）)]")
"""A line or brackets with nothing but templates whose text is unknown, which may be notes or coordinates."""

_KEY_END = re.compile(r"\s*[-–—]\s.*")
_NO_TEXT = re.compile(
    r"[^\n]*\.(?:jpe?g|png|svg|gif|tiff?|webp|og[gva]|webm|pdf|mid)\b|(?:https?:)?//|www\.|[^\n]*\d\s*px\b|"
    r"#[0-9a-f]{6}\Z|(?=\d*[a-f])[0-9a-f]{6}\Z|(?:yes|no|on|off|true|false|auto|none|center|left|right|top|bottom|はい)\Z|[-+]?\d{1,3}\.\d{3,}\Z|"
    r"[^\n]*\d\s*[°度]\s*\d+\s*[′'分]|[a-z\-]+:\s*[^\s;]+;|[^\n]*[{}\[\]]{2}|[^\n]{0,10}(?:参照|後述)\Z|\W*\Z",
    re.I,
)


class InfoboxRows:
    """Converts infoboxes to lines, from which `assemble_rows` makes rows in the end.

    Args:
        rules: names of parameters.
        tally: receives the counts `infoboxes`, and `infoboxes.names`, `.lost` and `.values` of parameters that are left
            out because of their name, an unknown template, or a value other than text.
    """

    def __init__(self, rules: InfoboxRules, tally: Tally) -> None:
        self._labels, self._pairs, self._tally = rules.labels, rules.pairs, tally
        self._hidden = re.compile("|".join(map(re.escape, rules.hidden)) or r"(?!)", re.I)

    def show(self, arguments: Mapping[str, str]) -> str:
        """Return the lines of an infobox.

        Args:
            arguments: the arguments of the call by name, with templates and links in them resolved.
        """
        self._tally["infoboxes"] += 1
        return "\n".join(("", *self._lines(arguments), ""))

    def _lines(self, arguments: Mapping[str, str]) -> Iterator[str]:
        paired = {value: key for name in arguments if (found := self._pair(name, arguments)) for key, value in [found]}
        used = set(paired.values())
        for name, source in arguments.items():
            nested = [line for line in source.split("\n") if line.startswith(ROW_LINES)]
            if nested:
                source = "\n".join(line for line in source.split("\n") if not line.startswith(ROW_LINES))
            if name not in used and (value := self._value(source)):
                key = cell_text(arguments[paired[name]]) if name in paired else self._label(name)
                if key:
                    yield ROW_START
                    yield from key_and_value(without_doubled_unit(_KEY_END.sub("", key), value), value)
                else:
                    self._tally["infoboxes.names"] += 1
            yield from nested

    def _pair(self, name: str, arguments: Mapping[str, str]) -> tuple[str, str] | None:
        """Return a parameter that holds a name, and the one whose name it is; None for others."""
        stem = _NUMBER.sub("", name)
        for ending, other in self._pairs.items():
            if stem.endswith(ending) and (value := stem.removesuffix(ending) + other + name[len(stem) :]) in arguments:
                return (name, value) if 0 < len(arguments[name]) <= _MAX_NAME else None
        return None

    def _label(self, name: str) -> str:
        """Return what to show as the name of a parameter, without its number; "" for one that is no text."""
        stem = _NUMBER.sub("", name)
        for each in (name, name.lower(), stem, stem.lower()):
            if (known := self._labels.get(each)) is not None:
                return known
        if len(name) > _MAX_NAME or not _JAPANESE.search(name) or self._hidden.search(name):
            return ""
        return stem

    def _value(self, source: str) -> str:
        """Return a value in one line; "" if it is not text."""
        if LOST in source:
            source = _LOST_PART.sub("", source)
            if LOST in source or not source:
                self._tally["infoboxes.lost"] += 1
                return ""
        if not source:
            return ""
        text = cell_text(_ITEM.sub("", source.replace(PIPE, "|").replace(EQUALS, "=")))
        if len(text) <= MAX_VALUE and not _NO_TEXT.match(decode_entities(text)):
            return text
        self._tally["infoboxes.values"] += 1
        return ""
