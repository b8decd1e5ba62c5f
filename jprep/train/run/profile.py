"""Profiles of a run: which steps are profiled, and where their time went. `jprep.train.worker.profiling` makes them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic
from jprep.typed_json import decode_json

PROFILE = "JPREP_PROFILE"
"""Environment variable of a worker: the steps to profile, as `20:25`."""

PROFILES = "profile"
"""The folder of a run's profiles."""

SUMMARY, TABLE = "summary.json", "table.txt"

PHASES = ("input", "forward", "backward", "optimizer", "device", "waiting", "other")
"""Rows of the table: batches and their transfer; the parts of the update; what a device computes as one program, if its
parts are not known; waiting for other processes; all else, e.g. logging, validation, checkpoints."""

_EXAMPLE = "e.g. --profile steps=20:25"


class ProfileSteps(NamedTuple):
    """The steps to profile.

    Attributes:
        first: the first step, from 1.
        last: the last step, which is profiled too.
    """

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"

    @property
    def folder(self) -> str:
        """The folder of the profile, relative to the run directory."""
        return f"{PROFILES}/steps-{self.first}-{self.last}"


class ProfileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json`: where the time of one process went.

    Attributes:
        first: the first step that was profiled.
        last: the last one.
        rank: the process.
        processes: the number of processes.
        seconds: wall-clock time of these steps.
        phases: seconds by phase, see `PHASES`; they add up to `seconds`.
        trace: files of the trace, relative to the folder of the summary.
        notes: what a reader of the figures should know.
    """

    first: int
    last: int
    rank: int
    processes: int
    seconds: float
    phases: dict[str, float]
    trace: list[str] = []
    notes: list[str] = []


def parse_profile(text: str) -> ProfileSteps:
    """Return the steps that `steps=FIRST:LAST`, `steps=STEP` or the same without `steps=` names.

    Raises:
        ConfigError: it has another form, or the last step is before the first.
    """
    first, colon, last = text.removeprefix("steps=").partition(":")
    if not first.isdecimal() or (colon and not last.isdecimal()):
        raise ConfigError(f"--profile {text} names no steps", where="--profile", fix=_EXAMPLE)
    found = ProfileSteps(int(first), int(last) if colon else int(first))
    if not 1 <= found.first <= found.last:
        what = f"--profile {text}: steps are counted from 1, and the last is not before the first"
        raise ConfigError(what, where="--profile", fix=_EXAMPLE)
    return found


def check_profile(steps: ProfileSteps, total: int, done: int) -> None:
    """Check that a run will compute the steps.

    Args:
        steps: the steps.
        total: the number of steps of the run.
        done: the number of steps after which it starts or resumes.

    Raises:
        ConfigError: it will not compute all of them.
    """
    if done >= total:
        raise ConfigError(f"the run is finished after {total:,} steps", where="--profile", fix="leave --profile out")
    if steps.last > total or steps.first <= done:
        begins = f"resumes after step {done:,}" if done else "starts at step 1"
        what = f"steps {steps} are outside the run, which {begins} and ends with step {total:,}"
        first = min(done + 2, total)  # the first step after a start compiles or warms up
        fix = f"--profile steps={first}:{min(first + 5, total)}"
        raise ConfigError(what, where="--profile", fix=fix)


def write_summary(folder: Path, summary: ProfileSummary) -> None:
    """Write `summary.json` and `table.txt` into a process's folder.

    Raises:
        MachineError: they cannot be written.
    """
    write_atomic(folder / SUMMARY, msgspec.json.format(msgspec.json.encode(summary), indent=1))
    write_atomic(folder / TABLE, f"{format_table(summary)}\n".encode())


def read_summaries(run: Path, steps: ProfileSteps) -> list[ProfileSummary]:
    """Return the summaries of a profile, one for each process that has written one."""
    files = sorted((run / steps.folder).glob(f"rank-*/{SUMMARY}"))
    found = (decode_json(path.read_bytes(), ProfileSummary) for path in files)
    return sorted(found, key=lambda summary: summary.rank)


def format_table(summary: ProfileSummary) -> str:
    """Return the shares of the phases as text."""
    count = summary.last - summary.first + 1
    one = f"process {summary.rank} of {summary.processes}, " if summary.processes > 1 else ""
    lines = [f"steps {summary.first:,} to {summary.last:,} ({one}{summary.seconds / count:.4f} s a step)"]
    lines.append(f"  {'':<10}{'share':>8}{'s a step':>12}")
    for name in (name for name in PHASES if name in summary.phases):
        seconds = summary.phases[name]
        lines.append(f"  {name:<10}{seconds / max(summary.seconds, 1e-9):>8.1%}{seconds / count:>12.4f}")
    return "\n".join([*lines, *(f"  {note}" for note in summary.notes)])
