"""Keeps a run going: starts its worker, watches it, and starts it again from the last committed step."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import msgspec

from jprep.errors import JprepError, MachineError
from jprep.io.lock import hold_lock
from jprep.io.retry import retry_transient
from jprep.train.backend import Plan
from jprep.train.job.config import Job
from jprep.train.launcher.trackers import Trackers
from jprep.train.run.attempt import (
    ATTEMPT,
    FATAL_EXIT_CODES,
    NO_ATTEMPT,
    RESUME,
    announce_attempt,
    clear_ranks,
    signal_ranks,
    stop_signals,
)
from jprep.train.run.checkpoints import Checkpoint, disk_full_error
from jprep.train.run.data_lock import check_data
from jprep.train.run.directory import LOCK, checkpoints_of, read_job, write_plan
from jprep.train.run.events import EVENTS, Event, EventReader, last_end, read_events, record_event
from jprep.train.run.log import LOG, Say, cut_log, last_log_line, log_tail, on_stderr, open_log
from jprep.train.run.resume import checkpoint_to_resume, rewind
from jprep.train.run.status import RunStatus
from jprep.train.worker.out_of_memory import OUT_OF_MEMORY, MemoryWatch, out_of_memory
from jprep.train.worker.session import HEARTBEAT

_LONGEST_PAUSE = 60.0
_STOPPED = 130
_TRACKED_EVERY = 2.0  # seconds
_GRACE = 10.0  # seconds for process 0 to leave by itself, where one on another machine has said that it cannot go on


class AttemptResult(NamedTuple):
    """How an attempt ended.

    Attributes:
        code: the exit code; negative for a signal.
        reason: in words.
        left: whether the worker was asked to leave, and did.
        memory: whether memory was full.
    """

    code: int
    reason: str
    left: bool
    memory: bool = False


def supervise(run: Path, plan: Plan, *, resume: str = "auto", say: Say = on_stderr, backoff: float = 1.0) -> int:
    """Bring a run to its end, or as far as somebody lets it.

    The first SIGTERM, SIGINT or SIGHUP has the worker save and leave, the second ends it at once.

    Args:
        run: a directory that `open_run` has made.
        plan: how the worker is started.
        resume: `auto`, from the last good checkpoint; a step; `never`, from the beginning. Later checkpoints
            are set aside.
        say: is told what a user should know.
        backoff: seconds before the first restart; each further one without progress doubles them, up to a minute.

    Returns:
        0, the run is finished; 130, it was stopped and the same call goes on; 2, 3 or 4, the worker met an error that
        no restart mends; 1, it died too often.

    Raises:
        MachineError: another process trains there, the command cannot be started, the disk is full, a checkpoint cannot
            be read.
        InputError: the run has saved steps, and no whole checkpoint is left.
        MismatchError: the data is not what it was.
        ConfigError: there is no run, or no such checkpoint.
    """
    run = Path(run).absolute()
    job = read_job(run)
    with hold_lock(run / LOCK):
        announce_attempt(run, NO_ATTEMPT)
        clear_ranks(run)
        check_data(run, job, say)
        checkpoints = checkpoints_of(run, job)
        checkpoints.clean()
        if resume != "auto":
            rewind(run, checkpoints, 0 if resume == "never" else int(resume))
        with _StopRequests() as asked, contextlib.closing(Trackers(run, job, say)) as trackers:
            return _Supervisor(run, job, plan, say, backoff, asked, trackers).to_the_end()


class _StopRequests:
    """Counts signals for the time of a block."""

    def __init__(self) -> None:
        self.times = 0

    def __enter__(self) -> _StopRequests:
        def count(number: int, frame: FrameType | None) -> None:
            self.times += 1

        main = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.signal(number, count) for number in stop_signals()} if main else {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Supervisor:
    def __init__(
        self, run: Path, job: Job, plan: Plan, say: Say, backoff: float, asked: _StopRequests, trackers: Trackers
    ) -> None:
        self._run, self._job, self._plan, self._say, self._backoff = run, job, plan, say, backoff
        self._asked, self._trackers = asked, trackers
        self._checkpoints = checkpoints_of(run, job)
        self._name = secrets.token_hex(8)
        self._follower = EventReader(run)
        self._end: Event | None = None
        self._words: list[Event] = []
        self._hear()

    def to_the_end(self) -> int:
        attempts = failures = reached = 0
        while True:
            latest = checkpoint_to_resume(self._run, self._checkpoints)
            step = latest.step if latest else 0
            if step >= self._job.steps:
                return self._finished()
            reached = max(step, reached)
            ending = self._attempt(latest, attempts)
            if self._asked.times or ending.left:
                return self._stopped()
            begun, step = step, max((one.step for one in self._checkpoints.committed()), default=0)
            if ending.code in FATAL_EXIT_CODES and not (ending.memory and step > begun and self._plan.machines == 1):
                return self._failed(ending.code, ending.reason)
            done = step >= self._job.steps  # it is finished, or died on its way out
            attempts, failures = attempts + 1, (1 if step > reached and not done else failures + 1)
            if failures > self._job.train.max_restarts + done:
                ended = ("ended", "the last checkpoint was damaged every time")
                verb, reason = ended if done else ("died", f"the last time {ending.reason}")
                return self._failed(1, f"the worker {verb} {failures} times without progress; {reason}")
            if done:
                continue
            self._pause(failures, step, ending.reason)
            if self._asked.times:
                return self._stopped()

    def _attempt(self, latest: Checkpoint | None, number: int) -> AttemptResult:
        """Start the worker and see it to its end; nothing of it is left then."""
        attempt, self._end, self._words = f"{self._name}-{number}", None, []
        own = {ATTEMPT: attempt, RESUME: latest.folder.name if latest else ""}
        plan = msgspec.structs.replace(self._plan, env=self._plan.env | own)
        write_plan(self._run, plan)  # others read it once the attempt is announced
        announce_attempt(self._run, attempt)
        memory = MemoryWatch(self._run)
        with self._started(plan) as process:
            silent = self._watch(process)
        code = process.returncode
        self._hear()
        if refusal := self._refusal():  # launchers lose their workers' exit codes
            return AttemptResult(
                int(refusal.figures["code"] or 1), refusal.note, False, OUT_OF_MEMORY in refusal.figures
            )
        if not silent and not self._asked.times and (why := memory.reason(code, plan.processes)):
            error = out_of_memory(self._run, self._job, self._reached(), why)
            return AttemptResult(error.exit_code, str(error), False, memory=True)
        left = code == 0 and any(event.kind == "signal" for event in self._words)
        minutes = self._job.train.silent_minutes
        words = f"it had ended with code {code}" if code >= 0 else f"it was ended by {signal.Signals(-code).name}"
        if code == MachineError.exit_code and (
            full := disk_full_error(self._run)
        ):  # neither event nor log took the reason
            words = str(full)
        return AttemptResult(code, f"it was silent for {minutes:g} minutes" if silent else words, left)

    def _reached(self) -> int:
        """Return the last step whose figures were written."""
        standing = RunStatus()
        standing.add(read_events(self._run))
        return standing.step

    def _hear(self) -> None:
        """Read the events since the last call; those of an attempt's end are kept."""
        fix = "repair the file system, then run the same command again"
        events = retry_transient(self._follower.new, self._run / EVENTS, fix)
        self._words += [event for event in events if event.kind in ("end", "signal")]
        self._end = last_end(events, self._end)

    def _refusal(self) -> Event | None:
        """What this attempt cannot go on for; what others say after that comes of it."""
        return next((event for event in self._words if event.kind == "end" and event.figures.get("code")), None)

    @contextlib.contextmanager
    def _started(self, plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
        env = os.environ | plan.env
        with open_log(self._run) as log:
            try:
                process = subprocess.Popen(
                    plan.argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                fix = "`jprep doctor` says what a backend lacks"
                what = f"the worker cannot be started: {error.strerror}"
                raise MachineError(what, where=plan.argv[0], fix=fix) from error
        try:
            yield process
        finally:  # whatever happens, no process of this attempt outlives it
            announce_attempt(self._run, NO_ATTEMPT)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            clear_ranks(self._run)
            self._checkpoints.clean()

    def _watch(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for its end; whether it had to be ended because it was silent."""
        signs, heard, tracked, passed_on, refused = self._signs(), time.monotonic(), 0.0, 0, 0.0
        patience = 60 * self._job.train.silent_minutes
        while process.poll() is None:
            now = time.monotonic()
            if self._asked.times > passed_on:
                passed_on = self._asked.times
                self._pass_on(process, at_once=passed_on > 1)
            if (found := self._signs()) != signs:
                signs, heard = found, now
                refused = refused or (now if self._refused_elsewhere() else 0.0)
            elif now - heard > patience:
                return True
            if refused and now - refused > _GRACE:
                return False
            if now - tracked > _TRACKED_EVERY:
                tracked = now
                self._trackers.update()
                cut_log(self._run)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        return False

    def _refused_elsewhere(self) -> bool:
        """Whether a process has ended that no launcher here watches, and that the others would wait for."""
        if self._plan.machines == 1:
            return False
        self._hear()
        return self._refusal() is not None

    def _pass_on(self, process: subprocess.Popen[bytes], *, at_once: bool) -> None:
        """Ranks are asked themselves: a launcher that is asked gives them little time."""
        with contextlib.suppress(ProcessLookupError):
            if at_once:
                os.killpg(process.pid, signal.SIGKILL)
            elif signal_ranks(self._run, signal.SIGTERM):
                self._say("saving; once more stops now")
            else:
                os.killpg(process.pid, signal.SIGTERM)

    def _signs(self) -> tuple[int, ...]:
        """What changes while a worker lives."""
        found = []
        for name in (HEARTBEAT, EVENTS):
            with contextlib.suppress(OSError):  # not there yet, or a bad moment of its disk
                found.append((self._run / name).stat().st_mtime_ns)
        return tuple(found)

    def _pause(self, failures: int, step: int, reason: str) -> None:
        said = last_log_line(self._run)
        note = f"the worker died: {reason}; it goes on from step {step}" + (f"; it said last: {said}" if said else "")
        record_event(self._run, "restart", step, {"failures": failures}, note)
        self._say(note)
        until = time.monotonic() + min(_LONGEST_PAUSE, self._backoff * 2 ** (failures - 1))
        while time.monotonic() < until and not self._asked.times:
            time.sleep(0.02)

    def _finished(self) -> int:
        self._hear()
        if self._end is None or self._end.figures.get("code"):
            record_event(self._run, "end", self._job.steps, {"code": 0})
        return 0

    def _stopped(self) -> int:
        found = self._checkpoints.committed()
        self._say(f"stopped; {f'step {found[-1].step}' if found else 'nothing'} is saved, and the same command goes on")
        return 0 if found and found[-1].step >= self._job.steps else _STOPPED

    def _failed(self, code: int, reason: str) -> int:
        if self._end is None:
            step = max((one.step for one in self._checkpoints.committed()), default=0)
            with contextlib.suppress(JprepError):  # a full disk takes no event
                record_event(self._run, "end", step, {"code": code}, reason)
        said = log_tail(self._run).replace(f"jprep: {reason}", "").strip()  # the reason is told already
        end = f"\n  the end of {LOG}:\n{said}" if said else ""
        self._say(f"the run failed: {reason}\n  run:   {self._run}{end}")
        return code
