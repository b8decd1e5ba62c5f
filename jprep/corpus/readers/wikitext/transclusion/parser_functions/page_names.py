"""Variables that show the name of a page, such as `{{PAGENAME}}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

_ESCAPED = {"'": "&#39;", '"': "&#34;", "&": "&#38;"}
_LINE_MARKUP = "*#:;="
_STANDARD = {
    "talk": 1, "user": 2, "user talk": 3, "project": 4, "wikipedia": 4, "project talk": 5, "file": 6, "image": 6,
    "file talk": 7, "mediawiki": 8, "mediawiki talk": 9, "template": 10, "テンプレート": 10,
    "template talk": 11, "help": 12,
    "help talk": 13, "category": 14, "category talk": 15, "portal": 100, "media": -2, "special": -1,
}  # fmt: skip
"""Namespace numbers by the names that all wikis know, in lower case."""


def all_namespaces(namespaces: Mapping[str, int]) -> dict[str, int]:
    """Return the namespace numbers of a wiki by lower-case name, with the names that all wikis know."""
    return {**_STANDARD, **namespaces}


class PageNames:
    """Names of a page and of its parts.

    Args:
        title: title of the page with its namespace.
        namespaces: namespace numbers by lower-case name; see `all_namespaces`.
        time: time of its revision, if it is known.
    """

    def __init__(self, title: str, namespaces: dict[str, int], time: datetime | None = None) -> None:
        self._numbers, self.time = namespaces, time
        self.namespace, self.name = self._split(title)

    def show(self, variable: str, title: str | None = None) -> str | None:
        """Return what a variable shows, for another page if there is a title; None for other variables."""
        namespace, name = (self.namespace, self.name) if title is None else self._split(title.strip())
        full = f"{namespace}:{name}" if namespace else name
        base, slash, sub = name.rpartition("/")
        match variable:
            case "PAGENAME":
                return _escape(name)
            case "FULLPAGENAME" | "SUBJECTPAGENAME" | "ARTICLEPAGENAME":
                return _escape(full)
            case "BASEPAGENAME":
                return _escape(base if slash else name)
            case "SUBPAGENAME":
                return _escape(sub)
            case "ROOTPAGENAME":
                return _escape(name.partition("/")[0])
            case "NAMESPACE" | "SUBJECTSPACE" | "ARTICLESPACE":
                return namespace
            case "NAMESPACENUMBER":
                return str(self._numbers.get(namespace.lower(), 0) if namespace else 0)
        return None

    def namespace_name(self, number: str) -> str:
        """Return the name of a namespace given by number or name; that of the page as its title spells it."""
        wanted = int(number) if re.fullmatch(r"-?\d{1,5}", number, re.A) else self._numbers.get(number.lower(), 0)
        if self.namespace and self._numbers[self.namespace.lower()] == wanted:
            return self.namespace
        return next((name.capitalize() for name, each in reversed(self._numbers.items()) if each == wanted), "")

    def _split(self, title: str) -> tuple[str, str]:
        prefix, colon, name = title.replace("_", " ").partition(":")
        if colon and prefix.strip().lower() in self._numbers:
            return prefix.strip(), name.strip()
        return "", title.replace("_", " ").lstrip(":")


def _escape(name: str) -> str:
    """Return a name whose signs are not markup; MediaWiki escapes them too."""
    text = "".join(_ESCAPED.get(sign, sign) for sign in name)
    return f"&#{ord(text[0])};{text[1:]}" if text[:1] and text[0] in _LINE_MARKUP else text
