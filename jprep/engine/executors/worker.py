"""A worker process, `python -m jprep.engine.executors.worker`.

It receives task runners and their tasks on standard input, and exits at once when its input ends, even in the middle of
a task: its parent is gone, and another run may start that task.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import traceback
from typing import Any, BinaryIO

from jprep.engine.stage import Task
from jprep.errors import JprepError
from jprep.io.machine import keep_freed_memory

_LENGTH = struct.Struct("<Q")


def send(pipe: BinaryIO, message: object) -> None:
    """Write one pickled message."""
    data = pickle.dumps(message, protocol=5)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Read one message.

    Raises:
        EOFError: the other process is gone.
    """
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    length = _LENGTH.unpack(head)[0]
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """Run tasks until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):  # sent to all processes; the parent handles them
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("jprep.recipe").setLevel(logging.ERROR)  # the parent has printed its warnings
    tune_memory()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    runner: Any = None
    while (message := inbox.get()) is not None:
        if isinstance(message, Task):
            send(answers, run_task(runner, message))
        else:
            _close(runner)
            runner = message
    _close(runner)


def _close(runner: Any) -> None:
    if runner is not None:
        runner.stage.close()


def tune_memory() -> None:
    """Collect garbage less often and keep freed memory: documents have no reference cycles, and batches have one size.

    Collecting takes 4 % of a build.
    """
    keep_freed_memory()
    gc.set_threshold(100_000, 20, 20)


def _listen(inbox: queue.SimpleQueue[Any]) -> None:
    try:
        while (message := receive(sys.stdin.buffer)) is not None:
            inbox.put(message)
        inbox.put(None)
    except EOFError:
        os._exit(1)
    except BaseException:  # a message that cannot be unpickled: no other will follow
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def run_task(runner: Any, task: Any) -> Any:
    """Run a task; return its receipt, or the error that it raised."""
    try:
        return runner(task)
    except JprepError as error:
        return error
    except Exception as error:  # sent to the parent, which stops the run and shows it
        lines = traceback.format_exc().rstrip()
        return JprepError(f"{type(error).__name__}: {error}\n{lines}", where=f"task {task.id}")


if __name__ == "__main__":
    main()
