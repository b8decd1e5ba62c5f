"""The format language of template tables, which describes how to show the arguments of a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jprep.corpus.readers.wikitext.placeholders import LOST

Lookup = Callable[[str], str]
"""Returns the value for a key, or ""."""

_TOKEN = re.compile(r"\\(.)|\{([^{}]+)\}|([\[\]])|([^\\{}\[\]]+)", re.S)


class TemplateFormat:
    """A compiled format.

    `{key}` is the argument of that name or number, `{a|b}` the first one that is not empty, `{key:lookup}` the value
    of the argument in a lookup, or in several, one after the other (`{key:lookup:lookup}`), `{2+sep}` all arguments
    from the second on, joined by `sep`, `{*}` the text matched by `*` in the name of the template, `{@title}` the title
    of the page. Text in `[…]` is left out if a field in it is empty. If a field outside of brackets is empty, the
    result is empty. A backslash escapes a special character.

    Args:
        source: the format as written in the table.
        lookups: the lookups, by name.

    Raises:
        ValueError: the format is invalid.
    """

    def __init__(self, source: str, lookups: Mapping[str, Lookup]) -> None:
        self._parts: list[tuple[bool, list[str | list[_Field]]]] = [(False, [])]
        end = 0
        for match in _TOKEN.finditer(source):
            escaped, field, bracket, plain = match.groups()
            if match.start() != end or (bracket and (bracket == "[") == self._parts[-1][0]):
                raise ValueError(f"syntax error in the format {source!r} at character {end + 1}")
            end = match.end()
            if bracket:
                self._parts.append((bracket == "[", []))
            elif field:
                self._parts[-1][1].append([_Field(key, lookups) for key in field.split("|")])
            else:
                self._parts[-1][1].append(escaped or plain)
        if end != len(source) or self._parts[-1][0]:
            raise ValueError(f"unexpected end of the format {source!r}")

    def fill(self, arguments: Mapping[str, str]) -> str:
        """Return the text for these arguments, or "" if a field outside of brackets has no value.

        A field whose value is `LOST` has none, but the text is `LOST` if that is the value of all fields beside it.
        """
        out: list[str] = []
        for optional, pieces in self._parts:
            values = [piece if isinstance(piece, str) else _first(piece, arguments) for piece in pieces]
            if LOST in values:
                if optional:
                    continue
                return LOST if _all_lost(pieces, values) else ""
            if all(values):
                out += values
            elif not optional:
                return ""
        return "".join(out)


class _Field:
    """One alternative of a field: an argument, optionally with a lookup."""

    def __init__(self, source: str, lookups: Mapping[str, Lookup]) -> None:
        key, *names = source.split(":")
        self._key, plus, self._separator = key.partition("+")
        self._many = bool(plus)
        if self._many and not self._key.isdecimal():
            raise ValueError(f"the field {source!r} does not begin with a number")
        if unknown := [name for name in names if name not in lookups]:
            raise ValueError(f"unknown lookup {unknown[0]!r}")
        self._lookups = [lookups[name] for name in names]

    def value(self, arguments: Mapping[str, str]) -> str:
        if not self._many:
            return self._looked_up(arguments.get(self._key, ""))
        numbered = (arguments.get(str(n), "") for n in range(int(self._key), len(arguments) + 1))
        return self._separator.join(self._looked_up(value) for value in numbered if value)

    def _looked_up(self, value: str) -> str:
        for lookup in self._lookups:
            value = value and lookup(value)
        return value


def _all_lost(pieces: list[str | list[_Field]], values: list[str]) -> bool:
    return all(value == LOST for piece, value in zip(pieces, values, strict=True) if not isinstance(piece, str))


def _first(fields: list[_Field], arguments: Mapping[str, str]) -> str:
    return next((value for field in fields if (value := field.value(arguments))), "")
