"""Start a server of another environment as a subprocess, for tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests.conftest import PATIENCE, environment

PYTHON = os.environ.get("JPREP_SERVERS", "")
"""The interpreter of the environment with the servers; `make test-backends` sets it."""


def need_servers() -> None:
    """Skip the test if the servers are not installed."""
    if not PYTHON:
        pytest.skip("JPREP_SERVERS is not set: `make test-backends` installs the servers")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)


@contextlib.contextmanager
def served(command: Sequence[object], port: int, env: Mapping[str, str] = {}) -> Iterator[None]:
    """Run a server for the time of the block, which begins when its port accepts connections."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([PYTHON, *map(str, command)], env=environment(**env), **quiet)  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + PATIENCE
        while not _accepts(port):
            assert process.poll() is None, f"the server ended with {process.returncode}"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
