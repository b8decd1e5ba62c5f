"""Runs a stage: skips what is committed, refuses what belongs to other work, commits the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from jprep.engine.differing import described
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.errors import MismatchError
from jprep.io.atomic import write_atomic
from jprep.testing.failpoints import failpoint


class Progress(Protocol):
    """Watches a run."""

    def begin(self, stage: str, total: int) -> None:
        """A stage begins; `total` is the sum of its tasks' weights, or 0."""

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """A task is committed; not `fresh` if an earlier run had done it."""


class Executor(Protocol):
    """Runs tasks somewhere."""

    def map(self, job: Job, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run `job(task)` for each task, in any order; yield each receipt as it is committed."""

    def close(self) -> None:
        """Let go of what was kept between two calls of `map`."""


class Job(msgspec.Struct, frozen=True):
    """A stage bound to its directory: called with a task, in any process, it commits the task and its receipt."""

    stage: Any
    root: Path
    receipts: Path
    fingerprint: str

    def __call__(self, task: Task) -> Receipt:
        """Run one task and commit it."""
        result: Result = self.stage.run(task, self.root)
        receipt = Receipt(
            task.id, task.digest, self.fingerprint, result.outputs, _sorted(result.counts), _sorted(result.rejects)
        )
        write_atomic(self.receipts / f"{task.id}.json", msgspec.json.encode(receipt))
        failpoint("receipt.written")
        return receipt

    def done(self, task: Task) -> Receipt | None:
        """The task's receipt, if it is committed and its outputs stand.

        Raises:
            MismatchError: a receipt stands for other input.
        """
        try:
            receipt = msgspec.json.decode((self.receipts / f"{task.id}.json").read_bytes(), type=Receipt)
        except FileNotFoundError:
            return None
        if receipt.digest != task.digest:
            raise MismatchError("the input is not what it was", where=task.id, fix=_OTHER_PLACE)
        return receipt if all((self.root / output.path).exists() for output in receipt.outputs) else None


_OTHER_PLACE = "give the first command's inputs and options again, or another -o, or --restart to replace this work"


def run_stage(stage: Stage, root: Path, state: Path, executor: Executor, progress: Progress) -> list[Receipt]:
    """Bring a stage to its end.

    Args:
        stage: the stage.
        root: where its outputs' paths begin.
        state: the folder that holds its manifest and receipts.
        executor: where its tasks run.
        progress: is told of each task.

    Returns:
        every task's receipt, in the tasks' order.

    Raises:
        MismatchError: `state` holds other work.
        JprepError: a task failed; what was committed stays.
    """
    job = Job(stage, root, state / "receipts", _claim(stage, state))
    failpoint("stage.begun")
    progress.begin(stage.name, stage.total())
    receipts: dict[str, Receipt] = {}

    def missing() -> Iterator[Task]:
        for task in stage.tasks():
            if receipt := job.done(task):
                receipts[task.id] = receipt
                progress.advance(task.weight, receipt, fresh=False)
            else:
                yield task

    try:
        for task, receipt in executor.map(job, missing()):
            receipts[task.id] = receipt
            progress.advance(task.weight, receipt, fresh=True)
    finally:
        stage.close()
    failpoint("stage.done")
    return [receipts[name] for name in sorted(receipts)]


def _claim(stage: Stage, state: Path) -> str:
    """Write the stage's manifest, or see that the one that stands is ours."""
    ours, path = plain(stage.fields()), state / "stage.json"
    if path.exists():
        refuse_other(ours, msgspec.json.decode(path.read_bytes()), state)
    else:
        write_atomic(path, msgspec.json.encode(ours))
    return fingerprint(ours)


def refuse_other(ours: dict[str, Any], theirs: dict[str, Any], where: Path, fix: str = _OTHER_PLACE) -> None:
    """Raise MismatchError if the two sets of fields differ, naming the fields."""
    if found := described(ours, theirs):
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise MismatchError(f"this folder holds other work: {'; '.join(found[:3])}{more}", where=str(where), fix=fix)


def add_up(parts: list[dict[str, int]]) -> dict[str, int]:
    """The sum of many counts, sorted by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return _sorted(total)


def outputs_of(receipts: list[Receipt]) -> list[Output]:
    """All outputs, in the tasks' order."""
    return [output for receipt in receipts for output in receipt.outputs]


def _sorted(counts: dict[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts) if counts[name]}
