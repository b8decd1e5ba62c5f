"""MediaWiki's parser functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from jprep.corpus.readers.wikitext.placeholders import LOST
from jprep.corpus.readers.wikitext.templating.conditions import CONDITIONS, choose
from jprep.corpus.readers.wikitext.transclusion.parser_functions.expressions import ExpressionError, evaluate_expression
from jprep.corpus.readers.wikitext.transclusion.parser_functions.page_names import PageNames
from jprep.corpus.readers.wikitext.transclusion.parser_functions.times import UnknownTimeError, format_time
from jprep.corpus.readers.wikitext.transclusion.syntax import Argument, Nodes

ERROR = '<strong class="error"></strong>'
"""What a function shows that cannot be computed; `#iferror` looks for it."""

_MAX_PADDING = 500
_MAX_PARTS = 25
"""Limits of MediaWiki."""


class FunctionCall:
    """A call of a parser function, whose arguments are evaluated on request.

    Args:
        text: returns the text of nodes.
        first: the text between the colon and the first `|`.
        arguments: the other arguments.
        page: names of the current page.
        has_page: returns whether the file of template pages has a page with some title.
    """

    def __init__(
        self,
        text: Callable[[Nodes], str],
        first: str,
        arguments: Sequence[Argument],
        page: PageNames,
        has_page: Callable[[str], bool],
    ) -> None:
        self._text, self._first, self._arguments = text, first.strip(), arguments
        self.page, self.has_page = page, has_page

    def value(self, at: int) -> str:
        """Return an argument without the space around it, "" if there is none. The one before the first `|` is 0."""
        if at == 0:
            return self._first
        if at > len(self._arguments):
            return ""
        key, value = self._arguments[at - 1]
        return self.text(value if key is None else [*key, "=", *value])

    def has(self, at: int) -> bool:
        """Return whether the call has an argument, even an empty one."""
        return at <= len(self._arguments)

    def cases(self) -> Iterator[tuple[str, Callable[[], str] | None]]:
        """Yield what each argument has before its `=`, or the whole argument, and what evaluates the rest, or None."""
        for key, value in self._arguments:
            yield self.text(value if key is None else key), None if key is None else partial(self.text, value)

    def text(self, nodes: Nodes) -> str:
        """Return the text of nodes without the space around it."""
        return self._text(nodes).strip()


def _expr(call: FunctionCall) -> str:
    if LOST in call.value(0):
        return LOST
    try:
        return evaluate_expression(call.value(0))
    except ExpressionError:
        return ERROR


def _ifexpr(call: FunctionCall) -> str:
    result = _expr(call)
    return result if result in (LOST, ERROR) else choose(call, result not in ("", "0"))


def _iferror(call: FunctionCall) -> str:
    value = call.value(0)
    if 'class="error"' in value:
        return call.value(1)
    return call.value(2) if call.has(2) else value


def _ifexist(call: FunctionCall) -> str:
    """Decide whether a template is in the dump. Pages of other namespaces are taken not to exist."""
    return LOST if LOST in call.value(0) else choose(call, call.has_page(call.value(0)))


def _time(call: FunctionCall) -> str:
    """Return a time in UTC on a Japanese wiki. Other languages and the local time of a wiki are unknown."""
    form, date = call.value(0), call.value(1)
    if LOST in form or LOST in date or call.value(2) not in ("", "ja") or call.value(3):
        return LOST
    try:
        return format_time(form, date, call.page.time)
    except UnknownTimeError:
        return LOST


def _formatnum(call: FunctionCall) -> str:
    """Return a number with commas; without them for the second argument `R`, as it is for `NOSEP`."""
    number, option = call.value(0), call.value(1)
    if option == "R":
        return number.replace(",", "")
    if option == "NOSEP" or not (match := re.match(r"-?\d{4,}", number, re.A)):
        return number
    return f"{int(match[0]):,}{number[match.end() :]}" if match.end() < 40 else number


def _pad(call: FunctionCall, *, left: bool) -> str:
    text, length, sign = call.value(0), call.value(1), call.value(2) or "0"
    missing = min(int(length), _MAX_PADDING) - len(text) if re.fullmatch(r"\d{1,6}", length, re.A) else 0
    missing = max(0, missing)
    padding = (sign[:missing] * missing)[:missing]
    return padding + text if left else text + padding


def _titleparts(call: FunctionCall) -> str:
    parts = call.value(0).split("/", _MAX_PARTS - 1)
    count, first = _integer(call.value(1)), _integer(call.value(2))
    start = first - 1 if first > 0 else first
    kept = parts[start:] if start else parts
    return "/".join(kept[:count] if count else kept)


def _integer(text: str) -> int:
    return int(text) if re.fullmatch(r"[+-]?\d{1,6}", text, re.A) else 0


FUNCTIONS: dict[str, Callable[[FunctionCall], str]] = {
    **CONDITIONS,
    "#expr": _expr,
    "#ifexpr": _ifexpr,
    "#iferror": _iferror,
    "#ifexist": _ifexist,
    "#time": _time,
    "#titleparts": _titleparts,
    "lc": lambda call: call.value(0).lower(),
    "uc": lambda call: call.value(0).upper(),
    "lcfirst": lambda call: call.value(0)[:1].lower() + call.value(0)[1:],
    "ucfirst": lambda call: call.value(0)[:1].upper() + call.value(0)[1:],
    "formatnum": _formatnum,
    "padleft": lambda call: _pad(call, left=True),
    "padright": lambda call: _pad(call, left=False),
    "urlencode": lambda call: call.value(0),
    "anchorencode": lambda call: call.value(0),
    "protectionlevel": lambda _: "",
    "ns": lambda call: call.page.namespace_name(call.value(0)),
}
"""Functions by name in lower case. All others are templates of the table, or unknown."""
