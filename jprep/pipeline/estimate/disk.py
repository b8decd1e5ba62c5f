"""The disk that a recipe's steps take over their course, and what stages delete when it is no longer needed."""

from __future__ import annotations

from typing import Literal, NamedTuple

from jprep.corpus.dedup.hashes import BAND_KEYS, HASHES, RANKS
from jprep.corpus.store import DOCUMENTS, REJECTS
from jprep.pipeline.estimate.loads.task_loads import StageLoad
from jprep.tokenizer.counting.stages import RUNS, SAMPLES

_WITH = "with"

KEPT: set[tuple[str, str]] = {
    ("words", DOCUMENTS),
    ("words", REJECTS),
    ("documents", REJECTS),
    ("scoring", "result"),
}
"""Files of finished outputs, by the stage and the folder; those of the stage `committing` too."""

CONSUMED: dict[tuple[str, str], tuple[Literal["with", "after"], str]] = {
    ("inputs", "data"): ("with", "documents"),
    ("documents", DOCUMENTS): ("with", "words"),
    ("documents", HASHES): ("after", "dedup"),
    ("documents", BAND_KEYS): ("after", "near-pairs"),
    ("documents", RANKS): ("after", "near-clusters"),
    ("near-pairs", "pairs"): ("after", "near-clusters"),
    ("counting", RUNS): ("after", "summing"),
    ("counting", SAMPLES): ("after", "merging"),
    ("summing", "*"): ("after", "merging"),
    ("sequence-counting", RUNS): ("after", "sequence-summing"),
    ("sequence-summing", "*"): ("after", "sequence-merging"),
    ("encoding", "*"): ("with", "joining"),
    ("joining", "*"): ("with", "committing"),
}
"""Files that are deleted before the output is finished: with each task of a stage, or after all of them."""


class StageDisk(NamedTuple):
    """The bytes on the disk around a stage.

    Attributes:
        before: when it begins.
        most: the most while it runs.
        after: when it is finished and what it has consumed is deleted.
    """

    before: float
    most: float
    after: float


def follow_disk(loads: list[StageLoad], consumed: bool = True) -> list[StageDisk]:
    """Return the bytes on the disk around each stage, without inputs.

    Files that nothing consumes earlier are deleted when their step is finished.

    Args:
        loads: the stages of all steps, in order.
        consumed: whether stages delete what they consume; if not, everything is deleted at the end of the step.
    """
    living: dict[tuple[str, str], float] = {}
    names = [load.name for load in loads]
    found = list[StageDisk]()
    for number, load in enumerate(loads):
        before = sum(living.values())
        new = {(load.name, folder): size for folder, size in load.folders.items()}
        living |= new
        going = [key for key in living if consumed and _consumer(key) in (("with", load.name), ("after", load.name))]
        at_once = sum(living[key] for key in going if _consumer(key)[0] == _WITH)
        most = max(before, sum(living.values()) - at_once)
        for key in going:
            del living[key]
        if number + 1 == len(loads) or loads[number + 1].step != load.step:
            living = {key: size for key, size in living.items() if _is_kept(key, names)}
        found.append(StageDisk(before, most, sum(living.values())))
    return found


def _consumer(key: tuple[str, str]) -> tuple[str, str]:
    return CONSUMED.get(key) or CONSUMED.get((key[0], "*")) or ("", "")


def _is_kept(key: tuple[str, str], stages: list[str]) -> bool:
    """Return whether files belong to a finished output; without deduplication, what is read is the corpus."""
    return key in KEPT or key[0] == "committing" or (key == ("documents", DOCUMENTS) and "words" not in stages)
