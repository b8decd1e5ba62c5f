"""Divide a file of Aozora Bunko into header, text and colophon, and remove the markup of the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from jprep.corpus.document import Tally
from jprep.corpus.readers.aozora.characters import GETA, resolve_accents, resolve_gaiji, resolve_repetition

_RULE = re.compile(r"-{10,}[ \t]*")
_LEGEND_LINES = 80
_HEADER_LINES = 8  # more lines before the first blank one are text
_END = re.compile(r"［＃本文終わり］\s*")
_COLOPHON = re.compile(r"(?:翻訳の)?底本(?:の親本|・初出)?[：:]")
_RUBY = re.compile(r"《[^《》\n]*》")
_RUBY_BASE = re.compile(r"[｜|]([^｜|《》\n]*)(?=《[^《》\n]*》)")
_NOTE = re.compile(r"［＃[^［］\n]*］")
_DEPTH = 8  # of notes in notes
_INLINE_NOTE = re.compile(
    r"(?P<before>[（(〔〈]?)［＃(?:ここから)?割り注］(?P<inner>(?:[^［\n]++|［(?!＃(?:ここ(?:から|で))?割り注))*+)"
    r"［＃(?:ここで)?割り注終わり］(?P<after>[）)〕〉]?)"
)
_BRACKETED = re.compile(r"[（(〔〈][^（(〔〈）)〕〉]*+[）)〕〉]")
_NOTE_INSIDE_LINE = re.compile(r"(?<=[^\s］])［＃[^［］\n]*+］(?=[^\s［])")
_HELPER = re.compile(r"(?![上中下前後続正].?編\Z)(?:.*[^一-龥])?.{1,20}(?:訳[註注]?|譯|編|校訂|校註|校注|編纂)")


class Parts(NamedTuple):
    """The parts of a file.

    Attributes:
        header: the lines before the first blank line: title, subtitles, author, translator.
        legend: the explanation of the markup, or "".
        body: the text.
        colophon: what follows the note ［＃本文終わり］, or else from the line `底本：` on: the printed source, the
            people, the dates, the licence; or "".
    """

    header: list[str]
    legend: str
    body: str
    colophon: str


def divide(text: str) -> Parts:
    """Return the parts of a file with line feeds only."""
    lines = text.strip("\n").split("\n")
    blank = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    if blank == len(lines):
        return Parts([], "", text, "")
    if blank > _HEADER_LINES:
        blank = 0
    header, rest = [line.strip() for line in lines[:blank]], lines[blank:]
    legend, rest = _without_legend(rest)
    end = _end_of_text(rest)
    return Parts(header, legend, "\n".join(rest[:end]), _END.sub("", "\n".join(rest[end:])).strip())


def _without_legend(lines: list[str]) -> tuple[str, list[str]]:
    rules = [at for at, line in enumerate(lines[:_LEGEND_LINES]) if _RULE.fullmatch(line)][:2]
    if len(rules) < 2 or any(line.strip() for line in lines[: rules[0]]):
        return "", lines
    return "\n".join(lines[rules[0] : rules[1] + 1]), lines[rules[1] + 1 :]


def _end_of_text(lines: list[str]) -> int:
    """Return the number of the line with the note that the text ends, or else of the first line of the colophon."""
    if (noted := next((at for at, line in enumerate(lines) if _END.fullmatch(line)), -1)) >= 0:
        return noted
    found = (at for at, line in enumerate(lines) if _COLOPHON.match(line) and _begins_block(lines, at))
    return next(found, len(lines))


def _begins_block(lines: list[str], at: int) -> bool:
    """Return whether the line before is blank, apart from notes such as ［＃改ページ］."""
    return at > 0 and not _NOTE.sub("", lines[at - 1]).strip()


def describe(header: list[str]) -> dict[str, str]:
    """Return `title`, `subtitle`, `author` and `translator` of a header, as far as it has them.

    The first line is the title. Last lines that end in 訳, 編 or the like are the translators, the line before them the
    author; what lies between is the subtitle.
    """
    if not header:
        return {}
    title, *others = header
    helpers = list[str]()
    while len(others) > 1 and _HELPER.fullmatch(others[-1]):
        helpers.insert(0, others.pop())
    author = others.pop() if others else ""
    found = {"title": title, "subtitle": " ".join(others), "author": author, "translator": "、".join(helpers)}
    return {key: value for key, value in found.items() if value}


def plain_text(text: str, legend: str, tally: Tally) -> str:
    """Return a text without ruby and notes, with the characters that notes describe; count each kind.

    Args:
        text: header line or body.
        legend: the file's explanation of its markup. If it explains other marks but not 《》, they are brackets.
        tally: where to count.
    """
    text = _bracketed(_with_geta(resolve_gaiji(_unmasked(text, legend, tally), tally), tally), tally)
    for _ in range(_DEPTH):
        text, deleted = _delete_notes(text)
        tally["notes.deleted"] += deleted
        if not deleted:
            break
    text = resolve_repetition(resolve_accents(text, tally), tally)
    return text.translate(_UNHIDE)


_HIDDEN = {"※［＃始め二重山括弧、1-1-52］": "\ue0f0", "※［＃終わり二重山括弧、1-1-53］": "\ue0f1"}
_UNHIDE = {0xE0F0: "《", 0xE0F1: "》"}


def _unmasked(text: str, legend: str, tally: Tally) -> str:
    """Delete ruby. Notes for the brackets 《》 themselves are not ruby."""
    for note, mark in _HIDDEN.items():
        tally["gaiji.resolved"] += text.count(note)
        text = text.replace(note, mark)
    if legend and not _RUBY.search(legend):
        return text
    text = _RUBY_BASE.sub(r"\1", text)
    text, deleted = _RUBY.subn("", text)
    tally["ruby.deleted"] += deleted
    return text


def _with_geta(text: str, tally: Tally) -> str:
    """Replace pictures inside a line by 〓: they stand for a character or a word."""

    def replace(note: re.Match[str]) -> str:
        if "（fig" not in note[0] or not note[0].endswith("）入る］"):
            return note[0]
        tally["pictures.replaced"] += 1
        return GETA

    return _NOTE_INSIDE_LINE.sub(replace, text)


def _bracketed(text: str, tally: Tally) -> str:
    """Put notes that are printed in small type inside a line (割り注) into brackets, unless they are in brackets."""

    def bracket(note: re.Match[str]) -> str:
        before, inner, after = note["before"], note["inner"], note["after"]
        if (before and after) or _BRACKETED.fullmatch(inner):
            return note[0]
        tally["inline_notes.bracketed"] += 1
        return f"{before}（{inner}）{after}"

    return _INLINE_NOTE.sub(bracket, text)


def _delete_notes(text: str) -> tuple[str, int]:
    """Delete the innermost notes. A line of nothing else is deleted as a whole."""
    lines, deleted = list[str](), 0
    for line in text.split("\n"):
        rest, notes = _NOTE.subn("", line)
        deleted += notes
        if rest.strip() or not notes:
            lines.append(rest)
    return "\n".join(lines), deleted
