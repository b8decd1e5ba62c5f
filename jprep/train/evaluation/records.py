"""`evaluations/` in a run directory: the figures of its checkpoints on rows that were measured after the training."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic
from jprep.train.job.config import Job
from jprep.train.run.directory import EVALUATIONS


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a checkpoint on some rows.

    Attributes:
        job: the fingerprint of the run's job.
        step: the checkpoint.
        backend: the backend that measured it.
        name: the name of the dataset, or the names of the files.
        data: the paths of the dataset or of the files.
        split: the split of the dataset; `held out` for the run's own validation rows, "" for other rows.
        made_from: the fingerprint of the dataset, or the SHA-256 of each file.
        rows: number of rows.
        figures: the loss, and other metrics by name; None if a metric is not finite.
        seen: whether the run was trained on these rows.
    """

    job: str
    step: int
    backend: str
    name: str
    data: list[str]
    split: str
    made_from: list[str]
    rows: int
    figures: dict[str, float | None]
    seen: bool = False

    @property
    def title(self) -> str:
        """What was measured, without paths: `test of jawiki`, or names of files."""
        return self._titled(self.name)

    @property
    def place(self) -> str:
        """What was measured, with paths."""
        return self._titled(", ".join(map(_shown, self.data)))

    def _titled(self, data: str) -> str:
        return f"{self.split} of {data}" if self.split else data


def add_evaluation(run: Path, found: Evaluation) -> Path:
    """Record an evaluation; it replaces an earlier one of the same checkpoint on the same rows. Return its file.

    Raises:
        MachineError: it cannot be written.
    """
    subject = fingerprint({"split": found.split, "made_from": found.made_from})
    path = run / EVALUATIONS / f"step-{found.step:08d}-{subject[:12]}.json"
    write_atomic(path, encode_checksummed(found, indent=1))
    return path


def read_evaluations(run: Path, job: Job) -> list[Evaluation]:
    """Return what was measured with checkpoints of a run, by step.

    Args:
        run: the run directory.
        job: its job; figures of other jobs that the directory had are left out.

    Raises:
        ConfigError: a file is damaged or cannot be read.
    """
    found = (_read(path) for path in sorted((run / EVALUATIONS).glob("step-*.json")))
    return [one for one in found if one.job in (job.fingerprint, *job.earlier)]


def _shown(path: str) -> str:
    """Return a path relative to the working directory if it is below it."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path


def _read(path: Path) -> Evaluation:
    try:
        return decode_checksummed(path.read_bytes(), Evaluation)
    except (OSError, ValueError) as error:
        fix = "delete this file; `jprep evaluate` measures again"
        raise ConfigError(f"the figures of an evaluation cannot be read: {error}", where=str(path), fix=fix) from error
