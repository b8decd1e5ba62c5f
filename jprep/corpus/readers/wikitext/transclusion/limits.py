"""Limits of what the templates of one page may expand to."""

from __future__ import annotations

MAX_TEMPLATES = 40
"""Templates nested in each other, as in MediaWiki."""

MAX_DEPTH = 100
"""Calls and parameters nested in each other, those of arguments included, as in MediaWiki."""

MAX_SIZE = 2 << 20
"""Characters that all templates of a page expand to, nested ones counted in each template around them."""

MAX_STEPS = 200_000
"""Calls and parameters evaluated for a page. As one count 2 arguments of a call, and 16 characters of an intermediate
result or of a template's page, which counts once on each page that uses it."""


class OverLimitError(Exception):
    """The templates of a page expand to more than the limits allow."""


class Budget:
    """What is left of the limits of a page."""

    def __init__(self) -> None:
        self._size, self._steps = MAX_SIZE, MAX_STEPS

    def step(self, arguments: int = 0) -> None:
        """Count a parameter, or a call with this number of arguments.

        Raises:
            OverLimitError: there were too many.
        """
        self._steps -= 1 + arguments // 2
        if self._steps < 0 or self._size < 0:
            raise OverLimitError

    def handle(self, text: str) -> str:
        """Count the characters of an intermediate result, and return it."""
        self._steps -= len(text) >> 4
        return text

    def parse(self, size: int) -> None:
        """Count the characters of a template's page.

        Raises:
            OverLimitError: there were too many.
        """
        self._steps -= size >> 4
        self.step()

    def expand(self, text: str) -> str:
        """Count the text of a template, and return it.

        Raises:
            OverLimitError: all texts are longer than the limit.
        """
        self._size -= len(text)
        if self._size < 0:
            raise OverLimitError
        return text
