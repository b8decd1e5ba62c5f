"""Train in a job of a scheduler, for `jprep run` with the executor `slurm`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.engine.executors.batch import BatchOptions
from jprep.engine.executors.choice import choose_executor
from jprep.engine.executors.queued import Submitted
from jprep.engine.executors.receipts import growing_pauses
from jprep.engine.schedulers.choice import find_scheduler
from jprep.engine.schedulers.job import Job, JobState
from jprep.engine.schedulers.watch import JobWatch
from jprep.errors import ConfigError, Interrupted, MachineError
from jprep.io.shared.file_systems import file_system_of
from jprep.io.shared.network_files import VISIBLE_SECONDS, exists_now
from jprep.train.hosts.requeue import SLURM, can_requeue
from jprep.train.hosts.submission import check_submission, submit_training, training_job
from jprep.train.job.config import Job as TrainingJob
from jprep.train.launcher.cross_validation import FOLDS, config_of_fold, inputs_of_fold
from jprep.train.launcher.launch import RunInputs, build_run_job
from jprep.train.run.directory import checkpoints_of, read_job, same_or_longer_job
from jprep.train.run.events import EVENTS, Event, last_end, read_events
from jprep.train.run.log import Say
from jprep.train.run.resume import is_complete

if TYPE_CHECKING:
    from jprep.pipeline.run import RunPlan, RunReporter

_LATE_PAUSE = 2.0  # seconds between two looks for what a network file system shows late


def plan_submission(plan: RunPlan, words: list[str]) -> Job | None:
    """Return the job in which a plan trains; None if it trains in this process.

    Args:
        plan: the plan.
        words: the arguments of `jprep` that carry it out; the job repeats them, and finds its other steps finished.

    Raises:
        ConfigError: the executor's options or `[train.submit]` are wrong.
    """
    train = plan.recipe.train
    if not (train and words and "train" in plan.steps) or can_requeue() or not _options(plan):
        return None
    check_submission(SLURM, train, plan.backend)
    return training_job(train.submit, words, f"{plan.recipe.name}-{plan.run.name}", plan.run)


def train_in_job(plan: RunPlan, job: Job, reporter: RunReporter) -> int:
    """Submit a training, unless it is finished or its job waits or runs already, and wait for its end.

    Nothing is trained in this process, and no file of a finished run is written again.

    Returns:
        The exit code of the training.

    Raises:
        Submitted: the job is submitted, and the executor does not wait.
        Interrupted: the user does not want to wait; the job continues.
        MachineError: Slurm is not installed, refuses the job or does not answer.
        MismatchError: the run directory belongs to another job.
    """
    training = _Training(plan)
    if training.is_finished(reporter.note):
        reporter.result("trained")
        return 0
    number, is_new, log = submit_training(job)
    options = _options(plan)
    advice = f"`scancel {number}` ends it; run this command again to wait for it"
    if options is None or not options.wait:
        raise Submitted(f"the training is job {number}, with the log {log}", where=str(plan.run), fix=advice)
    reporter.note(f"      {'submitted as' if is_new else 'it was submitted already, as'} job {number}; log {log}")
    try:
        _wait(number, options.poll, reporter)
        training.await_end()
    except KeyboardInterrupt:
        raise Interrupted(f"job {number} continues", where=str(plan.run), fix=advice) from None
    if training.is_finished():
        reporter.result(f"trained by job {number}")
        return 0
    reporter.note(f"job {number} has ended before the training was finished; see {log}")
    return training.new_failure() or 1


class _Training:
    """What the runs of a plan have recorded, at first and since then."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._jobs: dict[Path, TrainingJob | None] = {}
        self._seen = {run: len(read_events(run)) for run in plan.runs}

    def is_finished(self, say: Say = lambda text: None) -> bool:
        """Return whether all runs have ended with all steps of the recipe.

        Args:
            say: called with a message for the user.

        Raises:
            MismatchError: a run that has ended belongs to another job.
        """
        folds = self._plan.runs != [self._plan.run]
        complete = all(self._is_complete(run, say) for run in self._plan.runs)
        return complete and (not folds or exists_now(self._plan.run / FOLDS))

    def await_end(self) -> None:
        """Wait until the runs are finished or have failed, for as long as a network file system may show that late."""
        until = time.monotonic() + (VISIBLE_SECONDS if file_system_of(self._plan.run).shared else 0.0)
        while not (self.new_failure() or self.is_finished()) and time.monotonic() < until:
            time.sleep(_LATE_PAUSE)

    def new_failure(self) -> int:
        """Return the exit code of a run that has failed since this object was made; 0 without one."""
        ends = [last_end(_events(run)[seen:]) for run, seen in self._seen.items()]
        return next((code for end in ends if end and (code := _code(end))), 0)

    def _is_complete(self, run: Path, say: Say) -> bool:
        events = _events(run)
        end = last_end(events)
        if not end or _code(end):
            return False
        try:
            found, job = read_job(run), self._job(run)
        except ConfigError:  # the job finds out more
            return False
        if job is None:  # unknown here: only a training that ended since then is known to be this one
            return last_end(events[self._seen[run] :]) is not None and is_complete(run, found, end.step)
        job = same_or_longer_job(job, found, run, say)
        return is_complete(run, job, max((one.step for one in checkpoints_of(run, job).committed()), default=0))

    def _job(self, run: Path) -> TrainingJob | None:
        """Return the job that the recipe gives a run; None if its hooks cannot be checked on this machine."""
        if run not in self._jobs:
            try:
                self._jobs[run] = _build_job(self._plan, run)
            except MachineError:
                self._jobs[run] = None
        return self._jobs[run]


def _build_job(plan: RunPlan, run: Path) -> TrainingJob:
    recipe, tokenizer = plan.recipe, plan.paths.tokenizer
    if recipe.train is None:
        raise ConfigError("the recipe has no [train]", where=recipe.name)
    inputs = RunInputs(recipe.name, plan.backend, run, tokenizer)
    if run != plan.run:
        section = config_of_fold(recipe.train, plan.runs.index(run), run.name)
        return build_run_job(section, inputs_of_fold(inputs, run))
    dataset = plan.paths.dataset if "dataset" in plan.steps else None
    mix = recipe.dataset.mix if recipe.dataset else None
    return build_run_job(recipe.train, inputs._replace(dataset=dataset, mix=mix))


def _events(run: Path) -> list[Event]:
    return read_events(run) if exists_now(run / EVENTS) else []


def _code(end: Event) -> int:
    return int(end.figures.get("code") or 0)


def _options(plan: RunPlan) -> BatchOptions | None:
    """Return the options of the executor, if trainings can be submitted to it."""
    name, options = choose_executor(plan.recipe.executor, plan.executor)
    return options if name == SLURM and isinstance(options, BatchOptions) else None


def _wait(number: str, longest: float, reporter: RunReporter) -> None:
    """Wait until a job has ended, and tell where it runs or why it waits."""
    watch, shown = JobWatch(find_scheduler(SLURM)), ""
    for seconds in growing_pauses(longest):
        states = watch.states(number)
        if states is not None and not states:
            return
        if states and (text := _describe(states[0])) != shown:
            shown = text
            reporter.note(f"      job {number} {text}")
        time.sleep(seconds)


def _describe(state: JobState) -> str:
    more = f" on {state.host}" if state.host else f" ({state.reason})" if state.reason else ""
    return f"is {state.state}{more}"
