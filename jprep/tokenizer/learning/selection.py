"""Select pieces by rank, without those that cross word boundaries and those that no text gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from jprep.tokenizer.learning.boundary_crossing import BoundarySample

_ROUNDS = 2  # dropping pieces changes the uses of others; a third round finds almost nothing

Reach = Callable[[Sequence[str], int], tuple[list[str], int]]
"""Returns the first `needed` reachable pieces by rank, and the number of unreachable ones before the last of them."""


class Selection(msgspec.Struct, frozen=True):
    """Selected pieces by rank.

    Attributes:
        pieces: as many as needed, or as many as there are.
        crossing: number of pieces dropped because they cross word boundaries.
        unreachable: number of pieces dropped because no text gives them.
    """

    pieces: list[str]
    crossing: int = 0
    unreachable: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of dropped pieces by dotted name."""
        return {"pieces.crossing.dropped": self.crossing, "pieces.unreachable.dropped": self.unreachable}


def learn_fitting(
    learn: Callable[[int], list[str]], fitting: Callable[[Sequence[str]], list[str]], wanted: int
) -> list[str]:
    """Learn pieces of which only some fit.

    Args:
        learn: returns that many pieces by rank, or all that can be learnt; the first ones are always the same.
        fitting: returns those that fit.
        wanted: number of fitting pieces to return, if there are so many.
    """
    asked = wanted + wanted // 8
    while True:
        learnt = learn(asked)
        found = fitting(learnt)
        if len(found) >= wanted or len(learnt) < asked:
            return found[:wanted]
        asked += 4 * (wanted - len(found))


def select(learn: Callable[[int], list[str]], needed: int, reach: Reach, sample: BoundarySample | None) -> Selection:
    """Select pieces.

    Args:
        learn: returns that many pieces by rank, or all that can be learnt; the first ones are always the same.
        needed: number of pieces to select.
        reach: drops unreachable pieces.
        sample: sample to judge crossing by, or None.

    Returns:
        A selection of fewer than `needed` pieces if no more can be learnt; with `needed` set to its size it would be
        complete.
    """
    wanted = needed + needed // 16 + 16
    while True:
        candidates = learn(wanted)
        chosen = _select_once(candidates, needed, reach, sample)
        if len(chosen.pieces) == needed:
            return chosen
        if len(candidates) < wanted:
            return _largest_complete(candidates, chosen, reach, sample)
        wanted += wanted // 4


def _largest_complete(
    candidates: list[str], chosen: Selection, reach: Reach, sample: BoundarySample | None
) -> Selection:
    while True:
        less = _select_once(candidates, len(chosen.pieces), reach, sample)
        if len(less.pieces) == len(chosen.pieces):
            return less
        chosen = less


def _select_once(candidates: list[str], needed: int, reach: Reach, sample: BoundarySample | None) -> Selection:
    crossing, chosen = set[str](), candidates
    for _ in range(_ROUNDS if sample else 0):
        assert sample is not None
        crossing |= sample.crossing(chosen)
        chosen = [piece for piece in candidates if piece not in crossing][:needed]
    reached, unreachable = reach([piece for piece in candidates if piece not in crossing], needed)
    return Selection(reached, len(crossing), unreachable)
