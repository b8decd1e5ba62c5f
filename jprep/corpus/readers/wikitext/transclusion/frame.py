"""The arguments of a template while its page is expanded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jprep.corpus.readers.wikitext.transclusion.syntax import Argument, Nodes

Evaluate = Callable[[Nodes, "Frame"], str]
"""Returns the text of nodes within a frame."""


class Frame:
    """One expansion of a template. Arguments are evaluated when they are first used, in the frame of the call.

    Args:
        evaluate: evaluates nodes.
        parent: the frame of the call; None for the page itself.
        name: name of the template.
        arguments: arguments of the call.
    """

    def __init__(
        self, evaluate: Evaluate, parent: Frame | None = None, name: str = "", arguments: Sequence[Argument] = ()
    ) -> None:
        self._evaluate, self._parent = evaluate, parent
        self.active: frozenset[str] = parent.active | {name} if parent else frozenset()
        self._values: dict[str, str] = {}
        self._nodes: dict[str, tuple[Nodes, bool]] = {}
        count = 0
        for key, value in arguments:
            if key is None:
                count += 1
                self._nodes[str(count)] = value, False
            elif parent:
                self._nodes[evaluate(key, parent).strip()] = value, True

    def argument(self, name: str) -> str | None:
        """Return the value of an argument, or None. Space around it is removed if the call names it."""
        if name in self._values:
            return self._values[name]
        if self._parent is None or (found := self._nodes.get(name)) is None:
            return None
        nodes, named = found
        text = self._evaluate(nodes, self._parent)
        value = self._values[name] = text.strip() if named else text
        return value
