"""Resolve nested mark-up (templates, links and tables) in one pass with an explicit stack."""

from __future__ import annotations

import re
from collections.abc import Callable

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.inline.links import LinkResolver
from jprep.corpus.readers.wikitext.placeholders import DROPPED, EQUALS, LINKED, LOST, PIPE, PLACE
from jprep.corpus.readers.wikitext.templating.expansion import TemplateExpander

MAX_DEPTH = 100
"""Mark-up nested deeper is dropped. MediaWiki's own limit is 40. The limit bounds how often a text is copied."""

# 90 % of templates and links contain no nested ones. They are resolved in bulk, then those that contained only these,
# and once again.
_FLAT_TEMPLATE = re.compile(r"\{\{(?<!\{\{\{)([^{}\[\]]*)\}\}(?!\})")
_FLAT_LINK = re.compile(r"\[\[([^{}\[\]]*)\]\]")
_BULK_PASSES = 3
_TOKEN = re.compile(r"(\{\{+|\}\}+|\[\[|\]\]+|\n[ \t:]*\{\||\n[ \t]*\|\}(?!\}))")
_BRACES = ("{{", "}}", "{|", "|}")
_HEADER = re.compile(r"\n[ \t]*!.*")


class _Frame:
    """An open template, link or table, with the pieces of text inside it."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []


class NestingResolver:
    """Resolves nested templates, links and tables in time linear in the text.

    `}}` and `|}` close the nearest open template or table. Mark-up opened inside it and not closed is broken. `]]`
    closes a link only if no other mark-up was opened since; the first `]` of `]]]` belongs to a single bracket that the
    link contains, as in MediaWiki. A closing sign without an opening one is removed. Of a broken template, table or
    file link, the rest of the line is removed; of another link, only the opening sign.

    Args:
        links: resolves links.
        templates: expands templates.
        show_table: returns the text of what is between `{|` and `|}`; None drops tables.
        tally: receives the counts of tables and broken mark-up.
    """

    def __init__(
        self,
        links: LinkResolver,
        templates: TemplateExpander,
        show_table: Callable[[str], str] | None,
        tally: Tally,
    ) -> None:
        self._links, self._templates, self._tally = links, templates, tally
        self._show_table = show_table
        self._stack: list[_Frame] = []
        self._open = {"{{": 0, "{|": 0, "[[": 0}

    def resolve(self, text: str) -> str:
        """Return the text with all nested mark-up resolved."""
        for _ in range(_BULK_PASSES):
            before = len(text)
            if "{{" in text:
                text = _FLAT_TEMPLATE.sub(lambda match: _escape_arguments(self._templates.expand(match[1])), text)
            if "[[" in text:
                text = _FLAT_LINK.sub(lambda match: _escape_arguments(self._links.resolve(match[1])), text)
            if len(text) == before:
                break
        text = (self._parse(text) if has_nesting_signs(text) else text).replace(PLACE, LOST)
        return text.replace(LINKED, "") if self._show_table else text

    def _parse(self, text: str) -> str:
        pieces = _TOKEN.split(text)
        stack = self._stack = [_Frame("page")]
        self._open = dict.fromkeys(self._open, 0)
        stack[0].pieces.append(pieces[0])
        for at in range(1, len(pieces), 2):
            token = pieces[at]
            if token == "[[":
                self._push("[[")
            elif token[0] == "]":
                self._close_brackets(len(token))
            elif token[0] == "{":
                self._open_braces(len(token))
            elif token[0] == "}":
                self._close_braces(len(token))
            else:
                self._table(token)
            if following := pieces[at + 1]:
                stack[-1].pieces.append(following)
        self._break_above(0)
        return "".join(stack[0].pieces)

    def _push(self, kind: str) -> None:
        self._open[kind[:2]] += 1
        self._stack.append(_Frame(kind))

    def _pop(self) -> str:
        frame = self._stack.pop()
        self._open[frame.kind[:2]] -= 1
        return "".join(frame.pieces)

    def _show(self, text: str) -> None:
        """Add a resolved text to the enclosing frame."""
        self._stack[-1].pieces.append(_escape_arguments(text) if len(self._stack) > 1 else text)

    def _close_brackets(self, count: int) -> None:
        while count > 1:
            if self._stack[-1].kind == "[[":
                if count > 2 and _has_open_bracket(self._stack[-1].pieces):
                    self._stack[-1].pieces.append("]")
                    count -= 1
                self._close_link()
            else:
                self._tally["unopened.links"] += 1
            count -= 2
        if count:
            self._stack[-1].pieces.append("]")

    def _close_link(self) -> None:
        deep = len(self._stack) > MAX_DEPTH
        content = self._pop()
        self._show(DROPPED if deep else self._links.resolve(content))

    def _open_braces(self, count: int) -> None:
        for _ in range(count // 2 - count % 2):
            self._push("{{")
        if count % 2:
            self._push("{{{")

    def _close_braces(self, count: int) -> None:
        while count > 1 and self._break_to("{{"):
            deep = len(self._stack) > MAX_DEPTH
            parameter = self._stack[-1].kind == "{{{" and count > 2
            content = self._pop()
            count -= 3 if parameter else 2
            if deep:
                self._show(DROPPED)
            else:
                self._show(_parameter_default(content) if parameter else self._templates.expand(content))
        if count > 1:
            self._tally["unopened.templates"] += 1
        if count == 1:
            self._stack[-1].pieces.append("}")

    def _table(self, token: str) -> None:
        if token[-1] == "|":
            self._push("{|")
        elif self._break_to("{|"):
            deep = len(self._stack) > MAX_DEPTH
            content = self._pop().replace(PLACE, LOST)
            self._tally["tables"] += 1
            self._show(self._show_table(content) if self._show_table and not deep else f"\n{DROPPED}")
        else:
            self._tally["unopened.tables"] += 1

    def _break_to(self, kind: str) -> bool:
        """Break the frames above the nearest open frame of this kind; return False if there is none."""
        if not self._open[kind]:
            return False
        at = len(self._stack) - 1
        while self._stack[at].kind[:2] != kind:
            at -= 1
        self._break_above(at)
        return True

    def _break_above(self, at: int) -> None:
        """Convert the frames above an index of the stack to text. Each piece is moved once, in order."""
        for frame in self._stack[at + 1 :]:
            self._open[frame.kind[:2]] -= 1
            self._tally[f"unclosed.{_NAMES[frame.kind]}"] += 1
            self._stack[at].pieces.append(self._broken(frame))
        del self._stack[at + 1 :]

    def _broken(self, frame: _Frame) -> str:
        text = "".join(frame.pieces)
        line, _, rest = text.partition("\n")
        if frame.kind == "[[" and not self._links.is_invisible(line):
            return DROPPED + (line.partition("|")[2] or line) + text[len(line) :]
        return f"{DROPPED}\n" + (_HEADER.sub("", "\n" + rest) if frame.kind == "{|" else rest)


_NAMES = {"[[": "links", "{{": "templates", "{{{": "parameters", "{|": "tables"}


def has_nesting_signs(text: str) -> bool:
    """Return whether a text contains a sign that opens or closes nested mark-up."""
    # Searching one character is much faster than searching two.
    if ("{" in text or "}" in text) and any(map(text.__contains__, _BRACES)):
        return True
    return "[[" in text or "]]" in text


def _has_open_bracket(pieces: list[str]) -> bool:
    """Return whether an external link, or a bracket of the text, is still open."""
    return sum(piece.count("[") - piece.count("]") for piece in pieces) > 0


def _parameter_default(parameter: str) -> str:
    """Return what `{{{name|default}}}` shows on a page that is not a template."""
    return "".join(parameter.split("|")[1:2])


def _escape_arguments(text: str) -> str:
    """Replace `|` and `=` in a resolved text, which would be read as mark-up of the enclosing template."""
    if text is DROPPED:
        return text
    if "|" in text or "=" in text:
        return text.replace("|", PIPE).replace("=", EQUALS)
    return text
