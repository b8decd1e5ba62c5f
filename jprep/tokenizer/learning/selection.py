"""Chooses among the pieces that BPE learnt, by rank, leaving out what crosses words and what nothing leads to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from jprep.tokenizer.learning.boundary_crossing import BoundarySample

_ROUNDS = 2  # what is left out changes how the rest is used; a third round finds next to nothing

Reach = Callable[[Sequence[str], int], tuple[list[str], int]]
"""Of pieces by rank the first so many that something leads to, and how many were left out before the last of them."""


class Selection(msgspec.Struct, frozen=True):
    """The pieces that were chosen, by rank.

    Attributes:
        pieces: as many as were needed, or all that there are.
        crossing: how many were left out because they cross words.
        unreachable: how many because nothing leads to them.
    """

    pieces: list[str]
    crossing: int = 0
    unreachable: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """What was left out, by dotted name."""
        return {"pieces.crossing.dropped": self.crossing, "pieces.unreachable.dropped": self.unreachable}


def select(
    learn: Callable[[int], list[str]], needed: int, reach: Reach, sample: BoundarySample | None, share: float
) -> Selection:
    """Choose pieces.

    Args:
        learn: gives so many pieces by rank, or all that can be learnt; the first ones are always the same.
        needed: how many to choose.
        reach: leaves out what nothing leads to.
        sample: what crossing is judged by, or None.
        share: a piece that crosses in more than this share of its uses is left out.

    Returns:
        a selection of fewer than `needed` where no more can be learnt; asked for as many, it would be whole.
    """
    wanted = needed + needed // 16 + 16
    while True:
        candidates = learn(wanted)
        chosen = _choose(candidates, needed, reach, sample, share)
        if len(chosen.pieces) == needed:
            return chosen
        if len(candidates) < wanted:
            return _whole(candidates, chosen, reach, sample, share)
        wanted += wanted // 4


def _whole(
    candidates: list[str], chosen: Selection, reach: Reach, sample: BoundarySample | None, share: float
) -> Selection:
    while True:
        less = _choose(candidates, len(chosen.pieces), reach, sample, share)
        if len(less.pieces) == len(chosen.pieces):
            return less
        chosen = less


def _choose(candidates: list[str], needed: int, reach: Reach, sample: BoundarySample | None, share: float) -> Selection:
    crossing, chosen = set[str](), candidates
    for _ in range(_ROUNDS if sample else 0):
        assert sample is not None
        crossing |= sample.crossing(chosen, share)
        chosen = [piece for piece in candidates if piece not in crossing][:needed]
    reached, unreachable = reach([piece for piece in candidates if piece not in crossing], needed)
    return Selection(reached, len(crossing), unreachable)
