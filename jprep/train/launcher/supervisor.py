"""The supervisor: start a run's worker, watch it, and restart it from the last committed step."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.errors import JprepError, MachineError
from jprep.io.lock import hold_lock
from jprep.io.retry import retry_transient
from jprep.io.shared.ownership import check_ownership
from jprep.train.backend import Plan
from jprep.train.hosts.files import request_stop
from jprep.train.hosts.planning import Replan
from jprep.train.hosts.starting import attempt_command, attempt_environment
from jprep.train.hosts.watch import HostWatch
from jprep.train.job.best import NO_IMPROVEMENT, early_end_reason
from jprep.train.job.config import Job
from jprep.train.launcher.memory_watch import MemoryWatch
from jprep.train.launcher.multihost import announced_end
from jprep.train.launcher.signals import STOPPED, TO_BE_CONTINUED, killed_rank, signal_name
from jprep.train.launcher.silence import Silence
from jprep.train.launcher.stop_requests import StopRequests
from jprep.train.run.attempt import ATTEMPT, EVALUATE, FATAL_EXIT_CODES, NO_ATTEMPT, RESUME, announce_attempt
from jprep.train.run.checkpoints import Checkpoint, disk_full_error
from jprep.train.run.data_lock import check_data
from jprep.train.run.directory import LOCK, checkpoints_of, read_job, read_plan, write_plan
from jprep.train.run.events import (
    EVENTS,
    Event,
    EventReader,
    first_failure,
    last_end,
    metric_rows,
    read_events,
    record_event,
)
from jprep.train.run.log import LOG, Say, cut_log, last_log_line, log_tail, on_stderr, start_logged
from jprep.train.run.profile import PROFILE
from jprep.train.run.ranks import clear_ranks, kill_group, signal_ranks
from jprep.train.run.resume import checkpoint_to_resume, is_complete, rewind
from jprep.train.run.status import read_status
from jprep.train.trackers.follow import track_run
from jprep.train.uploads.background import BackgroundTask, background_tasks
from jprep.train.uploads.mirror import Mirror, mirroring
from jprep.train.worker.out_of_memory import OUT_OF_MEMORY, out_of_memory

_LONGEST_PAUSE = 60.0
_BACKGROUND_POLL_SECONDS = 2.0  # between two polls of background tasks, and of the size of the log
_GRACE = 10.0  # seconds for process 0 to exit by itself after a fatal error on another host
_EXIT_SECONDS = 60.0  # without a sign of life after the last checkpoint


class AttemptResult(NamedTuple):
    """How an attempt ended.

    Attributes:
        code: the worker's exit code; negative for a signal.
        reason: the reason, as a message.
        stopped: whether the worker stopped on request.
        out_of_memory: whether memory was full.
        lost: names of hosts that were lost.
    """

    code: int
    reason: str
    stopped: bool = False
    out_of_memory: bool = False
    lost: tuple[str, ...] = ()


def supervise(
    run: Path,
    plan: Plan,
    *,
    resume_step: int | None = None,
    say: Say = on_stderr,
    backoff: float = 1.0,
    mirror: Mirror | None = None,
    replan: Replan | None = None,
) -> int:
    """Train a run to its end, restarting its worker as needed.

    On the first SIGTERM, SIGINT, SIGHUP or SIGUSR1 the worker saves and stops; on the second it is killed.

    Args:
        run: a directory made by `open_run`.
        plan: how the worker is started.
        resume_step: the step of the checkpoint to resume from, 0 for the beginning; later checkpoints are set aside.
            None resumes from the newest valid one.
        say: called with a message for the user.
        backoff: seconds before the first restart; doubled for each further one without progress, up to a minute.
        mirror: copies the run elsewhere meanwhile.
        replan: plans the run without lost hosts; None if it has no hosts.

    Returns:
        0, the run is finished; 130, it was stopped, and the same call resumes it; 2, 3 or 4, the worker met an error
        that a restart does not fix; 75, hosts were lost and the run needs more than are left, or it was stopped by
        SIGUSR1, a scheduler's sign that the time limit is near; 1, it died too often.

    Raises:
        MachineError: another process trains there, the worker cannot be started, the disk is full, or a checkpoint
            cannot be read.
        InputError: the run has saved steps, and no valid checkpoint is left.
        MismatchError: the data has changed.
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
        if resume_step is not None:
            rewind(run, checkpoints, 0 if resume_step == job.steps_before else resume_step)
        with (
            announced_end(run, plan) as codes,
            StopRequests() as requests,
            mirroring(mirror, lambda: requests.count, rewound=resume_step is not None),
            track_run(run, job, say, lambda: requests.count),
        ):
            background = background_tasks(run, job, say)
            code = _Supervisor(run, job, plan, say, backoff, requests, background, replan).supervise()
            for task in background:
                task.finish(complete=code == 0, stopped=lambda: requests.count > 0)
            codes.append(code)
            return code


class _Supervisor:
    """Runs one attempt after another, until the run is finished, stopped or failed; see `supervise`.

    An attempt is one start of the worker, from the newest checkpoint. Its result decides whether there is another one.
    """

    def __init__(
        self,
        run: Path,
        job: Job,
        plan: Plan,
        say: Say,
        backoff: float,
        requests: StopRequests,
        background: Sequence[BackgroundTask],
        replan: Replan | None,
    ) -> None:
        self._run, self._job, self._plan, self._say, self._backoff = run, job, plan, say, backoff
        self._requests, self._background, self._replan = requests, background, replan
        self._lost: set[str] = set()
        self._checkpoints = checkpoints_of(run, job)
        self._name = secrets.token_hex(8)
        self._events = EventReader(run)
        self._end: Event | None = None
        self._endings: list[Event] = []  # `end` and `signal` events of the current attempt
        self._attempts = self._failures = self._reached = self._forwarded = 0
        self._read_events()

    def supervise(self) -> int:
        """Run attempts until the run is finished, stopped or failed. Return the exit code."""
        code = None
        while code is None:
            latest = checkpoint_to_resume(self._run, self._checkpoints)
            step = latest.step if latest else self._job.steps_before
            if is_complete(self._run, self._job, step):
                return self._report_finished(step)
            self._reached = max(step, self._reached)
            code = self._conclude(self._attempt(latest), step)
        return code

    def _conclude(self, result: AttemptResult, started: int) -> int | None:
        """Return the exit code of the run after an attempt that started at a step; None to restart the worker."""
        if self._requests.count or result.stopped:
            return self._report_stopped()
        step = self._saved_step()
        if self._is_fatal(result, progressed=step > started):
            return self._report_failure(result.code, result.reason)
        if result.lost and not self._leave_out(result.lost):
            return self._report_lost_hosts(result.reason)
        complete = is_complete(self._run, self._job, step)  # it is finished, or died on its way out
        self._attempts += 1
        self._failures = 1 if step > self._reached and not complete else self._failures + 1
        allowed = self._job.train.max_restarts + (1 if complete else 0)
        if self._failures > allowed:
            return self._report_too_often(result, complete=complete)
        if complete:
            return None
        self._pause(step, result.reason)
        return self._report_stopped() if self._requests.count else None

    def _is_fatal(self, result: AttemptResult, *, progressed: bool) -> bool:
        """Return whether a restart would fail alike. After progress, one host may have the memory at another time."""
        may_have_memory = result.out_of_memory and progressed and self._plan.machines == 1
        return result.code in FATAL_EXIT_CODES and not may_have_memory

    def _leave_out(self, lost: Sequence[str]) -> bool:
        """Plan without lost hosts; return whether the run can continue."""
        self._lost |= set(lost)
        if self._plan.placement and self._plan.placement.starter == "join":
            return True  # an outer launcher may start them again
        plan = self._replan(self._lost) if self._replan else None
        if plan:
            profile = {name: value for name, value in self._plan.env.items() if name == PROFILE}
            self._plan = msgspec.structs.replace(plan, env=plan.env | profile)
        return plan is not None

    def _report_too_often(self, result: AttemptResult, *, complete: bool) -> int:
        if result.lost:
            return self._report_lost_hosts(result.reason)
        if complete:
            verb, reason = "ended", "the last checkpoint was damaged every time"
        else:
            verb, reason = "died", f"the last time {result.reason}"
        return self._report_failure(1, f"the worker {verb} {self._failures} times without progress; {reason}")

    def _attempt(self, latest: Checkpoint | None) -> AttemptResult:
        """Start the worker and wait for its end. None of its processes is left afterwards."""
        attempt, self._end, self._endings = f"{self._name}-{self._attempts}", None, []
        own = {ATTEMPT: attempt, RESUME: latest.folder.name if latest else "", EVALUATE: ""}
        plan = msgspec.structs.replace(self._plan, env=self._plan.env | own)
        write_plan(self._run, plan)  # before the announcement: processes on other hosts read it then
        announce_attempt(self._run, attempt)
        memory = MemoryWatch(self._run)
        hosts = HostWatch(self._run, plan, attempt)
        with self._started(plan, attempt, hosts) as process:
            hung = self._watch(process, memory, hosts)
        self._read_events()
        if hosts.lost() and not self._fatal_error():
            return AttemptResult(process.returncode, f"lost {', '.join(hosts.lost())}", lost=hosts.lost())
        return self._result(process.returncode, memory, plan, hung=hung, failed=hosts.failed())

    def _result(self, code: int, memory: MemoryWatch, plan: Plan, *, hung: bool, failed: str) -> AttemptResult:
        if error := self._fatal_error():  # launchers lose the exit codes of their workers
            return AttemptResult(int(error.figures["code"] or 1), error.note, False, OUT_OF_MEMORY in error.figures)
        if hung:
            return AttemptResult(code, f"it showed no sign of life for {self._job.train.silent_minutes:g} minutes")
        if not self._requests.count and (why := memory.reason(code, plan.processes)):
            full = out_of_memory(self._run, self._job, self._logged_step(), why)
            return AttemptResult(full.exit_code, str(full), out_of_memory=True)
        stopped = code == 0 and any(event.kind == "signal" for event in self._endings)
        return AttemptResult(code, failed or self._reason(code, memory.written()), stopped)

    def _reason(self, code: int, output: str) -> str:
        if code == MachineError.exit_code and (full := disk_full_error(self._run)):
            return str(full)  # which neither the events nor the log could take
        if code < 0:
            return f"it was killed by {signal_name(-code)}"
        return killed_rank(output) or f"it exited with code {code}"

    def _saved_step(self) -> int:
        """Return the step of the newest checkpoint, or that with which the run begins."""
        return max((one.step for one in self._checkpoints.committed()), default=self._job.steps_before)

    def _logged_step(self) -> int:
        """Return the last logged step."""
        return read_status(self._run).step

    def _read_events(self) -> None:
        """Read the events since the last call, and keep those that end an attempt."""
        fix = "repair the file system, then run the same command again"
        events = retry_transient(self._events.new, self._run / EVENTS, fix)
        self._endings += [event for event in events if event.kind in ("end", "signal")]
        self._end = last_end(events, self._end)

    def _fatal_error(self) -> Event | None:
        """Return the first fatal error of this attempt."""
        return first_failure(self._endings)

    @contextlib.contextmanager
    def _started(self, plan: Plan, attempt: str, hosts: HostWatch) -> Iterator[subprocess.Popen[bytes]]:
        env, argv = attempt_environment(plan, os.environ), attempt_command(self._run, plan, attempt)
        process = start_logged(self._run, argv, env)
        try:
            yield process
        finally:  # no process of this attempt may outlive it
            try:
                announce_attempt(self._run, NO_ATTEMPT)
                hosts.settle(process, hurry=lambda: self._requests.count > 1)
            finally:  # also if another host has taken over the run
                kill_group(process)
            clear_ranks(self._run)
            self._checkpoints.clean()

    def _watch(self, process: subprocess.Popen[bytes], memory: MemoryWatch, hosts: HostWatch) -> bool:
        """Wait for the worker's end or for a failure on another host; return whether the worker hangs."""
        silence, failed_at, polled_at = Silence(self._run), 0.0, 0.0
        while process.poll() is None:
            memory.poll()
            self._forward_stop(process)
            has_new_sign, now = silence.poll(), time.monotonic()
            if silence.seconds > 60 * self._job.train.silent_minutes:
                return True
            if not failed_at and ((has_new_sign and self._failed_elsewhere()) or hosts.poll()):
                failed_at = now
            if failed_at and (hosts.lost() or now - failed_at > _GRACE):
                return False
            if now - polled_at > _BACKGROUND_POLL_SECONDS:
                polled_at = now
                self._poll_background()
                if silence.exceeds_once(_EXIT_SECONDS) and self._has_only_to_exit():
                    why = f"its steps are done, and it showed no sign of life for {_EXIT_SECONDS:g} s"
                    self._say(f"the worker is killed: {why}")
                    return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        return False

    def _forward_stop(self, process: subprocess.Popen[bytes]) -> None:
        """Pass new stop requests on to the worker."""
        if self._requests.count > self._forwarded:
            self._forwarded = self._requests.count
            self._stop_worker(process, at_once=self._forwarded > 1)

    def _poll_background(self) -> None:
        check_ownership()
        for task in self._background:
            task.poll()
        cut_log(self._run)

    def _has_only_to_exit(self) -> bool:
        """Return whether all steps of a silent worker are done and saved."""
        if PROFILE not in self._plan.env:  # a long trace takes minutes to write
            with contextlib.suppress(MachineError):  # a transient error of the file system
                return is_complete(self._run, self._job, self._saved_step())
        return False

    def _failed_elsewhere(self) -> bool:
        """Return whether a process on another host has failed, which the others would otherwise wait for."""
        if self._plan.machines == 1:
            return False
        self._read_events()
        return self._fatal_error() is not None

    def _stop_worker(self, process: subprocess.Popen[bytes], *, at_once: bool) -> None:
        """Signal the ranks themselves if they are known: a launcher would give them little time."""
        with contextlib.suppress(ProcessLookupError):
            if at_once:
                os.killpg(process.pid, signal.SIGKILL)
            elif self._plan.placement:
                request_stop(self._run, read_plan(self._run).env[ATTEMPT])
                self._say("saving; interrupt once more to stop now")
            elif signal_ranks(self._run, signal.SIGTERM):
                self._say("saving; interrupt once more to stop now")
            else:
                os.killpg(process.pid, signal.SIGTERM)

    def _pause(self, step: int, reason: str) -> None:
        """Report a restart, and wait before it."""
        line = last_log_line(self._run)
        note = f"the worker died: {reason}; restarting from step {step}" + (f"; last log line: {line}" if line else "")
        record_event(self._run, "restart", step, {"failures": self._failures}, note)
        self._say(note)
        until = time.monotonic() + min(_LONGEST_PAUSE, self._backoff * 2 ** (self._failures - 1))
        while time.monotonic() < until and not self._requests.count:
            time.sleep(0.02)

    def _report_finished(self, step: int) -> int:
        self._read_events()
        early, steps = step < self._job.steps, self._job.steps
        if self._end is None or self._end.figures.get("code"):
            record_event(self._run, "end", step, {"code": 0}, NO_IMPROVEMENT if early else "")
        if early:
            why = early_end_reason(self._job.train, metric_rows(read_events(self._run), "validation"))
            more = "a larger train.validation.patience continues it"
            self._say(f"ended early, at step {step:,} of {steps:,}: {why}; {more}")
        return 0

    def _report_stopped(self) -> int:
        found = self._checkpoints.committed()
        saved = f"step {found[-1].step} is saved" if found else "nothing is saved"
        self._say(f"stopped; {saved}; run the same command again to resume")
        if found and is_complete(self._run, self._job, found[-1].step):
            return 0
        return TO_BE_CONTINUED if self._requests.time_limit else STOPPED

    def _report_lost_hosts(self, reason: str) -> int:
        self._say(f"{reason}; the run cannot continue on the hosts that are left; run the same command again to resume")
        return TO_BE_CONTINUED

    def _report_failure(self, code: int, reason: str) -> int:
        if self._end is None:
            with contextlib.suppress(JprepError):  # on a full disk no event can be written
                record_event(self._run, "end", self._saved_step(), {"code": code}, reason)
        log = log_tail(self._run).replace(f"jprep: {reason}", "").strip()  # the reason is shown already
        end = f"\n  the end of {LOG}:\n{log}" if log else ""
        self._say(f"the run failed: {reason}\n  run:   {self._run}{end}")
        return code
