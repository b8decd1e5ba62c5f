"""The session of a worker: everything that a backend's worker needs from jprep. `docs/runs.md` shows a whole worker."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.sampler import Batch
from jprep.errors import InputError, JprepError, MachineError
from jprep.io.machine import peak_memory
from jprep.io.os_errors import write_error
from jprep.train.job.best import NO_IMPROVEMENT
from jprep.train.job.config import Job
from jprep.train.job.intervals import is_interval_end
from jprep.train.optimization.schedule import learning_rate
from jprep.train.run.attempt import ATTEMPT, EVALUATE, RESUME, AttemptWatch, is_current_attempt
from jprep.train.run.checkpoints import Rank
from jprep.train.run.commit import step_of
from jprep.train.run.data_lock import check_data
from jprep.train.run.directory import HEARTBEAT, INIT, checkpoints_of, read_job, state_to_resume, write_environment
from jprep.train.run.events import MEMORY, EventKind, record_event
from jprep.train.run.log import on_stderr
from jprep.train.run.ranks import RankLock
from jprep.train.run.resume import patience_at
from jprep.train.worker.batches import Batches
from jprep.train.worker.checkpoint_saver import CheckpointSaver
from jprep.train.worker.out_of_memory import end_figures, memory_errors
from jprep.train.worker.prefetch import Item, prefetch
from jprep.train.worker.profiling import open_profiler
from jprep.train.worker.rank_sync import Decision, DueActions, RankSync, check_ranks
from jprep.train.worker.unsupervised import RunStart, await_start, lead_start

_STEADIER = "use a lower train.optimizer.lr, a longer warm-up or another precision, in another output directory"
_HEARTBEAT_SECONDS = 0.2
_TIMEOUT_FACTOR = 1.5  # of `silent_minutes`; before, the supervisor ends an attempt with a rank that hangs


class Session:
    """A worker's part in a run.

    Steps count updates, from 1: step s is complete after s updates, and its batch is number s - 1 of the sampler.

    Args:
        run: the run directory.
        rank: this process's rank.
        world: the number of ranks.
        whole: whether every rank gets all rows of a batch, as in a single program that shards its batches itself.

    Attributes:
        run: the run directory, absolute.
        job: the job.
        initial_weights: the safetensors file with the weights of step 0.
        start: the number of updates already done.
        resume: the folder of the checkpoint to resume from, or of the training to continue; None at step 0.
        profiler: measures the phases of the steps that `jprep train --profile` names.
        evaluated_split: the split that `validation` yields for `jprep evaluate`; "" in a training. With it, the worker
            validates once, at the step `start`, and trains nothing.

    Raises:
        ConfigError: there is no run, or its batch cannot be divided among the ranks.
        MismatchError: its data has changed.
        MachineError: another process trains there, or the supervisor that started this process is dead.
        JprepError: another process has this rank in the same attempt.
    """

    job: Job

    def __init__(self, run: Path, rank: int = 0, world: int = 1, *, whole: bool = False) -> None:
        self.run = Path(run).absolute()
        self.initial_weights = self.run / INIT
        self._rank, self._world = rank, world
        self._share = (0, 1) if whole else (rank, world)
        self._signalled, self._last_beat, self.evaluated_split = False, 0.0, os.environ.get(EVALUATE, "")
        self._resources = contextlib.ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self.job = read_job(self.run)
        check_ranks(self.job, self._rank, self._world)
        self._handle_signals()
        silence, attempt = 60 * self.job.train.silent_minutes, os.environ.get(ATTEMPT, "")
        self._checkpoints = checkpoints_of(self.run, self.job)
        start = self._join(attempt, silence)
        timeout = silence * _TIMEOUT_FACTOR if attempt else silence
        self._sync = RankSync(self.run, start.attempt, self._rank, self._world, timeout)
        self._saver = CheckpointSaver(self._checkpoints, Rank(self._rank, self._world, timeout), self._record_saved)
        self._resources.callback(self._saver.close)
        self.resume = state_to_resume(self.run, self.job, start.resume, check=not self._rank)
        self.start = self._step = step_of(self.resume) if self.resume else 0
        self._validated = 0, dict[str, float]()
        self._patience = patience_at(self.run, self.job, self.start)
        self._ended_early = self._stop = bool(self.evaluated_split) or (self.start > 0 and self._patience.exhausted)
        self._due, self._best = DueActions(False, False, False, False), self._checkpoints.best()
        self._open_data()
        self.profiler = open_profiler(self.run, self._rank, self._world)
        self._record("start", self.start)
        self._beat()

    def _open_data(self) -> None:
        if not self._rank and not self.evaluated_split:  # `jprep evaluate` has checked what is read
            check_data(self.run, self.job)
            write_environment(self.run)
        self._batches = Batches(self.run, self.job, self.evaluated_split)
        self._batches.open()  # so that errors are raised now

    def _handle_signals(self) -> None:
        """Let SIGTERM and SIGINT only set a flag, which is read between steps."""

        def note(number: int, frame: FrameType | None) -> None:
            self._signalled = True

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._resources.callback(signal.signal, number, signal.signal(number, note))

    def _join(self, attempt: str, timeout: float) -> RunStart:
        """Acquire this rank. The supervisor decides where to resume; without one, rank 0 does."""
        if attempt:
            start = RunStart(attempt, os.environ.get(RESUME, ""))
        elif self._rank:
            start = await_start(self.run, timeout)
        else:
            start = self._resources.enter_context(lead_start(self.run, self._checkpoints))
        self._resources.enter_context(contextlib.closing(RankLock(self.run, self._rank)))
        if attempt:
            if not is_current_attempt(self.run, attempt):
                raise MachineError("the supervisor is dead", where=str(self.run), fix="run the same command again")
            self._resources.enter_context(contextlib.closing(AttemptWatch(self.run, attempt)))
        return start

    def batches(self, from_step: int | None = None) -> Iterator[tuple[int, Batch | LabelledBatch]]:
        """Yield each step and this rank's rows of its batch, until the last step or until the run is stopped.

        Args:
            from_step: the number of updates already done; by default `start`.
        """
        self._step = self.start if from_step is None else from_step
        yield from self._steps(lambda: self._batch(self._step))

    def batches_ahead(self, prepare: Callable[[Batch | LabelledBatch], Item]) -> Iterator[tuple[int, Item]]:
        """Yield as `batches` does from `start` on, with batches prepared ahead of time in a thread.

        Args:
            prepare: called in that thread with each batch; its result is yielded instead of the batch.
        """
        self._step = self.start
        items = prefetch(lambda step: prepare(self._batch(step)), self.start, self.job.steps)
        with contextlib.closing(items):
            yield from self._steps(lambda: next(items))

    def _steps(self, get: Callable[[], Item]) -> Iterator[tuple[int, Item]]:
        """Yield each further step with what `get` returns for it, until the last one or until the run is stopped."""
        while self._step < self.job.steps and not self._stop:
            self._beat()
            item = self.profiler.input(self._step + 1, get)
            self._step += 1
            yield self._step, item

    def _batch(self, step: int) -> Batch | LabelledBatch:
        return self._batches.train.batch(step, *self._share)

    def validation(self) -> Iterator[Batch | LabelledBatch]:
        """Yield this rank's rows of each validation batch: the whole split once, or the job's number of batches.

        The last batch may have fewer rows, and no row for some ranks.

        Raises:
            ConfigError: there is no validation split, or it is empty.
        """
        for batch in self._batches.validating(*self._share):
            self._beat()
            yield batch

    @property
    def step(self) -> int:
        """The step of the last batch yielded; `start` before the first."""
        return self._step

    @property
    def stopping(self) -> bool:
        """Whether the run is being stopped: by a signal or, with several ranks, by rank 0's decision."""
        return self._stop or (self._signalled and self._world == 1)

    def due(self, step: int) -> DueActions:
        """Return what to do after a step. Every rank calls it after every step, and gets the same answer.

        Raises:
            JprepError: a checkpoint that was submitted to a thread could not be saved.
        """
        self._saver.settle(wait=False)
        config, last = self.job.train, step == self.job.steps
        keep, decision = config.checkpoint, Decision()
        if self._world == 1 or last or not step % config.log_every:
            save = 0 < keep.every_minutes <= self._saver.minutes_since_last
            decision = self._sync.decide(str(step), Decision(save, self._signalled))
        self._stop = self._stop or decision.stop
        save = last or decision.save or self._stop or is_interval_end(keep, step, self.job)
        validate = config.validation.enabled and (last or is_interval_end(config.validation, step, self.job))
        self._due = DueActions(save or validate or not step % config.log_every, validate, save, self._stop)
        return self._due

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step's update."""
        config = self.job.train
        return learning_rate(step - 1, self.job.steps, config.optimizer.lr, config.schedule)

    def log(self, step: int, **figures: float) -> None:
        """Log training metrics, `loss` among them, and the main memory of this process; only rank 0 writes them.

        Raises:
            InputError: the loss is not finite; no further checkpoint is saved.
            MachineError: the disk is full or not writable.
        """
        self.check(step, figures.get("loss", 0.0))
        self._record("log", step, figures | {MEMORY: peak_memory()})

    def validated(self, step: int, loss: float, **figures: float) -> None:
        """Log validation metrics; the checkpoint of this step is stored with this loss.

        Every rank calls it. If `keep_best` keeps this step, its checkpoint becomes due.

        Raises:
            InputError: the loss is not finite.
            ConfigError: there is no figure of the name in `checkpoint.best`.
            MachineError: the disk is full or not writable, or rank 0 does not answer.
        """
        self.check(step, loss)
        self._validated = step, {"loss": float(loss), **figures}
        self._record("validation", step, {"loss": loss, **figures})
        if self.job.train.checkpoint.keep_best and not self._due.checkpoint:
            best = self._sync.decide(f"best-{step}", Decision(save=self._best.beaten_by(loss, figures)))
            self._due.checkpoint = best.save
        self._best.add(loss, figures)
        if self.job.train.validation.patience:
            self._stop_early(step)

    def _stop_early(self, step: int) -> None:
        """End training with a checkpoint of this step, if nothing has improved for too long."""
        self._patience.add(self._validated[1])
        decision = Decision(stop=self._patience.exhausted)
        if step < self.job.steps and self._sync.decide(f"patience-{step}", decision).stop:
            self._ended_early = self._stop = True
            self._due.stop = self._due.checkpoint = True

    def check(self, step: int, value: float, name: str = "loss") -> None:
        """Check that a metric is finite before anything is saved. `log` and `validated` check their losses.

        Raises:
            InputError: it is not; the message names the newest checkpoint.
        """
        if not math.isfinite(value):
            self.settle()
            found = self._checkpoints.committed()
            newest = f"the newest checkpoint is {found[-1].folder.name}" if found else "there is no checkpoint yet"
            fix = "give another precision: --set train.precision=fp32" if self.evaluated_split else _STEADIER
            raise InputError(f"the {name} is {value} at step {step}; {newest}", where=str(self.run), fix=fix)

    @contextlib.contextmanager
    def checkpoint(self, step: int, loss: float | None = None) -> Iterator[Path]:
        """Yield a folder to write into; after the block it is the checkpoint of the step.

        Every rank calls it, and writes files of different names into the same folder.

        Args:
            step: the number of updates done.
            loss: the validation loss; by default the one that `validated` got for this step.

        Raises:
            InputError: the loss is not finite.
            MachineError: the disk is full or not writable; earlier checkpoints are kept.
        """
        figures = self._figures(step)
        loss = figures.get("loss") if loss is None else loss
        self.check(step, loss or 0.0)
        self.settle()
        self._beat()
        with self._saver.saving(step, loss, figures) as folder:
            yield folder
        self._beat()

    def save(self, step: int, fill: Callable[[Path], None]) -> None:
        """Save a checkpoint in a thread while training continues, after the previous one is finished.

        Args:
            step: the number of updates done.
            fill: called in that thread with the folder to write into. What it writes must not change meanwhile.

        Raises:
            InputError: the validation loss of this step is not finite.
            JprepError: the previous checkpoint could not be saved. Errors of this one are raised by the next call of
                `due`, `save`, `settle` or `finish`.
        """
        self.settle()
        figures = self._figures(step)
        self.check(step, figures.get("loss", 0.0))
        self._saver.submit(step, figures.get("loss"), figures, fill)

    def settle(self) -> None:
        """Wait for the checkpoint that is being saved.

        Raises:
            MachineError: the disk is full or not writable; earlier checkpoints are kept.
        """
        self._saver.settle()

    def finish(self) -> None:
        """Record how the run ended, and release it.

        Raises:
            JprepError: steps are left although the run was not stopped; or the last checkpoint could not be saved.
        """
        self.profiler.close()
        self.settle()
        if self._step < self.job.steps and not self.stopping:
            what = f"the worker ended after {self._step} of {self.job.steps} steps"
            raise JprepError(what, where=str(self.run))
        if self._step < self.job.steps and not self._ended_early:
            self._record("signal", self._step, note="stopped by a signal")
        else:
            note = NO_IMPROVEMENT if self._ended_early else ""
            self._record("end", self._step, {"code": 0}, note)
        self.close()

    def close(self) -> None:
        """Release the run without recording anything."""
        self._resources.close()

    def _figures(self, step: int) -> Mapping[str, float]:
        """Return the figures of a step's validation; none if there was none."""
        return self._validated[1] if self._validated[0] == step else {}

    def _record_saved(self, step: int, seconds: float) -> None:
        self._record("checkpoint", step, {"seconds": round(seconds, 3)})

    def _record(self, kind: EventKind, step: int, figures: Mapping[str, float] = {}, note: str = "") -> None:
        if not self._rank:
            record_event(self.run, kind, step, {name: float(value) for name, value in figures.items()}, note)

    def _beat(self) -> None:
        now = time.monotonic()
        if not self._rank and now - self._last_beat > _HEARTBEAT_SECONDS:
            self._last_beat = now
            try:
                (self.run / HEARTBEAT).touch()
            except OSError as error:
                raise write_error(error, self.run / HEARTBEAT) from error


def run_worker(
    train: Callable[[Session], None], run: Path, rank: int = 0, world: int = 1, *, whole: bool = False
) -> int:
    """Open a session, train with it, and finish it. Return the exit code.

    An error that no restart can fix is recorded as the run's end for the supervisor, because launchers lose exit codes.

    Args:
        train: takes the session through its batches.
        run: the run directory.
        rank: this process's rank.
        world: the number of ranks.
        whole: whether every rank gets all rows of a batch.

    Returns:
        0, or the exit code of a `JprepError`, which is printed. Other exceptions are raised.
    """
    session = None
    try:
        session = Session(run, rank, world, whole=whole)
        with memory_errors(session):
            train(session)
        session.finish()
        return 0
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        if error.exit_code > JprepError.exit_code and _takes_part(run, session):
            with contextlib.suppress(JprepError):  # on a full disk no event can be written
                record_event(run, "end", session.step if session else 0, end_figures(error), str(error))
        return error.exit_code
    finally:
        if session:
            session.close()


def _takes_part(run: Path, session: Session | None) -> bool:
    """Return whether this process may end the run; not if its supervisor is dead, as another one may have started."""
    attempt = os.environ.get(ATTEMPT, "")
    return is_current_attempt(run, attempt) if attempt else session is not None
