"""All that a backend's worker needs of jprep. `docs/runs.md` has a whole worker in a page."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.sampler import Batch
from jprep.errors import ConfigError, InputError, JprepError, MachineError
from jprep.io.atomic import write_error
from jprep.train.job.config import Job
from jprep.train.run.attempt import ATTEMPT, RESUME, AttemptWatch, Decision, RankLock, RankSync, is_current_attempt
from jprep.train.run.checkpoints import Rank
from jprep.train.run.commit import step_of
from jprep.train.run.data_lock import check_data
from jprep.train.run.directory import CHECKPOINTS, checkpoints_of, read_job, write_environment
from jprep.train.run.events import EventKind, record_event
from jprep.train.run.log import on_stderr
from jprep.train.worker.batches import Batches
from jprep.train.worker.out_of_memory import end_figures, memory_errors
from jprep.train.worker.prefetch import Item, prefetch
from jprep.train.worker.unsupervised import RunStart, await_start, lead_start

HEARTBEAT = "heartbeat"
"""A file whose time of change says that a worker is alive; the supervisor looks at it."""

_BEAT = 0.2  # seconds between two of them


@dataclass
class DueActions:
    """What is to be done after a step, in this order.

    Attributes:
        log: write figures down.
        validate: measure the loss on the validation split.
        checkpoint: save. `validated` sets it where the loss is among the best; so it is read after that.
        stop: the run was asked to leave; `batches` ends after this step.
    """

    log: bool
    validate: bool
    checkpoint: bool
    stop: bool


class Session:
    """A worker's part in a run.

    Steps count updates, from 1: step s is over when s updates are done, and its batch is the sampler's number s - 1.

    Args:
        run: the run directory.
        rank: this process's number.
        world: how many processes take part.
        whole: whether each is given all rows of a batch: they run one program, which divides them.

    Attributes:
        job: the job.
        start: how many updates are done already.
        resume: the folder of the checkpoint that they are in; None at the beginning.

    Raises:
        ConfigError: there is no run, or its data cannot be used by so many processes.
        MismatchError: its data is not what it was.
        MachineError: another process trains there, or the supervisor that started this one is gone.
        JprepError: another process has this rank in the same attempt.
    """

    job: Job

    def __init__(self, run: Path, rank: int = 0, world: int = 1, *, whole: bool = False) -> None:
        self._run, self._rank, self._world = Path(run).absolute(), rank, world
        self._share = (0, 1) if whole else (rank, world)
        self._asked, self._beaten = False, 0.0
        self._open = contextlib.ExitStack()
        self._main = threading.current_thread() is threading.main_thread()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        run, rank, world = self._run, self._rank, self._world
        self.job = read_job(run)
        if world < 1 or not 0 <= rank < world or self.job.train.batch % world:
            what = f"a batch of {self.job.train.batch} rows cannot be divided for rank {rank} of {world}"
            raise ConfigError(what, fix="take a multiple of the number of processes as train.batch")
        self._listen()
        patience = 60 * self.job.train.silent_minutes
        self._checkpoints = checkpoints_of(run, self.job)
        started = self._join(os.environ.get(ATTEMPT, ""), patience)
        self._agreement = RankSync(run, started.attempt, rank, world, patience)
        self._part = Rank(rank, world, patience)
        self.resume = run / CHECKPOINTS / started.resume if started.resume else None
        self.start = self._step = step_of(self.resume) if self.resume else 0
        self._stop, self._saved, self._loss = False, time.monotonic(), (0, math.nan)
        self._due, self._best = DueActions(False, False, False, False), self._checkpoints.best()
        self._saving: Future[None] | None = None
        self._pool = self._open.enter_context(ThreadPoolExecutor(1, "jprep-save"))  # who lets go of the run waits
        if not rank:
            check_data(run, self.job)
            write_environment(run)
        self._batches = Batches(run, self.job)
        if self.job.train.validation.every_steps:
            _ = self._batches.validation  # what is wrong with it is said now
        self._record("start", self.start)
        self._beat()

    def _listen(self) -> None:
        """SIGTERM and SIGINT only ask."""

        def ask(number: int, frame: FrameType | None) -> None:
            self._asked = True

        if self._main:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._open.callback(signal.signal, number, signal.signal(number, ask))

    def _join(self, attempt: str, patience: float) -> RunStart:
        """Take this rank's seat. Where to resume is the supervisor's decision; without one it is rank 0's."""
        if attempt:
            start = RunStart(attempt, os.environ.get(RESUME, ""))
        elif self._rank:
            start = await_start(self._run, patience)
        else:
            start = self._open.enter_context(lead_start(self._run, self._checkpoints))
        self._open.enter_context(contextlib.closing(RankLock(self._run, self._rank)))
        if attempt:
            if not is_current_attempt(self._run, attempt):
                raise MachineError("the supervisor is gone", where=str(self._run), fix="run the same command again")
            self._open.enter_context(contextlib.closing(AttemptWatch(self._run, attempt)))
        return start

    def batches(self, from_step: int | None = None) -> Iterator[tuple[int, Batch | LabelledBatch]]:
        """Each step and this rank's rows of its batch, to the job's last step or until the run is asked to leave.

        Args:
            from_step: how many updates are done; by default `start`.
        """
        self._step = self.start if from_step is None else from_step
        while self._step < self.job.steps and not self._stop:
            self._beat()
            batch = self._batch(self._step)
            self._step += 1
            yield self._step, batch

    def batches_ahead(self, ready: Callable[[Batch | LabelledBatch], Item]) -> Iterator[tuple[int, Item]]:
        """As `batches` from `start` on, but batches are made in a thread before their turn comes.

        Args:
            ready: is given each batch, in that thread; what it makes of it comes in the batch's place.
        """
        self._step = self.start
        with contextlib.closing(prefetch(lambda step: ready(self._batch(step)), self.start, self.job.steps)) as made:
            while self._step < self.job.steps and not self._stop:
                self._beat()
                found = next(made)
                self._step += 1
                yield self._step, found

    def _batch(self, step: int) -> Batch | LabelledBatch:
        return self._batches.train.batch(step, *self._share)

    def validation(self) -> Iterator[Batch | LabelledBatch]:
        """This rank's rows of the validation split, each sample once, or of the job's number of batches.

        The last batch may have fewer rows than others, and none for some ranks.

        Raises:
            ConfigError: there is no such split, or nothing is in it.
        """
        for batch in self._batches.validating(*self._share):
            self._beat()
            yield batch

    @property
    def step(self) -> int:
        """The step of the batch that was given last; `start` before the first."""
        return self._step

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to leave: by a signal and, with several ranks, by what rank 0 made of it."""
        return self._stop or (self._asked and self._world == 1)

    def due(self, step: int) -> DueActions:
        """What is to be done after a step. Every rank asks, after every step, and is told the same.

        Raises:
            JprepError: what was saved in a thread could not be.
        """
        if self._saving and self._saving.done():
            self.settle()
        section, last = self.job.train, step == self.job.steps
        keep, wish = section.checkpoint, Decision()
        if self._world == 1 or last or not step % section.log_every:
            minutes = (time.monotonic() - self._saved) / 60
            wish = self._agreement.on(str(step), Decision(0 < keep.every_minutes <= minutes, self._asked))
        self._stop = self._stop or wish.stop
        save = last or wish.save or self._stop or _every(keep.every_steps, step)
        validate = bool(section.validation.every_steps) and (last or _every(section.validation.every_steps, step))
        self._due = DueActions(save or validate or not step % section.log_every, validate, save, self._stop)
        return self._due

    def log(self, step: int, **figures: float) -> None:
        """Write down figures of training, `loss` among them; rank 0's are kept.

        Raises:
            InputError: the loss is not finite; nothing more is saved.
            MachineError: the disk is full or not writable.
        """
        self.check(step, figures.get("loss", 0.0))
        self._record("log", step, figures)

    def validated(self, step: int, loss: float, **figures: float) -> None:
        """Write down figures of the validation split; the next checkpoint of this step is known by its loss.

        Every rank calls it. Where `keep_best` will keep this step, its checkpoint becomes due.

        Raises:
            InputError: the loss is not finite.
            MachineError: the disk is full or not writable; rank 0 does not answer.
        """
        self.check(step, loss)
        self._loss = step, float(loss)
        self._record("validation", step, {"loss": loss, **figures})
        if self.job.train.checkpoint.keep_best and not self._due.checkpoint:
            self._due.checkpoint = self._agreement.on(f"best-{step}", Decision(save=self._best.beaten_by(loss))).save
        self._best.add(loss)

    def check(self, step: int, value: float, name: str = "loss") -> None:
        """See that a figure of a step is a number; what is saved is good then. `log` and `validated` do it for losses.

        Raises:
            InputError: it is not; the newest checkpoint is named.
        """
        if not math.isfinite(value):
            self.settle()
            found = self._checkpoints.committed()
            good = f"the newest checkpoint is {found[-1].folder.name}" if found else "there is no checkpoint yet"
            fix = "take a lower train.optimizer.lr, a longer warm-up or another precision, in another output directory"
            raise InputError(f"the {name} is {value} at step {step}; {good}", where=str(self._run), fix=fix)

    @contextlib.contextmanager
    def checkpoint(self, step: int, loss: float | None = None) -> Iterator[Path]:
        """Give a folder to fill; at the end of the block it is the checkpoint of the step.

        Every rank comes here and fills the same folder, with files of different names.

        Args:
            step: how many updates are done.
            loss: on the validation split; by default what `validated` was told of this step.

        Raises:
            InputError: the loss is not finite.
            MachineError: the disk is full or not writable; earlier checkpoints are kept.
        """
        loss = self._measured(step) if loss is None else loss
        self.check(step, loss or 0.0)
        self.settle()
        self._beat()
        with self._committing(step, loss) as folder:
            yield folder
        self._beat()

    def save(self, step: int, fill: Callable[[Path], None]) -> None:
        """Make a checkpoint in a thread, while training goes on. One is made at a time: this waits for the one before.

        Args:
            step: how many updates are done.
            fill: is given the folder, in that thread. What it writes must not change meanwhile.

        Raises:
            InputError: the validation loss of this step is not finite.
            JprepError: the one before could not be saved. Errors of this one come from what is called next: `due`,
                `save`, `settle` or `finish`.
        """

        def commit(loss: float | None) -> None:
            with self._committing(step, loss) as folder:
                fill(folder)

        self.settle()
        self._saved, loss = time.monotonic(), self._measured(step)
        self.check(step, loss or 0.0)
        self._saving = self._pool.submit(commit, loss)

    def settle(self) -> None:
        """Wait for what is being saved.

        Raises:
            MachineError: the disk is full or not writable; earlier checkpoints are kept.
        """
        saving, self._saving = self._saving, None
        if saving:
            saving.result()

    def _measured(self, step: int) -> float | None:
        """The validation loss of a step, where it was measured."""
        return self._loss[1] if self._loss[0] == step else None

    @contextlib.contextmanager
    def _committing(self, step: int, loss: float | None) -> Iterator[Path]:
        begun = time.monotonic()
        with self._checkpoints.saving(step, loss, self._part) as folder:
            yield folder
        self._saved = time.monotonic()
        self._record("checkpoint", step, {"seconds": round(self._saved - begun, 3)})

    def finish(self) -> None:
        """Say how it ended, and let go of the run.

        Raises:
            JprepError: steps are left, and nobody asked to leave; or what was saved last could not be.
        """
        self.settle()
        if self._step < self.job.steps and not self.stopping:
            raise JprepError(f"the worker left after {self._step} of {self.job.steps} steps", where=str(self._run))
        if self._step < self.job.steps:
            self._record("signal", self._step, note="asked to leave")
        else:
            self._record("end", self._step, {"code": 0})
        self.close()

    def close(self) -> None:
        """Let go of the run, without a word."""
        self._open.close()

    def _record(self, kind: EventKind, step: int, figures: Mapping[str, float] = {}, note: str = "") -> None:
        if not self._rank:
            record_event(self._run, kind, step, {name: float(value) for name, value in figures.items()}, note)

    def _beat(self) -> None:
        now = time.monotonic()
        if not self._rank and now - self._beaten > _BEAT:
            self._beaten = now
            try:
                (self._run / HEARTBEAT).touch()
            except OSError as error:
                raise write_error(error, self._run / HEARTBEAT) from error


def run_worker(
    train: Callable[[Session], None], run: Path, rank: int = 0, world: int = 1, *, whole: bool = False
) -> int:
    """Run a worker's page: a session is opened, given to `train` and finished; the exit code says how it went.

    What a restart cannot mend is written down as the run's end, for the supervisor; launchers lose exit codes.

    Args:
        train: takes the session through its batches.
        run: the run directory.
        rank: this process's number.
        world: how many processes take part.
        whole: whether each is given all rows of a batch.

    Returns:
        0, or the code of a `JprepError`, which is printed. Other exceptions go on.
    """
    session = None
    try:
        session = Session(run, rank, world, whole=whole)
        with memory_errors(run, session):
            train(session)
        session.finish()
        return 0
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        if error.exit_code > JprepError.exit_code and _takes_part(run, session):
            with contextlib.suppress(JprepError):  # a full disk takes no event
                record_event(run, "end", session.step if session else 0, end_figures(error), str(error))
        return error.exit_code
    finally:
        if session:
            session.close()


def _takes_part(run: Path, session: Session | None) -> bool:
    """Whether this end is the run's: not that of a worker whose supervisor is dead, beside the next one's."""
    attempt = os.environ.get(ATTEMPT, "")
    return is_current_attempt(run, attempt) if attempt else session is not None


def _every(steps: int, step: int) -> bool:
    return steps > 0 and not step % steps
