"""Resolve mark-up at the beginning of lines (headings, lists, indents, rules), and build paragraphs."""

from __future__ import annotations

import re

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.config import ExtractorConfig
from jprep.corpus.readers.wikitext.placeholders import BREAK, DROPPED, EMPTY, GONE, HEADING, LITERAL

_EDGE = " \t\u3000" + GONE
_HEADING = re.compile(rf"\n(={{1,6}})([^\n=]+)\1[ \t{GONE}]*(?=\n|\Z)")
_ODD_HEADING = re.compile(r"\n=[^\n]*")
_ITEM = re.compile(r"\n[*#:;]+[ \t]*")
_LISTED = re.compile(r"\n[*#;][^\n]*")
_RESIDUE = re.compile(r"\n[ \t]*(?:\|[^\n]*|-{4,}|[{}]+(?=\n|\Z))")
_CRUMBS = re.compile(rf"\n[*#:; \t、。，．,.；：・/／\-–]*[{GONE}][ \t、。，．,.;；:：・/／\-–{{}}{GONE}]*(?=\n|\Z)")
# A line that continues the sentence above. MediaWiki joins lines that are not separated by a blank line.
_WRAPPED = re.compile(
    rf"\n(?:(?<=[ぁ-ゖ、]\n)(?=[^\s*#:;=|!{GONE}{LITERAL}])|(?<![\s{BREAK}]\n)([{GONE}]*)(?=[。、，．）」』]))"
)
_SET_OFF = "*#:;=| \t\n"
_MIN_WRAPPED = 20  # characters: a shorter line may be a bold title, or a verse


class ParagraphBuilder:
    """Converts the lines of a page to paragraphs.

    Args:
        config: what to keep.
        tally: receives the counts of headings, sections and lists.
    """

    def __init__(self, config: ExtractorConfig, tally: Tally) -> None:
        self._config, self._tally = config, tally
        self._dropped = frozenset(config.drop_sections)

    def remove_line_markup(self, text: str) -> str:
        """Remove the mark-up of headings, lists, indents and rules. Headings are marked with a placeholder.

        Args:
            text: a text that begins with a newline.
        """
        text = _WRAPPED.sub(_join_wrapped, text)
        if "\n=" in text:
            text = _headings(text)
        if not self._config.lists:
            text, items = _LISTED.subn(f"\n{DROPPED}", text)
            self._tally["lists.dropped"] += items
        text = _CRUMBS.sub(f"\n{DROPPED}", text)
        text, residue = _RESIDUE.subn(f"\n{DROPPED}", text)
        self._tally["residue.lines"] += residue
        return _ITEM.sub("\n", text).replace(BREAK, "\n")

    def build(self, text: str) -> list[str]:
        """Return the stripped paragraphs of a text without mark-up, and the headings of non-empty sections."""
        lines = [line for line in map(str.strip, text.split("\n")) if line]
        if HEADING not in text:
            return lines
        if self._dropped:
            lines = list(self._remove_sections(lines))
        return self._remove_empty_sections(lines)

    def _remove_sections(self, lines: list[str]) -> list[str]:
        kept, inside = [], 0
        for line in lines:
            if line[0] == HEADING:
                level = int(line[1])
                if not inside or level <= inside:
                    inside = level if line[2:].strip() in self._dropped else 0
                    self._tally["sections.dropped"] += bool(inside)
            if not inside:
                kept.append(line)
        return kept

    def _remove_empty_sections(self, lines: list[str]) -> list[str]:
        """Remove the headings of empty sections, which contained only a table, a gallery or references."""
        keep = self._config.headings == "keep"
        kept, reach = [], 0
        for line in reversed(lines):
            if line[0] != HEADING:
                kept.append(line)
                reach = 7
            elif (level := int(line[1])) < reach:
                reach = level
                self._tally["headings"] += 1
                if keep and (title := line[2:].strip()):
                    kept.append(title)
            else:
                self._tally["headings.empty"] += 1
        return kept[::-1]


def _headings(text: str) -> str:
    pieces = _HEADING.split(text)
    pieces[1::3] = [f"\n{HEADING}{len(signs)}" for signs in pieces[1::3]]
    pieces[2::3] = [title.replace(BREAK, " ").strip(_EDGE) for title in pieces[2::3]]
    text = "".join(pieces)
    return _ODD_HEADING.sub(_heading, text) if "\n=" in text else text


def _heading(match: re.Match[str]) -> str:
    """Mark a heading that contains `=` or has more of it on one side. A line that only begins with `=` is text."""
    line = match[0].strip(_EDGE + "\n")
    longest = (len(line) - 1) // 2
    level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), 6, longest)
    if level < 1:
        return f"\n{EMPTY}{line}"
    return f"\n{HEADING}{level}{line[level:-level].replace(BREAK, ' ').strip(_EDGE)}"


def _join_wrapped(match: re.Match[str]) -> str:
    """Return "" if the line above is running text or the line below cannot begin a line; otherwise the newline."""
    text, at = match.string, match.start()
    above = text[text.rfind("\n", 0, at) + 1 : at].rstrip(GONE)
    if not above or above[0] in _SET_OFF or (match[1] is None and len(above) < _MIN_WRAPPED):
        return match[0]
    return match[1] or ""
