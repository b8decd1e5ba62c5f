"""Stages, their tasks, and the receipts of finished tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.io.safe_names import inner_path


class Task(msgspec.Struct, frozen=True):
    """A unit of a stage's work that can run in any process.

    Attributes:
        id: deterministic; ids sort in the order of the work, e.g. `0003-jawiki-000012`.
        payload: the arguments of the work; it is pickled.
        weight: its share of the stage's total, for progress.
        digest: hash of the input inside the payload, so that different input is never taken for the same.
    """

    id: str
    payload: Any
    weight: int = 0
    digest: str = ""


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file, or a part of a file, that a task wrote.

    Attributes:
        path: relative to the stage's root, with forward slashes.
        rows: number of documents, or of other records, in it.
        sha256: hash of its bytes.
        start: first byte of the part; other tasks write other parts of the same file.
        stop: the byte after the part; 0 for the whole file.
    """

    path: str
    rows: int
    sha256: str
    start: int = 0
    stop: int = 0

    def __post_init__(self) -> None:
        """Refuse a path outside the directory: manifests may come from other people."""
        inner_path(self.path)

    @property
    def folder(self) -> str:
        """The name of its directory, which is the kind of file."""
        return self.path.split("/")[-2]


class Receipt(msgspec.Struct, frozen=True):
    """The record of a finished task, written after its outputs.

    Attributes:
        task: the task's id.
        digest: the task's digest.
        fingerprint: the stage's.
        outputs: its files.
        counts: its counts, by dotted name.
        rejects: numbers of rejected documents, by `step/reason`.
    """

    task: str
    digest: str
    fingerprint: str
    outputs: list[Output]
    counts: dict[str, int]
    rejects: dict[str, int]


class Result(msgspec.Struct, frozen=True):
    """The result of a task, from which the engine makes the receipt."""

    outputs: list[Output] = []
    counts: dict[str, int] = {}
    rejects: dict[str, int] = {}


class Stage(ABC):
    """A sequence of steps between two barriers.

    Attributes:
        name: names the stage's directory: lower-case letters, `-` and `_`.
        title: what a user is shown while it runs; "" for its name.
    """

    name: str
    title = ""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Return everything that the output depends on, as plain data; the fingerprint is its hash."""

    @abstractmethod
    def tasks(self) -> Iterator[Task]:
        """Yield the tasks lazily, the same ones in the same order each time; ids give the order of their outputs."""

    @abstractmethod
    def run(self, task: Task, root: Path) -> Result:
        """Do one task, in any process: read files, write files below `root` atomically, return the result."""

    def total(self) -> int:
        """Return the sum of the tasks' weights, or 0 where it is not known in advance."""
        return 0

    def consumes(self, task: Task) -> Iterable[tuple[Output, Sequence[str]]]:
        """Yield the intermediate files that a task reads, each with the ids of all tasks that read it.

        Once all of them are finished, nobody needs the file, and it is deleted.
        """
        return ()

    def close(self) -> None:  # noqa: B027 - most stages open nothing
        """Close what `run` has opened in this process."""
