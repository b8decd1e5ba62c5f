"""`evaluations/` in a run directory: the figures of its checkpoints on rows that were measured after the training."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.fingerprint import fingerprint
from jprep.io.atomic import remove_file, write_atomic
from jprep.train.job.config import Job
from jprep.train.run.directory import EVALUATIONS, checkpoints_of

_log = logging.getLogger(__name__)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a checkpoint on some rows.

    Attributes:
        job: the fingerprint of the run's job.
        step: the step of the checkpoint.
        checkpoint: the seal of the checkpoint's `COMMIT.json`; of initial weights possibly the SHA-256 of their file.
        initial: whether these are the weights that the training began with.
        columns: the keys of `train.labelled` that have other values than in the training, e.g. `label`.
        backend, precision: what measured it.
        name: the name of the dataset, or the names of the files.
        data: the paths of the dataset or of the files.
        split: the split of the dataset; `held-out rows` for the files that the run was validated on, `fold 0 of 5` for
            the fold that it held out, "" for other files.
        source: the source of the dataset that was measured; "" for all.
        made_from: the fingerprint of the dataset, or the SHA-256 of each file.
        rows: number of rows.
        figures: the loss, and other metrics by name; None if a metric is not finite.
        counts: of conversations and labelled rows: how many were read, cut and left out.
        seen: whether the run was trained on these rows.
    """

    job: str
    step: int
    checkpoint: str
    backend: str
    precision: str
    name: str
    data: list[str]
    split: str
    made_from: list[str]
    rows: int
    figures: dict[str, float | None]
    counts: dict[str, int] = {}
    seen: bool = False
    initial: bool = False
    columns: dict[str, str | bool | list[str]] = {}
    source: str = ""

    @property
    def title(self) -> str:
        """What was measured, without paths: `test of jawiki`, or names of files."""
        return self._titled(self.name)

    @property
    def place(self) -> str:
        """What was measured, with paths."""
        return self._titled(", ".join(map(_shown, self.data)))

    def _titled(self, data: str) -> str:
        columns = ", ".join(f"{key} {value}" for key, value in self.columns.items() if key in ("text", "pair", "label"))
        details = columns or (f"source {self.source}" if self.source else "")
        data = f"{data} ({details})" if details else data
        return f"{self.split} of {data}" if self.split else data

    @property
    def subject(self) -> str:
        """A hash of the rows that were measured."""
        details = {key: value for key in ("columns", "source") if (value := getattr(self, key))}
        return fingerprint({"split": self.split, "made_from": sorted(self.made_from), **details})[:12]


def add_evaluation(run: Path, found: Evaluation) -> Path:
    """Record an evaluation. Return its file.

    It replaces earlier ones of the same checkpoint on the same rows, and on what was in the same files or dataset.

    Raises:
        MachineError: it cannot be written.
    """
    path = run / EVALUATIONS / f"step-{found.step:08d}-{found.subject}.json"
    write_atomic(path, encode_checksummed(found, indent=1))
    for other in path.parent.glob(f"step-{found.step:08d}-*.json"):
        earlier = _read(other) if other != path else None
        if earlier and all(
            getattr(earlier, key) == getattr(found, key) for key in ("split", "data", "columns", "source")
        ):
            remove_file(other)
    return path


def read_evaluations(run: Path, job: Job) -> list[Evaluation]:
    """Return what was measured with checkpoints of a run, by step.

    Figures of other jobs that the directory had, and of checkpoints that were computed again with other weights, are
    left out; and so are damaged files, with a warning.
    """
    found = [one for path in sorted((run / EVALUATIONS).glob("step-*.json")) if (one := _read(path))]
    seals = {each.step: each.commit.seal for each in checkpoints_of(run, job).committed()} if found else {}
    return [
        one
        for one in found
        if one.job in (job.fingerprint, *job.earlier) and seals.get(one.step, one.checkpoint) == one.checkpoint
    ]


def titles(found: Sequence[Evaluation]) -> list[str]:
    """Return the title of each evaluation; of several with the same one, with the beginning of a hash."""
    data = {one.title: set[str]() for one in found}
    for one in found:
        data[one.title].add(_hash_of(one))
    return [f"{one.title} ({_hash_of(one)})" if len(data[one.title]) > 1 else one.title for one in found]


def _hash_of(one: Evaluation) -> str:
    """Return a short hash of the measured data."""
    return one.made_from[0][:8] if len(one.made_from) == 1 else fingerprint({"data": sorted(one.made_from)})[:8]


def _shown(path: str) -> str:
    """Return a path relative to the working directory if it is below it."""
    here = Path.cwd()
    return os.path.relpath(path) if here != Path(here.anchor) and Path(path).is_relative_to(here) else path


def _read(path: Path) -> Evaluation | None:
    """Return the evaluation of a file; None, with a warning, if it cannot be read."""
    try:
        return decode_checksummed(path.read_bytes(), Evaluation)
    except (OSError, ValueError) as error:
        _log.warning("the figures of an evaluation are left out: %s: %s", path, error)
        return None
