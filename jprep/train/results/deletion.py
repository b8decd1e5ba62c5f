"""Delete a run, so that the same directory can hold another one: `jprep train --restart`."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import RUN
from jprep.errors import ConfigError
from jprep.io.os_errors import write_error
from jprep.train.hooks.config import HOOKS
from jprep.train.launcher.service import STOP_FILE
from jprep.train.launcher.start_command import COMMAND
from jprep.train.run.attempt import NO_ATTEMPT, announce_attempt
from jprep.train.run.checkpoints import ASIDE, DAMAGED, PARTIAL
from jprep.train.run.data_lock import DATA_LOCK, VERIFIED
from jprep.train.run.directory import (
    CHECKPOINTS,
    ENVIRONMENT,
    EVALUATIONS,
    HEARTBEAT,
    INIT,
    INIT_HASH,
    JOB,
    PLAN,
    START,
)
from jprep.train.run.events import EVENTS
from jprep.train.run.log import LOG
from jprep.train.run.profile import PROFILES
from jprep.train.run.ranks import RANKS, clear_ranks
from jprep.train.run.text_samples import SAMPLES
from jprep.train.trackers.tensorboard import TENSORBOARD
from jprep.train.trackers.wandb import STATE as WANDB
from jprep.train.uploads.mirror import STAGED
from jprep.train.uploads.mirrored_run import MirroredRun
from jprep.train.uploads.push import PUSH

_FILES = (
    DATA_LOCK, VERIFIED, PLAN, COMMAND, ENVIRONMENT, INIT, INIT_HASH, HEARTBEAT, LOG, EVENTS, SAMPLES, PUSH, WANDB,
    STOP_FILE, TENSORBOARD, f"{HOOKS}/*", f"{RANKS}/*", f"{EVALUATIONS}/step-*.json",
)  # fmt: skip
_CHECKPOINT = re.compile(rf"({PARTIAL}|unreadable-|({DAMAGED}|{ASIDE})(\d+-)?)?step-\d{{8,}}")
_PROFILE = re.compile(r"steps-\d+-\d+")


def check_restart(mirrors: Iterable[str]) -> None:
    """Check that no mirror has a run, which would be downloaded in the place of the deleted one.

    Args:
        mirrors: `train.checkpoint.mirror` of each run; "" for none.

    Raises:
        ConfigError: a mirror has a run.
        MachineError: a mirror cannot be read.
    """
    for url in mirrors:
        if url and MirroredRun(url).read(JOB) is not None:
            fix = "delete it, or give the new run another train.checkpoint.mirror"
            raise ConfigError("--restart does not delete the run of a mirror", where=url, fix=fix)


def delete_run(run: Path) -> None:
    """Delete the job, the events, the checkpoints and all else that training has written to a run directory.

    Files of the user stay, and so do lists of samples, exports, and what the libraries of trackers wrote (`wandb/`,
    `mlruns/`). The job is deleted last: after an interruption the directory is still recognized as a run. In the end
    `data.lock.json` shows that the directory, whatever else it holds, is for a run; the next one writes it again.

    Args:
        run: the run directory, which need not exist.

    Raises:
        ConfigError: it holds something else.
        MachineError: another process uses it, or it cannot be written.
    """
    out = OutputDirectory(run, RUN, files=_FILES)
    out.check()
    if not run.exists():
        return
    with out.claim():
        announce_attempt(run, NO_ATTEMPT)
        clear_ranks(run)  # those that a killed supervisor left
        try:
            _delete(out)
        except OSError as error:
            raise write_error(error, run) from error


def _delete(out: OutputDirectory) -> None:
    for path in _folders(out.path):
        shutil.rmtree(path)
    out.remove_files(keep=(DATA_LOCK,))
    for name in (CHECKPOINTS, START, PROFILES, HOOKS, RANKS, EVALUATIONS, Path(TENSORBOARD).parent):
        with contextlib.suppress(OSError):  # it contains files of the user, or does not exist
            (out.path / name).rmdir()
    (out.path / DATA_LOCK).touch()
    out.remove_manifest()


def _folders(run: Path) -> list[Path]:
    """Return the folders that are deleted as a whole: states of the training, profiles, and the mirror's links."""
    found = [path for folder in (CHECKPOINTS, START) for path in (run / folder).glob("*")]
    found = [path for path in found if _CHECKPOINT.fullmatch(path.name)]
    found += [path for path in (run / PROFILES).glob("*") if _PROFILE.fullmatch(path.name)]
    return [path for path in (*found, run / STAGED) if path.is_dir() and not path.is_symlink()]
