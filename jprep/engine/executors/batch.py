"""The executors `slurm`, `pbs` and `grid-engine`: array jobs of `jprep work`."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import msgspec

from jprep.engine.executors.protocols import ShownScript
from jprep.engine.executors.queued import OpenQueue, QueueExecutor, Submitted, jprep_command
from jprep.engine.queue.failures import Failure, clear_failures, read_failures
from jprep.engine.queue.jobs import Jobs, Round, read_jobs, write_jobs
from jprep.engine.queue.manifest import LOGS
from jprep.engine.schedulers.choice import find_scheduler
from jprep.engine.schedulers.grid_engine import GridEngine
from jprep.engine.schedulers.job import ELEMENT, Job, JobState, Resources
from jprep.engine.schedulers.scheduler import Scheduler
from jprep.engine.schedulers.watch import JobWatch
from jprep.engine.stage import Receipt, Task
from jprep.errors import JprepError
from jprep.plurals import counted

CONTINUED = "JPREP_CONTINUED"
"""The environment variable of a command that a job runs again after the job of a stage."""

_PER_PROCESS = 8  # tasks that a process gets of many: of 30 s each, its start costs less than 2 %
_SPREAD = 64  # processes among which fewer tasks are spread
_LATE = 3  # looks for receipts after a job has ended: a shared file system may show files late
_log = logging.getLogger(__name__)


class BatchOptions(Resources, frozen=True):
    """Options of the executors of batch schedulers; see also `Resources`.

    Attributes:
        jobs: largest number of elements of an array; 0 for the site's limit.
        tasks_per_job: tasks that an element should get; 0 for eight for each of its processes, or fewer where there are
            few tasks, so that they are spread.
        attempts: how often tasks are tried that fail, or whose job ends without a word.
        wait: whether the command waits; otherwise a job of its own runs the command again after each stage.
        poll: largest pause between two looks for receipts, in seconds.
        python: the interpreter on the nodes; by default that of the command.
    """

    jobs: int = 0
    tasks_per_job: int = 0
    attempts: int = 3
    wait: bool = True
    poll: float = 10.0
    python: str = ""


class Batch(QueueExecutor):
    """Submits the queue of a stage as an array job.

    Args:
        workers: not used: `cpus` is the number of processes of an element.
        stopping: returns whether the user asked to stop.
        options: options of the recipe.
    """

    Config = BatchOptions
    scheduler: ClassVar[str]

    def __init__(self, workers: int, stopping: Callable[[], bool], options: BatchOptions) -> None:
        super().__init__(stopping, options.poll)
        self._options, self._scheduler = options, self._find_scheduler(options)
        self._jobs = Jobs(self.scheduler)
        self._watch = JobWatch(self._scheduler)
        self._warned: set[str] = set()

    def _find_scheduler(self, options: BatchOptions) -> Scheduler:
        return find_scheduler(self.scheduler)

    def scripts(self, output: Path, stages: list[str]) -> Iterator[ShownScript]:
        """Yield the scripts of all stages. Their arrays' sizes are known only when the tasks are.

        Args:
            output: the output directory.
            stages: names of the stages.
        """
        submit = self._scheduler.submit_command()
        for stage in stages:
            folder = output.absolute() / ".state" / stage / "queue"
            job = self._array(output.absolute(), folder, "ID", [], 0)
            yield ShownScript(f"the tasks of {stage}", submit, self._scheduler.script(job))
            if not self._options.wait:
                job = self._continuation(folder, "JOB")
                yield ShownScript(f"what follows {stage}", submit, self._scheduler.script(job))

    def _keeps(self, folder: Path) -> bool:
        """Return whether the last job is alive; a job that waited to run the command again is cancelled."""
        self._jobs = read_jobs(folder) or Jobs(self.scheduler)
        if self._jobs.scheduler != self.scheduler:
            self._jobs = Jobs(self.scheduler)
        return bool(self._alive())

    def _run(self, queue: OpenQueue) -> Iterator[tuple[Task, Receipt]]:
        if not queue.kept:
            self._begin(queue)
        elif self._options.wait:
            self._announce(f"{queue.manifest.stage}: job {self._jobs.rounds[-1].job} is running")
            self._cancel_next(queue)
        while True:
            if not self._alive():
                self._submit(queue)
            if not self._options.wait:
                raise self._submitted(queue)
            before = len(queue.pending.tasks)
            yield from self._until_ended(queue)
            if not queue.pending.tasks:
                return
            self._count_attempt(queue, before)

    def _begin(self, queue: OpenQueue) -> None:
        """Forget the jobs of an earlier queue. A command that a job runs again continues counting attempts.

        Raises:
            JprepError: there were too many.
        """
        if self._alive():
            self._scheduler.cancel(self._last.job)
        if os.environ.get(CONTINUED) == queue.manifest.stage and self._jobs.rounds:
            self._count_attempt(queue, self._jobs.missing)
        else:
            self._jobs.attempts = 0
        self._jobs = Jobs(self.scheduler, queue=queue.manifest.id, attempts=self._jobs.attempts)

    def _alive(self) -> list[JobState]:
        """Return what the scheduler has of the last job; for a while, a scheduler that does not answer is no reason."""
        if not self._jobs.rounds:
            return []
        job = self._jobs.rounds[-1].job
        found = self._watch.states(job)
        return [JobState(job, "", "running")] if found is None else found

    def _submit(self, queue: OpenQueue) -> None:
        """Submit the shares that have missing tasks, and without `wait` a job that runs the command again."""
        of = self._jobs.rounds[0].of if self._jobs.rounds else self._elements(queue)
        elements = sorted({task.chunk % of for task in queue.pending.tasks.values()})
        clear_failures(queue.folder)
        job = self._scheduler.submit(self._array(queue.output, queue.folder, queue.manifest.id, elements, of))
        self._jobs.rounds.append(Round(job, elements, of))
        self._jobs.missing = len(queue.pending.tasks)
        write_jobs(queue.folder, self._jobs)
        if not self._options.wait and self._command:
            self._jobs.next = self._scheduler.submit(self._continuation(queue.folder, job))
            write_jobs(queue.folder, self._jobs)
        submitted = f"submitted {counted(len(queue.pending.tasks), 'task')} as job {job}"
        self._announce(f"{queue.manifest.stage}: {submitted} of {counted(len(elements), 'element')}")

    def _elements(self, queue: OpenQueue) -> int:
        """Return the number of shares of the whole queue."""
        count, chunks = len(queue.pending.tasks), len(queue.manifest.chunks)
        each = self._options.tasks_per_job or self._workers * max(1, min(_PER_PROCESS, count // _SPREAD))
        limits = [self._options.jobs, self._scheduler.array_limit() or 0]
        return max(1, min([chunks, -(-count // each), *(limit for limit in limits if limit)]))

    @property
    def _workers(self) -> int:
        return self._options.cpus or 1

    def _array(self, output: Path, folder: Path, queue: str, elements: list[int], of: int) -> Job:
        words = ["work", str(output.absolute()), "--queue", queue, "--index", ELEMENT, "--of", str(of or "LAST")]
        command = jprep_command(self._options.python, *words, "--workers", str(self._workers))
        return self._job(f"jprep-{folder.parent.name}", command, folder, elements=elements)

    def _continuation(self, folder: Path, after: str) -> Job:
        command = jprep_command(self._options.python, *self._command)
        job = self._job(f"jprep-after-{folder.parent.name}", command, folder)
        return msgspec.structs.replace(job, after=[after], environment={CONTINUED: folder.parent.name})

    def _job(self, name: str, command: list[str], folder: Path, elements: list[int] | None = None) -> Job:
        logs, here = folder.absolute() / LOGS, Path.cwd()
        asked = Resources(**{field: getattr(self._options, field) for field in Resources.__struct_fields__})
        return Job(name=name, command=command, logs=logs, folder=here, resources=asked, elements=elements)

    def _until_ended(self, queue: OpenQueue) -> Iterator[tuple[Task, Receipt]]:
        """Yield receipts until none is missing, or the job has ended."""
        late = 0
        for seconds in self._pauses():
            alive = self._alive()
            self._warn_of_held(alive)
            yield from queue.pending.collect()
            if not queue.pending.tasks:
                return
            late = 0 if alive else late + 1
            if late == _LATE or (late and read_failures(queue.folder).keys() >= queue.pending.tasks.keys()):
                return
            self._wait(seconds)

    def _warn_of_held(self, states: list[JobState]) -> None:
        """Warn once of a job whose remaining elements are all held: without the user it may never continue."""
        job = self._last.job
        if job not in self._warned and states and all(each.state == "held" for each in states):
            self._warned.add(job)
            _log.warning("job %s is held: %s", job, states[0].reason or "no reason is known")

    def _count_attempt(self, queue: OpenQueue, before: int) -> None:
        """Count a round that had failures or finished nothing.

        Raises:
            JprepError: there were too many, or another attempt would change nothing.
        """
        failures = read_failures(queue.folder)
        missing = queue.pending.tasks
        if failures.keys() & missing.keys() or len(missing) == before:
            self._jobs.attempts += 1
            write_jobs(queue.folder, self._jobs)
        final = missing.keys() <= {name for name, failure in failures.items() if failure.final}
        if final or self._jobs.attempts >= self._options.attempts:
            raise self._error(queue)
        tasks = counted(len(missing), "task")
        _log.warning("%s: %s still missing after job %s", queue.manifest.stage, tasks, self._last.job)

    @property
    def _last(self) -> Round:
        return self._jobs.rounds[-1]

    def _error(self, queue: OpenQueue) -> JprepError:
        """Return the error that names the failed tasks and their logs."""
        failures, missing = read_failures(queue.folder), sorted(queue.pending.tasks)
        known = [failures[name] for name in missing if name in failures]
        first = known[0] if known else self._vanished(queue, missing[0])
        for failure in known[1:10]:
            _log.warning("task %s: %s (log %s)", failure.task, failure.what, failure.log or "unknown")
        return first.error(len(missing) - 1)

    def _vanished(self, queue: OpenQueue, name: str) -> Failure:
        """Return the failure of a task whose job ended without a record."""
        element = queue.pending.tasks[name].chunk % self._last.of
        log = queue.folder / LOGS / f"{self._last.job.partition('[')[0]}_{element}.log"
        fix = "see its log; more executor.time or executor.memory helps if the scheduler ended it"
        return Failure(name, "its job ended before it was done", "", fix, log=str(log))

    def _submitted(self, queue: OpenQueue) -> Submitted:
        job, count = self._last.job, len(queue.pending.tasks)
        what = f"{queue.manifest.stage}: {counted(count, 'task')} {'is' if count == 1 else 'are'} in job {job}"
        if self._jobs.next:
            what += f", and job {self._jobs.next} continues after it"
        return Submitted(what, where=str(queue.output), fix=self._advice(queue))

    def _advice(self, queue: OpenQueue) -> str:
        cancel = " ".join(self._scheduler.cancel_command(" ".join(self._jobs.ids)))
        ask = f"jprep status {shlex.quote(str(queue.output))}"
        return f"`{ask}` shows how far it is, `{cancel}` cancels it; run this command again to wait for it"

    def _cancel_next(self, queue: OpenQueue) -> None:
        """Cancel the job that would run the command again: this command waits instead."""
        if self._jobs.next:
            self._scheduler.cancel(self._jobs.next)
            self._jobs.next = ""
            write_jobs(queue.folder, self._jobs)

    def _end(self, folder: Path) -> None:
        """Close the queue, and cancel elements that have not begun: their tasks were done by an earlier start."""
        super()._end(folder)
        if self._jobs.rounds and any(each.state in ("pending", "held") for each in self._alive()):
            self._scheduler.cancel(self._last.job)
        self._jobs = Jobs(self.scheduler)


class Slurm(Batch):
    """The executor `slurm`."""

    scheduler = "slurm"


class PbsPro(Batch):
    """The executor `pbs`."""

    scheduler = "pbs"


class GridEngineOptions(BatchOptions, frozen=True):
    """Options of the executor `grid-engine`; see also `BatchOptions`.

    Attributes:
        parallel: the parallel environment for several processors of a host; "" if `options` ask for them.
        memory_resource: the resource that limits memory.
    """

    parallel: str = "smp"
    memory_resource: str = "h_vmem"


class GridEngineBatch(Batch):
    """The executor `grid-engine`."""

    Config = GridEngineOptions
    scheduler = "grid-engine"

    def _find_scheduler(self, options: BatchOptions) -> Scheduler:
        if isinstance(options, GridEngineOptions):
            return GridEngine(options.parallel, options.memory_resource)
        return super()._find_scheduler(options)
