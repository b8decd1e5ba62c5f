"""Expand the templates defined in a test file, by substitution in the source as MediaWiki does."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What the preprocessor does not look into, and what is left to the extractor's own table.
_RAW = re.compile(r"<(nowiki|pre)\b[^<>]*>.*?</\1\s*>|<!--.*?-->|\{\{\s*(?:!|=|PAGENAME)\s*\}\}", re.I | re.S)
_CLOSERS = re.compile(r"\}\}+")
_HIDDEN = re.compile("\ue000([0-9]+)\ue000")
_REDIRECT = re.compile(r"\s*#REDIRECT\s*\[\[([^\]|]+)", re.I)
_DEEPEST = 40
# A `|` or `=` that a template gave does not part the arguments of the template around it.
_HIDE = {ord("|"): "\ue001", ord("="): "\ue002"}
_UNHIDE = {0xE001: "|", 0xE002: "="}


class UnknownTemplateError(Exception):
    """A source uses a template, variable or parser function that is not defined in the test file."""


class Expander:
    """Substitutes templates.

    Args:
        articles: the sources of the pages that there are, by title.
    """

    def __init__(self, articles: Mapping[str, str]) -> None:
        self._articles = articles
        self._raw: list[str] = []

    def expand(self, source: str) -> str:
        """Return the source with templates and their parameters substituted, innermost first.

        Raises:
            UnknownTemplateError: a template of the source is not among the articles, or includes itself.
        """
        self._raw = []
        text = self._substitute(source, 0).translate(_UNHIDE)
        return _HIDDEN.sub(lambda found: self._raw[int(found[1])], text)

    def _substitute(self, source: str, depth: int) -> str:
        if depth > _DEEPEST:
            raise UnknownTemplateError("a loop")
        text, at = _RAW.sub(self._hide, source), 0
        while (closer := _CLOSERS.search(text, at)) is not None:
            text, at = self._resolve(text, closer, depth)
        return text

    def _hide(self, match: re.Match[str]) -> str:
        self._raw.append(match[0])
        return f"\ue000{len(self._raw) - 1}\ue000"

    def _bare(self, text: str) -> str:
        """Return a name without comments."""
        return _HIDDEN.sub(lambda found: "" if self._raw[int(found[1])].startswith("<!--") else found[0], text)

    def _resolve(self, text: str, closer: re.Match[str], depth: int) -> tuple[str, int]:
        """Substitute what these braces close, and return where to continue the search."""
        start = text.rfind("{{", 0, closer.start())
        if start < 0:
            return text, closer.end()
        opened = len(text[: start + 2]) - len(text[: start + 2].rstrip("{"))
        count = 3 if min(opened, len(closer[0])) >= 3 else 2
        content = text[start + 2 : closer.start()]
        start, end = start + 2 - count, closer.start() + count
        shown = self._parameter(content, {}) if count == 3 else self._substitute(self._template(content), depth + 1)
        if shown is None:
            return text, end  # shown as it stands
        if count == 2 and shown.startswith(("*", "#", ":", ";", "{|")) and text[:start][-1:] not in ("", "\n"):
            shown = "\n" + shown
        shown = shown.translate(_HIDE) if "{{" in text[:start] else shown
        return text[:start] + shown + text[end:], start + len(shown)

    def _template(self, call: str) -> str:
        name, *parts = _split(call)
        body = self._body(" ".join(self._bare(name).replace("_", " ").split()))
        arguments: dict[str, str] = {}
        count = 0
        for part in parts:
            key, equals, value = self._bare(part).partition("=")
            if equals and not re.search(r"[\[<]", key):
                arguments[key.strip()] = value.strip()
            else:
                count += 1
                arguments[str(count)] = part
        innermost = re.compile(r"\{\{\{([^{}]*)\}\}\}")
        while (match := innermost.search(body)) is not None:
            value = self._parameter(match[1], arguments)
            body = body[: match.start()] + ("" if value is None else value) + body[match.end() :]
        return body

    def _body(self, name: str) -> str:
        body = next((self._articles[title] for title in _titles(name) if title in self._articles), None)
        if body is None:
            raise UnknownTemplateError(name)
        if redirect := _REDIRECT.match(body):
            return self._body(redirect[1].strip())
        body = re.sub(r"<noinclude>.*?</noinclude>|</?includeonly>|<!--.*?-->", "", body, flags=re.S)
        only = re.findall(r"<onlyinclude>(.*?)</onlyinclude>", body, re.S)
        return "".join(only) if only else body

    def _parameter(self, content: str, arguments: Mapping[str, str]) -> str | None:
        name, *default = _split(content)
        name = self._bare(name).strip()
        if name in arguments:
            return arguments[name]
        return default[0] if default else None


def _titles(name: str) -> list[str]:
    if name.startswith(":"):
        return [name[1:].strip()]
    name = name.removeprefix("Template:").removeprefix("template:")
    return [f"Template:{name}", f"Template:{name[:1].upper()}{name[1:]}", f"Template:{name[:1].lower()}{name[1:]}"]


def _split(call: str) -> list[str]:
    """Split at pipes outside of links."""
    parts, depth = [""], 0
    for piece in re.split(r"(\[\[|\]\]|\|)", call):
        depth += (piece == "[[") - (piece == "]]")
        if piece == "|" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts
