"""Find held-out texts and items of tasks that stand in a training text of any arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jprep.compare.data.overlap import Overlap, OverlapFinder
from jprep.compare.data.preparation import Preparation
from jprep.compare.tasks.task_files import Task
from jprep.corpus.api import Corpus
from jprep.errors import InputError

_NECESSARY = 2


class LeftOut(NamedTuple):
    """Why items are not part of the score.

    Attributes:
        texts: for each held-out text the reason, or "".
        tasks: the same for each item of each task.
    """

    texts: list[str]
    tasks: list[list[str]]

    @property
    def scored(self) -> list[int]:
        """Return the indexes of the held-out texts that are scored."""
        return kept(self.texts)


def kept(reasons: Sequence[str]) -> list[int]:
    """Return the indexes of the items without a reason to leave them out."""
    return [number for number, reason in enumerate(reasons) if not reason]


def find_left_out(ready: Preparation, tasks: Sequence[Task]) -> LeftOut:
    """Look for all items in the corpora of all arms: what one arm has seen is left out for each of them.

    Args:
        ready: the data of the comparison.
        tasks: the tasks.

    Raises:
        InputError: fewer than two held-out texts are left.
    """
    items = [(item.text,) for item in ready.held_out] + [item.compared for task in tasks for item in task.items]
    finder = OverlapFinder(items)
    for folder in dict.fromkeys(ready.data[number].corpus for number in ready.distinct):
        finder.read_corpus(Corpus(folder))
    reasons = iter([_reason(overlap) for overlap in finder.overlaps()])
    found = LeftOut([next(reasons) for _ in ready.held_out], [[next(reasons) for _ in task.items] for task in tasks])
    if len(found.scored) < _NECESSARY:
        fix = "give held-out texts of your own (--heldout FILE), or deduplicate the sources"
        raise InputError("nearly all held-out texts also occur in the training texts", fix=fix)
    return found


def _reason(overlap: Overlap) -> str:
    return f"{overlap.share:.0%} of it stands in {overlap.where}" if overlap.found else ""
