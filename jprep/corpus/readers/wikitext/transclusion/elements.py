"""Elements whose content is not markup of templates: comments, references, literals."""

from __future__ import annotations

import re
from functools import cache

LITERALS = (
    "nowiki", "pre", "syntaxhighlight", "source", "math", "chem", "ce", "score", "timeline", "hiero", "graph",
    "templatedata", "templatestyles", "mapframe", "maplink", "imagemap", "gallery", "categorytree", "inputbox",
)  # fmt: skip
"""Elements that are copied as they are."""


class ElementEnds:
    """Finds the ends of elements in one text. A missing closing tag is searched only once per kind.

    Args:
        text: the text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()

    def find(self, name: str, start: int) -> int:
        """Return the offset after the closing tag of an element, or after the text if it is never closed.

        Args:
            name: name of the element in lower case; `!--` is a comment.
            start: offset after the opening tag.
        """
        match = None if name in self._missing else _closer(name).search(self._text, start)
        if match is None:
            self._missing.add(name)
            return len(self._text)
        return match.end()

    def closed(self, name: str, start: int) -> int:
        """Return the offset after the closing tag of an element, or `start` if it is never closed."""
        end = self.find(name, start)
        return start if name in self._missing else end


@cache
def _closer(name: str) -> re.Pattern[str]:
    return re.compile("-->" if name == "!--" else rf"</{name}\s*>", re.I)
