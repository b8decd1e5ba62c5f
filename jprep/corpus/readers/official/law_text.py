"""Convert the standard XML of Japanese laws (法令標準XML) to text, one caption, paragraph, item or table row a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat

import msgspec

from jprep.corpus.document import Tally

_MAX_DEPTH = 100
_SPACE = "　"

_SKIPPED = {"TOC": "toc.deleted", "Rt": "ruby.deleted", "Fig": "figures.deleted"}
"""Elements whose text is left out, with the name of their count."""

_LABEL = re.compile(r"ArticleTitle|ParagraphNum|ItemTitle|Subitem\d+Title|ClassTitle")
"""Numbers of what follows them on the same line."""

_INLINE = re.compile(
    r"Sentence|\w+Sentence|Column|TableColumn|TableHeaderColumn|Ruby|Rt|Sup|Sub|Line|ArithFormula|QuoteStruct|Fig"
)
"""Elements that begin and end no line."""


class Law(msgspec.Struct):
    """A law.

    Attributes:
        title: its title.
        number: its number, e.g. `昭和二十一年憲法`.
        attributes: the attributes of the element `Law`.
        lines: its text.
    """

    title: str = ""
    number: str = ""
    attributes: dict[str, str] = {}
    lines: list[str] = []


class MalformedLawError(Exception):
    """XML that is not well-formed, has a document type, or is nested too deeply."""


def parse_laws(data: bytes, tally: Tally, *, supplementary: bool = True) -> Iterator[Law]:
    """Return the laws in an XML file: a file of the e-Gov download, or an answer of its interface.

    Args:
        data: the file.
        tally: counts what is left out.
        supplementary: whether to keep supplementary provisions.

    Raises:
        MalformedLawError: see there.
    """
    converter = _Converter(tally, supplementary)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = converter.start, converter.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = converter.characters, converter.refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise MalformedLawError(str(error)) from error
    except (ValueError, LookupError) as error:  # an encoding that expat does not know
        raise MalformedLawError(f"{error}") from error
    return iter(converter.laws)


class _Converter:
    """Takes the events of a parser."""

    def __init__(self, tally: Tally, supplementary: bool) -> None:
        self._tally, self._supplementary = tally, supplementary
        self.laws: list[Law] = []
        self._law: Law | None = None
        self._open: list[str] = []
        self._line: list[str] = []
        self._after_label = False
        self._skipped = 0  # depth of the outermost element that is left out
        self._row = 0  # depth of the table row
        self._note = ""  # follows the label of the supplementary provisions

    def refuse(self, *_: object) -> None:
        raise MalformedLawError("a document type declaration, which can hold an entity bomb")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._open.append(name)
        if len(self._open) > _MAX_DEPTH:
            raise MalformedLawError(f"more than {_MAX_DEPTH} nested elements")
        if name == "Law" and self._law is None:
            self._law = Law(attributes=dict(attributes))
            self.laws.append(self._law)
        elif self._law and not self._skipped and not self._skip(name):
            self._begin(name, attributes)

    def _skip(self, name: str) -> bool:
        counted = _SKIPPED.get(name, "")
        if name == "SupplProvision" and not self._supplementary:
            counted = "supplementary.deleted"
        if counted:
            self._tally[counted] += 1
            self._skipped = len(self._open)
        return bool(counted)

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if self._row or _is_inline(name):
            return
        if not self._after_label:
            self._end_line()
        if name == "TableRow":
            self._row = len(self._open)
        if name == "SupplProvision":
            amending, extract = attributes.get("AmendLawNum", ""), attributes.get("Extract") == "true"
            self._note = (f"（{amending}）" if amending else "") + (f"{_SPACE}抄" if extract else "")

    def end(self, name: str) -> None:
        depth = len(self._open)
        self._open.pop()
        if self._skipped:
            self._skipped = 0 if depth == self._skipped else self._skipped
        elif name == "Law" and "Law" not in self._open:
            self._end_line()
            self._law = None
        elif self._law:
            self._finish(name, depth)

    def _finish(self, name: str, depth: int) -> None:
        """End an element: a label and a cell are followed by a space, a block by the end of its line."""
        if name.endswith("Column") and name != "Column":
            self._end_cell()
        elif _LABEL.fullmatch(name):
            if self._after_label:
                self._add_space()
        elif name == "Column" or (depth > self._row > 0 and self._is_block_in_cell(name)):
            self._add_space()
        elif not _is_inline(name):
            self._row = 0
            self._line += [self._note] if name == "SupplProvisionLabel" else []
            self._end_line()

    def _is_block_in_cell(self, name: str) -> bool:
        """Return whether an element in a table row is kept apart from the next one: also sentences without 。."""
        return not _is_inline(name) or (name == "Sentence" and not "".join(self._line[-1:]).endswith("。"))

    def _add_space(self) -> None:
        if self._line[-1:] != [_SPACE]:
            self._line.append(_SPACE)

    def _end_cell(self) -> None:
        while self._line and self._line[-1] == _SPACE:
            self._line.pop()
        self._line.append("\t")

    def characters(self, text: str) -> None:
        if self._law is None or self._skipped:
            return
        text = _without_indentation(text) if "\n" in text else text
        if text and self._open[-1] == "LawNum":
            self._law.number += text
        elif "LawTitle" in self._open:
            self._law.title += text
        elif text:
            self._line.append(text)
            self._after_label = any(_LABEL.fullmatch(name) for name in self._open)  # a label may have ruby in it

    def _end_line(self) -> None:
        line = "".join(self._line).rstrip("\t 　").lstrip(" 　")  # a row may begin with an empty cell
        if line and self._law:
            self._law.lines.append(line)
        self._line, self._after_label = [], False


def _without_indentation(text: str) -> str:
    """Remove line breaks with the white space of XML around them. U+3000 is a character of the text."""
    first, *middle, last = text.split("\n")
    return "".join([first.rstrip(" \t\r"), *(line.strip(" \t\r") for line in middle), last.lstrip(" \t\r")])


def _is_inline(name: str) -> bool:
    return bool(_INLINE.fullmatch(name) or _LABEL.fullmatch(name))
