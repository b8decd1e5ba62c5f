"""Runs `jprep` in forks of a process that has imported it, which saves most of what a short command costs.

Each command is a process of its own, with its own arguments, environment, working directory and standard streams. Forks
share the hash seed of their parent; what has to start afresh is a matter for `subprocess`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jprep
from jprep.io import failpoints

NUMBER = struct.Struct("=q")
SIZE = 1 << 20
"""Bytes that a request may have."""

FRESH = ("PYTHON", "LC_", "LANG", "OMP_")
"""Beginnings of variables that take effect when an interpreter starts; `PYTHONPATH` is honoured."""

UNUSED = ("jprep.testing", "jprep.samples.__main__", "jprep.corpus.segmenters.pointwise.kernel")  # the last needs numba


class CommandServer:
    """Starts the process from which commands are forked, when the first one is asked for."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._channel: socket.socket

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        input: bytes = b"",
        cwd: Path | str | None = None,
        timeout: float = 600,
        group: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end, as `subprocess.run` does.

        Args:
            command: the path of `jprep`, and arguments.
            env: its whole environment.
            input: its standard input.
            cwd: its working directory.
            timeout: seconds.
            group: whether it gets a process group of its own.

        Raises:
            TimeoutExpired: it took longer, and was killed.
        """
        if any(env.get(name) != os.environ.get(name) for name in {*env, *os.environ} if _matters(name)):
            more: dict[str, Any] = {"process_group": 0} if group else {}
            return subprocess.run(command, input=input, capture_output=True, env=env, cwd=cwd, timeout=timeout, **more)
        request = json.dumps([list(command), dict(env), os.fspath(cwd or Path.cwd()), group]).encode(
            "utf-8", "surrogateescape"
        )
        with self._lock, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = self._ask(request, input, out.fileno(), err.fileno(), timeout, command)
            out.seek(0), err.seek(0)
            return subprocess.CompletedProcess(command, status, out.read(), err.read())

    def close(self) -> None:
        """End the process."""
        if self._process:
            self._channel.close()
            self._process.wait()

    def _start(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def _ask(self, request: bytes, input: bytes, out: int, err: int, timeout: float, command: Sequence[str]) -> int:
        """Send a request with its streams; return the exit status."""
        if self._process is None:
            self._start()
        reader, writer = os.pipe()
        feeding = threading.Thread(target=_feed, args=(writer, input))
        feeding.start()
        socket.send_fds(self._channel, [request], [reader, out, err])
        os.close(reader)
        [process] = NUMBER.unpack(self._channel.recv(NUMBER.size))
        self._channel.settimeout(timeout)
        try:
            [status] = NUMBER.unpack(self._channel.recv(NUMBER.size))
        except TimeoutError:
            os.kill(process, 9)
            self._channel.settimeout(None)
            self._channel.recv(NUMBER.size)
            raise subprocess.TimeoutExpired(command, timeout) from None
        finally:
            self._channel.settimeout(None)
        feeding.join()
        return status


def _matters(name: str) -> bool:
    return name.startswith(FRESH) and name != "PYTHONPATH"


def _feed(pipe: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(data)


def serve(channel: socket.socket) -> list[str]:
    """Fork a process for each request until the other side closes; return a command's words, in its process."""
    while True:
        request, streams, _, _ = socket.recv_fds(channel, SIZE, 3)
        if not request:
            sys.exit()
        if not (process := os.fork()):
            channel.close()
            return _become(streams, *json.loads(request.decode("utf-8", "surrogateescape")))
        for stream in streams:
            os.close(stream)
        channel.send(NUMBER.pack(process))
        channel.send(NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))


def _become(streams: list[int], words: list[str], env: dict[str, str], folder: str, group: bool) -> list[str]:
    """Make this process what a shell would have started."""
    if group:
        os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    added = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    sys.path[:0] = added
    failpoints._ACTIVE = env.get("JPREP_FAILPOINT", "")
    return words


def _import_all() -> None:
    """Import what commands import, so that no fork has to."""
    for module in pkgutil.walk_packages(jprep.__path__, "jprep."):
        if not module.name.startswith(UNUSED):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_all()
    sys.argv = serve(socket.socket(fileno=int(sys.argv[1])))
    from jprep.cli.main import main

    sys.exit(main())
