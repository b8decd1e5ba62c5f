"""A worker process on a node: a Ray actor that keeps what a stage has opened between its tasks."""

from __future__ import annotations

import contextlib
import logging
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jprep.engine.executors.environment import check_environment, enter_folder, node_name
from jprep.engine.executors.shared_directory import write_probe
from jprep.engine.executors.worker import run_task, tune_memory
from jprep.errors import JprepError, MachineError


class Assignment(NamedTuple):
    """What a worker must know before the first task of a stage.

    Attributes:
        here: the directory in which the command was started.
        token: a file in the work directory; see `write_probe`.
        content: its content.
        environment: versions that a node must have.
    """

    here: Path
    token: Path
    content: str
    environment: dict[str, str]


class Answer(NamedTuple):
    """What a call of a worker returns.

    Attributes:
        value: the path of the probe that `begin` writes, the receipt of a task, or the error that was raised.
        node: name of the worker's node.
        warnings: the warnings logged meanwhile: names of loggers and messages.
    """

    value: Any
    node: str
    warnings: list[tuple[str, str]]


class TaskWorker:
    """Runs the tasks of one stage after another. Its methods return pickled answers and raise nothing."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the machine that started the work handles Ctrl-C
        tune_memory()
        self._runner: Any = None

    def begin(self, runner: bytes, assignment: Assignment) -> bytes:
        """Check this node and prepare for the tasks of a stage.

        Args:
            runner: the pickled task runner.
            assignment: what to check.
        """
        return _answer(self._begin, runner, assignment)

    def run(self, task: bytes) -> bytes:
        """Run a pickled task."""
        return _answer(lambda: run_task(self._runner, pickle.loads(task)))

    def end(self) -> None:
        """Close what the stage has opened."""
        if self._runner is not None:
            self._runner.stage.close()
        self._runner = None

    def _begin(self, runner: bytes, assignment: Assignment) -> Path:
        self.end()
        check_environment(assignment.environment)
        enter_folder(assignment.here)
        probe = write_probe(assignment.token, assignment.content)
        try:
            self._runner = pickle.loads(runner)
        except Exception as error:  # unpickling imports what the recipe uses
            what = f"this node cannot load the work: {type(error).__name__}: {error}"
            fix = "install the same packages on all nodes, or name them in the option `runtime_env`"
            raise MachineError(what, where=node_name(), fix=fix) from error
        return probe


def _answer(call: Any, *arguments: Any) -> bytes:
    with _recorded_warnings() as warnings:
        try:
            value = call(*arguments)
        except JprepError as error:
            value = error
    return pickle.dumps(Answer(value, node_name(), warnings), protocol=5)


@contextlib.contextmanager
def _recorded_warnings() -> Iterator[list[tuple[str, str]]]:
    """Collect warnings: on a node, nobody would see them."""
    recorder = _Recorder(logging.WARNING)
    logger = logging.getLogger("jprep")
    logger.addHandler(recorder)
    try:
        yield recorder.messages
    finally:
        logger.removeHandler(recorder)


class _Recorder(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append((record.name, record.getMessage()))
