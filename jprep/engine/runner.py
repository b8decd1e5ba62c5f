"""Run a stage: skip finished tasks, refuse unfinished work that was made from something else, do the rest."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.consumed import OutputChecks, consume_files, read_receipt
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.mismatch import describe_mismatch
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.engine.usage import run_measured, stage_usage
from jprep.errors import MismatchError
from jprep.io.atomic import write_atomic
from jprep.io.failpoints import failpoint
from jprep.io.shared.ownership import OwnershipFile, adopted, ownership_files
from jprep.io.verified_files import read_if_exists

_log = logging.getLogger(__name__)

STAGE_JSON = "stage.json"
"""The file in the folder of a stage that says what the stage is made from."""

RECEIPTS = "receipts"
"""The folder of receipts, in the folder of a stage."""

DRIVER = "driver"
"""Begins the name of a temporary file in the folder of a stage. A command whose workers do not inherit its lock writes
it, and its workers commit nothing without it."""
_OTHER_PLACE = "repeat the first command's inputs and options, or give another -o, or --restart to replace this work"


class ProgressReporter(Protocol):
    """Receives the progress of a run."""

    def begin(self, stage: str, total: int) -> None:
        """A stage of this title begins; `total` is the sum of its tasks' weights, or 0 if unknown."""

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """A task is finished; `fresh` is False if an earlier run finished it."""


class SilentProgress:
    """A progress reporter that does nothing."""

    def begin(self, stage: str, total: int) -> None:
        """Ignore the beginning of a stage."""

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """Ignore a finished task."""


class Executor(Protocol):
    """Runs tasks in some processes. `jprep.engine.executors.protocols` has further methods that it may have."""

    def map(self, runner: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run `runner(task)` for each task, in any order; yield each receipt as its task finishes."""

    def close(self) -> None:
        """Release what is kept between calls of `map`."""


class TaskRunner(msgspec.Struct, frozen=True):
    """A stage bound to its directory. Called with a task, in any process, it runs the task and writes its receipt.

    Attributes:
        stage: the stage.
        root: the directory that its outputs' paths are relative to.
        receipts: the directory of the receipts.
        fingerprint: that of the stage.
        checks: what is known about outputs of other tasks.
        held: what the process that made it holds in shared directories; checked before each commit.
    """

    stage: Any
    root: Path
    receipts: Path
    fingerprint: str
    checks: OutputChecks = msgspec.field(default_factory=OutputChecks)
    held: tuple[OwnershipFile, ...] = ()

    def __call__(self, task: Task) -> Receipt:
        """Run one task, write its receipt, and delete what it has consumed."""
        with adopted(self.held):
            return run_measured(task.id, lambda: self._run(task), self.root, self.receipts)

    def _run(self, task: Task) -> Receipt:
        try:
            result: Result = self.stage.run(task, self.root)
        except Exception:
            # On a cluster a task may run twice at once: whoever is first deletes what the other one reads.
            if receipt := self.done(task):
                return receipt
            raise
        receipt = Receipt(
            task.id, task.digest, self.fingerprint, result.outputs, _sorted(result.counts), _sorted(result.rejects)
        )
        write_atomic(self._receipt(task.id), encode_checksummed(receipt))
        failpoint("receipt.written")
        self._consume(task)
        return receipt

    def _receipt(self, task: str) -> Path:
        return self.receipts / f"{task}.json"

    def _consume(self, task: Task) -> None:
        """Delete the files that nobody needs after this task."""
        for file, tasks in self.stage.consumes(task):
            readers = [self._receipt(each) for each in tasks]
            if all(path.exists() for path in readers):
                consume_files(self.root, [file], readers)

    def done(self, task: Task) -> Receipt | None:
        """Return the task's receipt, if it is finished and its outputs are undamaged or no longer needed.

        For a damaged receipt or output a warning is logged, the receipt is deleted, and the task is repeated.

        Raises:
            MismatchError: the receipt is for different input or different work.
            MachineError: the receipt or an output cannot be read.
        """
        path = self._receipt(task.id)
        if (receipt := read_receipt(path)) is None:
            return None
        if (receipt.digest, receipt.fingerprint) != (task.digest, self.fingerprint):
            raise _other_work("the input has changed", task.id)
        if not self.checks.keep_if_intact(self.root, path, receipt):
            return None
        self._consume(task)  # a killed run may have left them
        return receipt


def run_stage(stage: Stage, root: Path, state: Path, executor: Executor, progress: ProgressReporter) -> list[Receipt]:
    """Run a stage to its end.

    Args:
        stage: the stage.
        root: the directory that its outputs' paths are relative to.
        state: the directory of its manifest and receipts.
        executor: where its tasks run.
        progress: receives the progress.

    Returns:
        the receipts of all tasks, in order.

    Raises:
        MismatchError: `state` has different work.
        JprepError: a task failed; finished tasks are kept.
    """
    runner = TaskRunner(stage, root, state / RECEIPTS, _record_stage(stage, state), held=ownership_files())
    failpoint("stage.begun")
    progress.begin(stage.title or stage.name, stage.total())
    receipts: dict[str, Receipt] = {}

    def missing() -> Iterator[Task]:
        for task in stage.tasks():
            if receipt := runner.done(task):
                receipts[task.id] = _interned(receipt)
                progress.advance(task.weight, receipt, fresh=False)
            else:
                yield task

    with stage_usage(stage.name, state), closing(stage):
        for task, receipt in executor.map(runner, missing()):
            receipts[task.id] = _interned(receipt)
            progress.advance(task.weight, receipt, fresh=True)
    failpoint("stage.done")
    return [receipts[name] for name in sorted(receipts)]


def _interned(receipt: Receipt) -> Receipt:
    """Return a receipt whose strings are shared with other receipts: thousands are kept, each with up to 100 names."""
    counts, rejects = (
        {sys.intern(name): count for name, count in each.items()} for each in (receipt.counts, receipt.rejects)
    )
    mark = sys.intern(receipt.fingerprint)
    return msgspec.structs.replace(receipt, fingerprint=mark, counts=counts, rejects=rejects)


def _record_stage(stage: Stage, state: Path) -> str:
    """Write the stage's manifest, or verify that the existing one is the same; return the fingerprint."""
    ours, path = plain(stage.fields()), state / STAGE_JSON
    mark = fingerprint(ours)
    if theirs := read_made_from(path):
        refuse_mismatch(ours, theirs, state)
    else:
        _refuse_receipts_of_other_work(state / RECEIPTS, mark)
        write_atomic(path, encode_checksummed(ours))
    return mark


def _refuse_receipts_of_other_work(receipts: Path, mark: str) -> None:
    """Raise MismatchError if a receipt is for different work; for use where the stage's manifest is damaged."""
    for path in receipts.glob("*.json"):
        with contextlib.suppress(ValueError):  # a damaged receipt is ignored
            if decode_checksummed(path.read_bytes(), Receipt).fingerprint != mark:
                raise _other_work("this is different work", receipts.parent)


def read_made_from(path: Path, *, warn: bool = True) -> dict[str, Any]:
    """Read the file that says what unfinished work is made from.

    Args:
        path: the file.
        warn: whether to log a warning if the file is damaged.

    Returns:
        its fields; {} if it does not exist, is empty or is damaged. The receipts beside it still identify the work.

    Raises:
        MachineError: it cannot be read.
    """
    try:
        data = read_if_exists(path)
        return decode_checksummed(data, dict[str, Any]) if data else {}
    except ValueError as error:
        if warn:
            _log.warning("%s is damaged (%s): it is written again", path, error)
        return {}


def _other_work(what: str, where: object) -> MismatchError:
    return MismatchError(what, where=str(where), fix=_OTHER_PLACE, options=("-o", "--restart"))


def refuse_mismatch(ours: dict[str, Any], theirs: dict[str, Any], where: Path, fix: str = "") -> None:
    """Raise MismatchError if two sets of fields differ; the message names the fields."""
    if found := describe_mismatch(ours, theirs):
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        what = f"this directory has different work: {'; '.join(found[:3])}{more}"
        raise MismatchError(what, where=str(where), fix=fix) if fix else _other_work(what, where)


def finished_tasks(receipts: Path) -> set[str]:
    """Return the ids of the tasks that have a receipt; the directory is listed once, and no receipt is read."""
    return {path.stem for path in receipts.glob("*.json")}


def sum_counts(parts: list[dict[str, int]]) -> dict[str, int]:
    """Return the sum of several counts, sorted by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return _sorted(total)


def list_outputs(receipts: list[Receipt]) -> list[Output]:
    """Return all outputs, in the order of the tasks."""
    return [output for receipt in receipts for output in receipt.outputs]


def _sorted(counts: dict[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts) if counts[name]}
