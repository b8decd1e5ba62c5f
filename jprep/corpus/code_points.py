"""Tables with a value for each character, which are applied to whole texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PLANE = 1 << 16


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text, lone surrogates included."""
    import numpy as np

    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


class CodePointTable:
    """A value for each character.

    A plane of Unicode (65,536 characters) is filled when a text has a character of it: nearly all texts need the first.

    Args:
        values: returns an array with the value of each character of a plane.
    """

    def __init__(self, values: Callable[[list[str]], Any]) -> None:
        self._values = values
        self._planes = dict[int, Any]()
        self._joined: Any = None

    def of(self, codes: Any) -> Any:
        """Return the values of some code points (uint32)."""
        if not self._planes:
            self._add_planes({0})
        try:
            return self._planes[0].take(codes)
        except IndexError:  # faster than to look for the highest code point first
            self._add_planes(_planes_of(codes[codes >= _PLANE]))
            return self._joined.take(codes)

    def _add_planes(self, numbers: set[int]) -> None:
        """Fill some planes. Those between them that no text needed so far stay empty."""
        import numpy as np

        if missing := numbers - self._planes.keys():
            for number in missing:
                characters = list(map(chr, range(number * _PLANE, (number + 1) * _PLANE)))
                self._planes[number] = self._values(characters)
            empty = np.zeros_like(next(iter(self._planes.values())))
            self._joined = np.concatenate([self._planes.get(n, empty) for n in range(max(self._planes) + 1)])


def _planes_of(codes: Any) -> set[int]:
    import numpy as np

    return set(np.unique(codes >> np.uint32(16)).tolist())
