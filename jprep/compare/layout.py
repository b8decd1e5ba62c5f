"""Files of a comparison's output directory."""

from __future__ import annotations

from pathlib import Path

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import COMPARISON

HELD_OUT = "heldout.jsonl"
"""The held-out texts, an object with `id`, `source`, `title` and `text` per line."""

WORK = "work"
"""The folder of corpora, tokenizers, datasets and runs, by fingerprint. A finished comparison does not need it."""

PLAN = "plan.json"
"""The plan, in the folder of unfinished work: a resumed comparison does not plan again."""


def comparison_directory(folder: Path) -> OutputDirectory:
    """Return the output directory of a comparison, with the patterns of its files."""
    return OutputDirectory(folder, COMPARISON, files=(HELD_OUT, "scores/*.json", "report.html"))


def scores_path(number: int, seed: int) -> str:
    """Return the file of a model's scores, relative to the output directory.

    Args:
        number: the index of the arm, from 0.
        seed: the seed.
    """
    return f"scores/{number:02d}-{seed:04d}.json"
