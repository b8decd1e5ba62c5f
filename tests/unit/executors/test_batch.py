"""The executors of batch schedulers, with a scheduler that runs jobs in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jprep.engine.executors.batch import CONTINUED, BatchOptions, Slurm
from jprep.engine.executors.queued import Queue, QueueOptions, Submitted
from jprep.engine.queue.jobs import read_jobs
from jprep.engine.queue.manifest import read_queue
from jprep.engine.queue.reader import QueueReader
from jprep.engine.queue.share import Share
from jprep.engine.queue.survey import survey
from jprep.engine.runner import Executor, SilentProgress, run_stage
from jprep.engine.schedulers.job import Job, JobState
from jprep.engine.schedulers.scheduler import Scheduler
from jprep.engine.schedulers.slurm import Slurm as SlurmScheduler
from jprep.engine.stage import Receipt
from jprep.errors import InputError, Interrupted, JprepError
from tests.fakes.numbers_stage import Numbers, admit_tests


@pytest.fixture(autouse=True)
def admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    admit_tests(monkeypatch)


Loses = Callable[[int, int], bool]


class Here(SlurmScheduler):
    """Runs the elements of arrays when it is asked for their states.

    Args:
        loses: returns whether an element of a job ends without doing anything.
    """

    def __init__(
        self, loses: Callable[[int, int], bool] = lambda job, element: False, *, pending: bool = False
    ) -> None:
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []
        self._loses, self.pending = loses, pending
        self._todo: list[int] = []

    def submit(self, job: Job) -> str:
        self.jobs.append(job)
        self._todo.append(len(self.jobs))
        return str(len(self.jobs))

    def states(self, ids: list[str]) -> list[JobState]:
        if self.pending:
            return [JobState(each, "", "pending") for each in ids]
        for number in [each for each in self._todo if str(each) in ids]:
            self._todo.remove(number)
            self._run(number, self.jobs[number - 1])
        return []

    def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)

    def array_limit(self) -> int | None:
        return 1001

    def _run(self, number: int, job: Job) -> None:
        words = job.command
        folder, of = job.logs.parent, int(words[words.index("--of") + 1])
        manifest = read_queue(folder)
        assert manifest and manifest.id == words[words.index("--queue") + 1]
        for element in job.elements or []:
            if not self._loses(number, element):
                Share(QueueReader(folder, manifest), element, of, 1, lambda: False).run()


class OnHere(Slurm):
    there: Scheduler

    def _find_scheduler(self, options: BatchOptions) -> Scheduler:
        return self.there


def executor(there: Scheduler, stopping: Callable[[], bool] = lambda: False, **options: object) -> Slurm:
    made = type("OnThis", (OnHere,), {"there": there})
    running: Slurm = made(1, stopping, BatchOptions(poll=0.01, **options))  # type: ignore[arg-type]
    running.attach(["corpus", "build", "recipe.toml"], lambda text: None)
    return running


def run(root: Path, running: Executor, stage: Numbers | None = None) -> list[Receipt]:
    stage = stage or Numbers(20)
    return run_stage(stage, root, root / ".state/numbers", running, SilentProgress())


def outputs(root: Path) -> list[str]:
    return [path.read_text() for path in sorted((root / "out").iterdir())]


SQUARES = [str(number**2) for number in range(20)]


def test_tasks_become_an_array(tmp_path: Path) -> None:
    there = Here()
    receipts = run(tmp_path, executor(there, jobs=6))
    assert [receipt.counts.get("n", 0) for receipt in receipts] == list(range(20))
    assert outputs(tmp_path) == SQUARES
    [job] = there.jobs
    assert job.elements == list(range(6)) and read_queue(job.logs.parent) is None


def test_lost_elements_are_submitted_again(tmp_path: Path) -> None:
    there = Here(lambda job, element: job == 1 and element in (2, 4))
    run(tmp_path, executor(there, jobs=6))
    assert outputs(tmp_path) == SQUARES
    assert [job.elements for job in there.jobs] == [list(range(6)), [2, 4]]


def test_a_failed_task_is_tried_again(tmp_path: Path) -> None:
    there = Here()
    run(tmp_path, executor(there), Numbers(20, {3: "once"}))
    assert outputs(tmp_path) == SQUARES
    assert len(there.jobs) == 2 and there.jobs[1].elements == [3]


def test_an_error_that_stays_is_not_tried_again(tmp_path: Path) -> None:
    there = Here()
    with pytest.raises(InputError, match="it is damaged") as raised:
        run(tmp_path, executor(there), Numbers(20, {3: "input", 5: "input"}))
    assert "task 000003 (and 1 more task)" in raised.value.where
    assert len(there.jobs) == 1 and len(outputs(tmp_path)) == 18
    [status] = survey(tmp_path)[0].stages
    assert (status.done, status.total, [each.task for each in status.failed]) == (18, 20, ["000003", "000005"])


def test_tasks_without_a_word_are_named_with_their_log(tmp_path: Path) -> None:
    there = Here(lambda job, element: element == 7)
    with pytest.raises(JprepError, match="its job ended before it was done") as raised:
        run(tmp_path, executor(there, attempts=2, tasks_per_job=1))
    assert "task 000007" in raised.value.where and "queue/logs/3_7.log" in raised.value.where
    assert len(there.jobs) == 3  # the first round made progress


def test_a_command_that_does_not_wait_goes_on_in_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Here()
    with pytest.raises(Submitted, match="20 tasks are in job 1, and job 2 continues after it") as left:
        run(tmp_path, executor(there, wait=False))
    assert left.value.exit_code == 0 and not (tmp_path / "out").exists()
    assert there.jobs[1].after == ["1"] and there.jobs[1].command[-3:] == ["corpus", "build", "recipe.toml"]
    there.states(["1"])
    monkeypatch.setenv(CONTINUED, "numbers")
    run(tmp_path, executor(there, wait=False))
    assert outputs(tmp_path) == SQUARES and len(there.jobs) == 2


def test_continued_commands_count_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Here(lambda job, element: element == 7 or job > 1)
    for _ in range(3):
        with pytest.raises(Submitted):
            run(tmp_path, executor(there, wait=False, attempts=2, tasks_per_job=1))
        there.states([str(len(there.jobs) - 1)])
        monkeypatch.setenv(CONTINUED, "numbers")
    with pytest.raises(JprepError, match="its job ended before it was done"):
        run(tmp_path, executor(there, wait=False, attempts=2, tasks_per_job=1))
    assert len(there.jobs) == 6


def test_a_running_job_is_not_submitted_twice(tmp_path: Path) -> None:
    there = Here(pending=True)
    with pytest.raises(Submitted):
        run(tmp_path, executor(there, wait=False))
    with pytest.raises(Submitted, match="20 tasks are in job 1"):
        run(tmp_path, executor(there, wait=False))
    assert len(there.jobs) == 2
    there.pending = False
    folder = tmp_path / ".state/numbers/queue"
    assert (read_jobs(folder) or pytest.fail()).next == "2"
    there.pending = True
    waiting = executor(there)
    looks = iter([True, True])
    there.states = lambda ids: Here.states(there, ids) if not next(looks, False) else [JobState("1", "", "running")]  # type: ignore[method-assign]
    there._todo, there.pending = [1], False
    run(tmp_path, waiting)
    assert outputs(tmp_path) == SQUARES and len(there.jobs) == 2
    assert there.cancelled == ["2"]  # this command waits: no other has to go on


def test_an_interrupted_command_leaves_its_jobs(tmp_path: Path) -> None:
    there, asked = Here(pending=True), iter([False] * 25)
    with pytest.raises(Interrupted) as raised:
        run(tmp_path, executor(there, lambda: next(asked, True)))
    assert "jprep status" in raised.value.fix and "scancel 1" in raised.value.fix
    assert len(there.jobs) == 1 and not there.cancelled
    assert read_queue(tmp_path / ".state/numbers/queue")


def test_few_tasks_are_spread_and_many_share_an_element(tmp_path: Path) -> None:
    for count, elements in ((5, 5), (640, 80)):
        there = Here(pending=True)
        with pytest.raises(Submitted):
            run(tmp_path / str(count), executor(there, wait=False), Numbers(count))
        assert len(there.jobs[0].elements or []) == elements


def test_the_executor_queue_waits_for_others(tmp_path: Path) -> None:
    running, said = Queue(1, lambda: False, QueueOptions(wait=False)), list[str]()
    running.attach([], said.append)
    with pytest.raises(Submitted, match="20 tasks are in the queue"):
        run(tmp_path, running)
    folder = tmp_path / ".state/numbers/queue"
    manifest = read_queue(folder)
    assert manifest and "20 tasks wait" in said[0]
    Share(QueueReader(folder, manifest), 0, 2, 1, lambda: False).run()
    with pytest.raises(Submitted, match="10 tasks are in the queue"):
        run(tmp_path, running)
    with pytest.raises(Submitted, match="1 task is in the queue"):
        run(tmp_path / "one", running, Numbers(1))
    assert "1 task waits" in said[-1]
    assert (read_queue(folder) or pytest.fail()).id == manifest.id  # workers of the other share may be at it
    Share(QueueReader(folder, manifest), 1, 2, 1, lambda: False).run()
    run(tmp_path, running)
    assert outputs(tmp_path) == SQUARES


def test_the_executor_queue_names_failures(tmp_path: Path) -> None:
    running = Queue(1, lambda: False, QueueOptions(poll=0.01))
    stage = Numbers(4, {1: "input"})

    with pytest.raises(Submitted):
        run(tmp_path, Queue(1, lambda: False, QueueOptions(wait=False)), stage)
    folder = tmp_path / ".state/numbers/queue"
    manifest = read_queue(folder)
    assert manifest
    running.attach([], lambda text: _work(folder))
    with pytest.raises(InputError, match="it is damaged"):
        run(tmp_path, running, stage)


def _work(folder: Path) -> None:
    manifest = read_queue(folder)
    assert manifest
    Share(QueueReader(folder, manifest), 0, 1, 1, lambda: False).run()
