"""Parse the braces of wikitext: calls of templates and functions, and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jprep.corpus.readers.wikitext.transclusion.elements import LITERALS, ElementEnds

MAX_NESTING = 100
"""Signs that open mark-up nested deeper are text. The limit bounds how often a text is copied, and recursion."""

_ELEMENT = rf"<(?:(?P<comment>!--)|(?P<element>ref|{'|'.join(LITERALS)})(?=[\s/>])[^<>]{{0,1000}}>)"
_BRACES = r"(?P<open>\{\{+)|(?P<close>\}\}+)"
_OUTER = re.compile(f"{_ELEMENT}|{_BRACES}", re.I)
_TOKEN = re.compile(rf"{_ELEMENT}|{_BRACES}|(?P<link>\[\[)|(?P<end>\]\])|(?P<pipe>\|)|(?P<equals>=)", re.I)


class Element(NamedTuple):
    """A comment (`!--`), a reference or a literal, with its tags."""

    name: str
    source: str


class Parameter(NamedTuple):
    """`{{{name|default}}}`. What follows a second `|` is ignored."""

    parts: list[Nodes]


class Argument(NamedTuple):
    """An argument of a call; `key` is None without an `=`."""

    key: Nodes | None
    value: Nodes


class Call(NamedTuple):
    """`{{name|argument|…}}`: a template, a parser function or a variable.

    Attributes:
        name: what is before the first `|`.
        arguments: what follows.
        begins_line: whether a line of the source begins with the call.
    """

    name: Nodes
    arguments: list[Argument]
    begins_line: bool


Node = str | Element | Parameter | Call
Nodes = list[Node]


class _Frame:
    """Open braces, or with none of them an open link."""

    __slots__ = ("begins_line", "braces", "equals", "parts")

    def __init__(self, braces: int, begins_line: bool) -> None:
        self.braces, self.begins_line = braces, begins_line
        self.clear([])

    @property
    def nesting(self) -> int:
        """How deep the calls and parameters can be nested that these signs open."""
        return self.braces // 2 or 1

    def clear(self, first: Nodes) -> None:
        """Begin with this content."""
        self.parts: list[Nodes] = [first]
        self.equals: list[int] = [-1]
        """For each part, the index of the node that is its first `=`, or -1."""

    def flattened(self) -> Nodes:
        """Return the content and the opening sign as text."""
        nodes: Nodes = ["{" * self.braces or "[["]
        for number, part in enumerate(self.parts):
            nodes += ["|", *part] if number else part
        return nodes


def parse(text: str, begins_line: bool = True) -> Nodes:
    """Parse a text, which begins a line or not. Time is linear in the text.

    What is not closed, and `}}` that closes nothing, is text.
    `}}` closes the nearest open braces, and `]]` a link if nothing else was opened since. `|` and `=` in a link belong
    to it.
    """
    return _Parser(text, begins_line).parse()


def outermost_braces(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a text that `parse` has to see: from `{{` to the `}}` that closes all.

    Braces in comments, references and literals do not count. What is never closed ends with the text.
    """
    ends, done, start, depth = ElementEnds(text), 0, 0, 0
    while match := _OUTER.search(text, done):
        done = match.end()
        if match["open"]:
            start = start if depth else match.start()
            depth += len(match["open"])
        elif match["close"]:
            closed = min(depth, len(match["close"]))
            depth -= closed
            if closed and depth < 2:
                yield start, done
                depth = 0
        else:
            done = _element_end(match, ends)
    if depth:
        yield start, len(text)


def _element_name(match: re.Match[str]) -> str:
    return "!--" if match["comment"] else match["element"].lower()


def _element_end(match: re.Match[str], ends: ElementEnds) -> int:
    """Return the offset after an element. An open comment reaches to the end of the text, other open tags are text."""
    if match[0].endswith("/>"):
        return match.end()
    name = _element_name(match)
    return ends.find(name, match.end()) if name == "!--" else ends.closed(name, match.end())


class _Parser:
    def __init__(self, text: str, begins_line: bool) -> None:
        self._begins_line = begins_line
        self._text, self._ends = text, ElementEnds(text)
        self._stack = [_Frame(0, False)]
        self._braces = self._nesting = 0

    def parse(self) -> Nodes:
        text, done = self._text, 0
        while match := _TOKEN.search(text, done):
            if match.start() > done:
                self._add(text[done : match.start()])
            done = match.end()
            kind, token = match.lastgroup, match[0]
            if kind == "comment" or kind == "element":
                done = _element_end(match, self._ends)
                self._add(Element(_element_name(match), text[match.start() : done]))
            elif kind == "open" or kind == "link":
                self._open(token, done)
            elif kind == "close":
                self._close_braces(len(token))
            elif kind == "end":
                self._close_link()
            else:
                self._separate(token)
        self._add(text[done:])
        self._break_to(0)
        return self._stack[0].parts[-1]

    def _add(self, node: Node) -> None:
        self._stack[-1].parts[-1].append(node)

    def _open(self, token: str, end: int) -> None:
        """Open a link, or as many of the last braces as may be nested; others are text."""
        free = MAX_NESTING - self._nesting
        kept = token[max(0, len(token) - 2 * free - 1) :] if free else ""
        if len(kept) < len(token):
            self._add(token[: len(token) - len(kept)])
        if kept:
            at = end - len(kept)
            begins_line = self._text[at - 1] == "\n" if at else self._begins_line
            self._push(_Frame(0 if token == "[[" else len(kept), begins_line))

    def _push(self, frame: _Frame) -> None:
        self._stack.append(frame)
        self._braces += frame.braces > 0
        self._nesting += frame.nesting

    def _forget(self, frame: _Frame) -> None:
        """Count a frame that leaves the stack."""
        self._braces -= frame.braces > 0
        self._nesting -= frame.nesting

    def _separate(self, token: str) -> None:
        frame = self._stack[-1]
        if token == "|" and len(self._stack) > 1:
            frame.parts.append([])
            frame.equals.append(-1)
            return
        if token == "=" and frame.equals[-1] < 0:
            frame.equals[-1] = len(frame.parts[-1])
        self._add(token)

    def _close_link(self) -> None:
        if self._stack[-1].braces or len(self._stack) == 1:
            self._add("]]")
            return
        frame = self._stack.pop()
        self._forget(frame)
        self._stack[-1].parts[-1] += [*frame.flattened(), "]]"]

    def _close_braces(self, count: int) -> None:
        """Close as many open braces as there are, three of them as a parameter, two as a call."""
        while count > 1 and self._braces:
            at = len(self._stack) - 1
            while not self._stack[at].braces:
                at -= 1
            self._break_to(at)
            frame = self._stack.pop()
            self._forget(frame)
            taken = 3 if count > 2 and frame.braces > 2 else 2
            node = Parameter(frame.parts) if taken == 3 else _call(frame, frame.braces == 2)
            count -= taken
            frame.braces -= taken
            if frame.braces > 1:
                frame.clear([node])
                self._push(frame)
            else:
                self._stack[-1].parts[-1] += ["{", node] if frame.braces else [node]
        if count:
            self._add("}" * count)

    def _break_to(self, at: int) -> None:
        """Convert the frames above an index of the stack to text."""
        for frame in self._stack[at + 1 :]:
            self._forget(frame)
            self._stack[at].parts[-1] += frame.flattened()
        del self._stack[at + 1 :]


def _call(frame: _Frame, begins_line: bool) -> Call:
    """Return the call in a frame. Its first part is the name, in which `=` means nothing."""
    arguments = []
    for part, equals in zip(frame.parts[1:], frame.equals[1:], strict=True):
        arguments.append(Argument(None, part) if equals < 0 else Argument(part[:equals], part[equals + 1 :]))
    return Call(frame.parts[0], arguments, begins_line and frame.begins_line)


def source_of(node: Node) -> list[Node]:
    """Return the signs and the content of a node, which together are its source."""
    if isinstance(node, Call):
        nodes: Nodes = ["{{", *node.name]
        for key, value in node.arguments:
            nodes += ["|", *value] if key is None else ["|", *key, "=", *value]
        return [*nodes, "}}"]
    if isinstance(node, Parameter):
        nodes = ["{{{"]
        for number, part in enumerate(node.parts):
            nodes += ["|", *part] if number else part
        return [*nodes, "}}}"]
    return [node.source if isinstance(node, Element) else node]
