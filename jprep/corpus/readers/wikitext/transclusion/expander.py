"""Expand the calls of a page whose templates are pages of the dump."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import partial

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.placeholders import DROPPED, EQUALS, GONE, LOST, PIPE
from jprep.corpus.readers.wikitext.templating.expansion import TemplateExpander
from jprep.corpus.readers.wikitext.transclusion.escaping import escape_separators
from jprep.corpus.readers.wikitext.transclusion.frame import Frame
from jprep.corpus.readers.wikitext.transclusion.hidden import remove_hidden
from jprep.corpus.readers.wikitext.transclusion.limits import MAX_DEPTH, MAX_TEMPLATES, Budget, OverLimitError
from jprep.corpus.readers.wikitext.transclusion.parser_functions.functions import ERROR, FUNCTIONS, FunctionCall
from jprep.corpus.readers.wikitext.transclusion.parser_functions.page_names import PageNames
from jprep.corpus.readers.wikitext.transclusion.parser_functions.times import parse_timestamp, show_variable
from jprep.corpus.readers.wikitext.transclusion.resolution import Resolver, Template, static_name, without_prefix
from jprep.corpus.readers.wikitext.transclusion.syntax import (
    Argument,
    Call,
    Element,
    Node,
    Nodes,
    Parameter,
    outermost_braces,
    parse,
    source_of,
)

_NAME = re.compile(r"\{\{(?!\{)([^{}|<\[\]]*)([|}<])")
_SIGNS = {"!": "|", "=": "="}
_BLOCKS = ("{|", "*", "#", ":", ";")


class Transcluder:
    """Expands the templates of a page that are pages of the dump. All other markup of the page stays as it is.

    Within a template everything is expanded, as MediaWiki does: parser functions here, templates of the table by the
    table. What is unknown leaves `LOST`.

    Args:
        resolver: finds templates.
        templates: expands the templates of the table, and counts unknown ones.
        namespaces: namespace numbers by lower-case name; see `all_namespaces`.
        tally: receives the counts `templates.from_pages`, `.loops`, `.too_deep` and `.over_limit`.
    """

    def __init__(
        self, resolver: Resolver, templates: TemplateExpander, namespaces: dict[str, int], tally: Tally
    ) -> None:
        self._resolver, self._templates, self._tally = resolver, templates, tally
        self._namespaces = namespaces
        self._begin("")

    def _begin(self, title: str, timestamp: str = "") -> None:
        self._page = PageNames(title, self._namespaces, parse_timestamp(timestamp))
        self._budget, self._depth = Budget(), 0
        self._bodies: dict[str, Nodes] = {}

    def expand(self, text: str, title: str, timestamp: str = "") -> str:
        """Return the wikitext of a page with the templates expanded that are pages of the dump."""
        calls = [match.start() for match in _NAME.finditer(text) if self._can_be_ours(match)] if "{{" in text else []
        if not calls:
            return text
        self._begin(title, timestamp)
        out, done = list[str](), 0
        for start, end in outermost_braces(text):
            if (first := bisect_left(calls, start)) < len(calls) and calls[first] < end:
                nodes = parse(text[start:end], begins_line=text[start - 1 : start] == "\n")
                out += text[done:start], *(self._shown(node, 0) for node in nodes)
                done = end
        return "".join((*out, text[done:]))

    def _can_be_ours(self, call: re.Match[str]) -> bool:
        return call[2] == "<" or self._resolver.is_on_page(without_prefix(call[1].strip()))

    def _shown(self, node: Node, depth: int) -> str:
        """Return the source of a node of the page, nested so deep, with our calls expanded."""
        if isinstance(node, str):
            return node
        if isinstance(node, Element):
            return node.source
        if isinstance(node, Call) and self._resolver.is_on_page(static_name(node)):
            self._depth = depth  # of the page as well: together they must not exceed Python's limit of recursion
            text = self._call_of_page(node)
            return escape_separators(text) if depth else text
        return "".join(self._shown(each, depth + 1) for each in source_of(node))

    def _call_of_page(self, call: Call) -> str:
        try:
            text = self._call(call, Frame(self._text))
        except OverLimitError:
            self._tally["templates.over_limit"] += 1
            return LOST
        self._tally["templates.from_pages"] += 1
        text = remove_hidden(text.replace(ERROR, LOST))
        if text.strip(" \t\n" + GONE):
            return text
        return LOST if LOST in text else DROPPED

    def _text(self, nodes: Nodes, frame: Frame) -> str:
        """Return the text of nodes with everything in it expanded."""
        if len(nodes) == 1:  # without a comprehension, which is a further level of recursion
            return self._budget.handle(self._node(nodes[0], frame))
        return self._budget.handle("".join([self._node(node, frame) for node in nodes]))

    def _node(self, node: Node, frame: Frame) -> str:
        if isinstance(node, str):
            return node
        if isinstance(node, Element):
            if node.name == "ref":
                self._tally["refs"] += 1
            return {"!--": "", "ref": DROPPED}.get(node.name, node.source)
        if isinstance(node, Parameter):
            self._budget.step()
        if self._depth >= MAX_DEPTH:
            self._tally["templates.too_deep"] += 1
            return LOST
        self._depth += 1
        text = self._call(node, frame) if isinstance(node, Call) else self._parameter(node, frame)
        self._depth -= 1
        return text

    def _parameter(self, parameter: Parameter, frame: Frame) -> str:
        name = self._text(parameter.parts[0], frame).strip()
        value = frame.argument(name)
        if value is not None:
            return value
        return self._text(parameter.parts[1], frame) if len(parameter.parts) > 1 else f"{{{{{{{name}}}}}}}"

    def _call(self, call: Call, frame: Frame) -> str:
        self._budget.step(len(call.arguments))
        name = without_prefix(self._text(call.name, frame).strip())
        head, colon, first = name.partition(":")
        if colon and (function := FUNCTIONS.get(head.strip().lower())):
            self._tally["templates.functions"] += head[:1] == "#"
            text = partial(self._text, frame=frame)
            return function(FunctionCall(text, first, call.arguments, self._page, self._resolver.has_page))
        if name in _SIGNS:
            return _SIGNS[name]
        if (variable := self._page.show(head.strip(), first if colon else None)) is not None:
            return variable
        if (variable := show_variable(name, self._page.time)) is not None:
            return variable
        if LOST in name and not name.startswith("#"):
            self._tally["templates.unknown"] += 1
            return LOST
        template = self._resolver.find(name)
        if template.body is None:
            return self._by_table(template, call.arguments, frame)
        return self._by_page(template, call, frame)

    def _by_page(self, template: Template, call: Call, frame: Frame) -> str:
        if template.name in frame.active:
            self._tally["templates.loops"] += 1
            return DROPPED
        if len(frame.active) >= MAX_TEMPLATES:
            self._tally["templates.too_deep"] += 1
            return LOST
        inner = Frame(self._text, frame, template.name, call.arguments)
        text = self._budget.expand(self._text(self._nodes_of(template), inner))
        return f"\n{text}" if text.startswith(_BLOCKS) and not call.begins_line else text

    def _nodes_of(self, template: Template) -> Nodes:
        """Return the parsed page of a template, and count it the first time."""
        nodes = self._bodies.get(template.name)
        if nodes is None:
            nodes = self._bodies[template.name] = template.nodes(self._budget.parse)
        return nodes

    def _by_table(self, template: Template, arguments: list[Argument], frame: Frame) -> str:
        """Return what the table or, for parser functions and unknown templates, its expander says."""
        content = [template.name]
        for key, value in arguments if template.known else ():
            text = _escape(self._text(value, frame))
            content.append(text if key is None else f"{_escape(self._text(key, frame))}={text}")
        shown = self._templates.expand("|".join(content))
        return self._budget.expand(shown.replace(PIPE, "|").replace(EQUALS, "="))


def _escape(text: str) -> str:
    return text.replace("|", PIPE).replace("=", EQUALS)
