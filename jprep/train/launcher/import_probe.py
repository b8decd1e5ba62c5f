"""Check what the Python of a backend's environment can import, in a separate process."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from jprep.errors import MachineError
from jprep.train.launcher.signals import signal_name
from jprep.train.run.log import Say, on_stderr

IMPORT_TIMEOUT = 300.0
"""Seconds for importing a framework. With a cold or busy disk it takes more than a minute."""

_NOTICE = 20.0  # seconds before a message names what takes long
_MISSING, _EXITED, _FAILED = 91, 92, 93  # exit codes of `_IMPORT`

# The last line of stderr is the reason; a worker may print other lines before.
_IMPORT = """
import importlib, importlib.metadata, sys
def leave(code, error):
    sys.stderr.write(chr(10) + type(error).__name__ + ": " + (str(error).strip().splitlines() or [""])[-1])
    sys.stderr.flush()
    import os
    os._exit(code)
try:
    if hasattr(importlib.import_module({worker!r}), "__path__"):  # a package: `python -m` runs its __main__
        importlib.import_module({worker!r} + ".__main__")
    if {needs!r}:
        importlib.import_module({needs!r})
except (ImportError, importlib.metadata.PackageNotFoundError) as error:
    leave({missing}, error)
except SystemExit as error:
    leave({exited}, error)
except BaseException as error:
    leave({failed}, error)
"""


class NotInstalledError(MachineError):
    """A backend, or a module that it needs, is not installed."""


class ImportTimeoutError(MachineError):
    """An import did not finish in time, so it is unknown what is installed."""


def run_probe(
    python: Path, code: str, limit: float | None = None, say: Say = on_stderr
) -> subprocess.CompletedProcess[str]:
    """Run Python code in an environment. Files in the working directory are not imported (`-P`).

    Args:
        python: the environment's interpreter.
        code: the code.
        limit: the time limit in seconds; `IMPORT_TIMEOUT` by default.
        say: called with a message if it takes long.

    Raises:
        ImportTimeoutError: it takes longer.
        MachineError: the interpreter cannot be started.
    """
    limit = IMPORT_TIMEOUT if limit is None else limit
    pipe = subprocess.PIPE
    command = [str(python), "-P", "-c", code]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace"
        )
    except OSError as error:
        fix = "install the backend again: jprep backends install NAME --restart"
        raise MachineError(f"Python cannot be started: {error.strerror}", where=str(python), fix=fix) from error
    try:
        out, err = _await(process, limit, say)
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _await(process: subprocess.Popen[str], limit: float, say: Say) -> tuple[str, str]:
    """Return the output of the process, after a notice if that takes long."""
    started = time.monotonic()
    for seconds in (min(_NOTICE, limit), limit):
        left = max(0.0, started + seconds - time.monotonic())
        try:
            return process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            if seconds < limit:
                say(f"importing the backend's framework takes long; waiting for up to {limit:g} seconds")
    what = f"importing the backend's framework took more than {limit:g} seconds: this machine is slow or busy"
    fix = "run the same command again: the second import is faster, as the files are in the disk cache"
    raise ImportTimeoutError(f"{what}, or the import hangs", where=str(process.args[0]), fix=fix)  # type: ignore[index]


def probe_output(python: Path, code: str, limit: float | None = None) -> str:
    """Return what Python code prints in an environment.

    Args:
        python: the environment's interpreter.
        code: the code.
        limit: the time limit in seconds; `IMPORT_TIMEOUT` by default.

    Raises:
        ImportTimeoutError: it takes longer.
        MachineError: it fails; the message is its last line.
    """
    done = run_probe(python, code, limit)
    if done.returncode:
        raise MachineError(_last_line(done))
    return done.stdout


def check_importable(python: Path, worker: str, needs: str, say: Say = on_stderr) -> None:
    """Check that a backend's worker can be imported, and with it the framework.

    Args:
        python: the interpreter.
        worker: the worker's module; of a package, `__main__` is imported too, as `python -m` does. Its call of `main`
            must be guarded by `if __name__ == "__main__":`.
        needs: another module that must be importable, or "".
        say: called with a message if it takes long.

    Raises:
        NotInstalledError: a module is missing.
        ImportTimeoutError: the import takes longer than `IMPORT_TIMEOUT` seconds.
        MachineError: a module is installed but cannot be imported; the message has the reason.
    """
    code = _IMPORT.format(worker=worker, needs=needs, missing=_MISSING, exited=_EXITED, failed=_FAILED)
    done = run_probe(python, code, say=say)
    if done.returncode:
        explain = _REASONS.get(done.returncode, _killed if done.returncode < 0 else _failed)
        raise explain(worker, _last_line(done))


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"it was killed by {signal_name(-done.returncode)}"
    return (done.stderr.strip().splitlines() or ["no message"])[-1]


def _missing(worker: str, reason: str) -> MachineError:
    return NotInstalledError(reason)


def _exited(worker: str, reason: str) -> MachineError:
    what = f"importing {worker} runs the worker instead of defining it ({reason})"
    fix = f'in {worker}, call it under `if __name__ == "__main__":`, e.g. `sys.exit(main())`'
    return MachineError(what, where=worker, fix=fix)


def _failed(worker: str, reason: str) -> MachineError:
    retry = f'run python -c "import {worker}" to see where'
    guard = 'if its last lines run the worker, put them under `if __name__ == "__main__":`'
    what = f"{worker} is installed, but importing it fails: {reason}"
    return MachineError(what, where=worker, fix=f"{retry}; {guard}")


def _killed(worker: str, reason: str) -> MachineError:
    fix = "free memory if SIGKILL came from the kernel (see `dmesg`), then run the same command again"
    return MachineError(f"importing {worker} failed: {reason}", where=worker, fix=fix)


_REASONS: dict[int, Callable[[str, str], MachineError]] = {_MISSING: _missing, _EXITED: _exited}
