"""Stages, tasks and receipts: what is to be done, and the proof that it was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jprep.io.safe_names import inner_path


class Task(msgspec.Struct, frozen=True):
    """A piece of a stage's work that runs anywhere, alone.

    Attributes:
        id: deterministic, and sorts in the order of the work, e.g. `0003-jawiki-000012`.
        payload: what `Stage.run` needs; it is pickled.
        weight: its share of the stage's total weight, for progress.
        digest: hash of input that travels inside the payload, so that other input is never taken for the same.
    """

    id: str
    payload: Any
    weight: int = 0
    digest: str = ""


class Output(msgspec.Struct, frozen=True):
    """A file that a task committed.

    Attributes:
        path: relative to the stage's root, with forward slashes.
        rows: documents, or whatever the file holds, in it.
        sha256: of its bytes.
    """

    path: str
    rows: int
    sha256: str

    def __post_init__(self) -> None:
        """Refuse a path that leads out of the folder: manifests come from others."""
        inner_path(self.path)

    @property
    def folder(self) -> str:
        """The name of the folder that it lies in: what kind of file it is."""
        return self.path.split("/")[-2]


class Receipt(msgspec.Struct, frozen=True):
    """The proof that a task is done, committed after its outputs.

    Attributes:
        task: the task's id.
        digest: the task's digest.
        fingerprint: the stage's.
        outputs: its files.
        counts: what it counted, by dotted name.
        rejects: how many documents were rejected, by `step/reason`.
    """

    task: str
    digest: str
    fingerprint: str
    outputs: list[Output]
    counts: dict[str, int]
    rejects: dict[str, int]


class Result(msgspec.Struct, frozen=True):
    """What a task hands back; the engine makes the receipt."""

    outputs: list[Output] = []
    counts: dict[str, int] = {}
    rejects: dict[str, int] = {}


class Stage(ABC):
    """A run of steps between two barriers.

    Attributes:
        name: names the stage's folder, so letters and dashes only.
    """

    name: str

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """All that the output depends on, as plain data: the fingerprint is its hash."""

    @abstractmethod
    def tasks(self) -> Iterator[Task]:
        """The stage's tasks, in order; made lazily, the same ones each time."""

    @abstractmethod
    def run(self, task: Task, root: Path) -> Result:
        """Do one task, in any process: read files, commit files under `root` atomically, say what was done."""

    def total(self) -> int:
        """The sum of the tasks' weights, or 0 where it is not known beforehand."""
        return 0

    def close(self) -> None:  # noqa: B027 - most stages hold nothing
        """Release what `run` left open in this process."""
