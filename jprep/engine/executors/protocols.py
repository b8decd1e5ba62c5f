"""What an executor may have besides the methods of `jprep.engine.runner.Executor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from jprep.engine.runner import Executor


class ShownScript(NamedTuple):
    """A script that `--dry-run` shows.

    Attributes:
        title: what it does.
        command: the command that submits it.
        script: its text.
    """

    title: str
    command: list[str]
    script: str


@runtime_checkable
class CommandExecutor(Executor, Protocol):
    """An executor that needs the command line it works for."""

    def attach(self, command: list[str], announce: Callable[[str], None]) -> None:
        """Receive what only a command line has, before any other call.

        Args:
            command: the words of the command after `jprep`, to run it again from a job.
            announce: prints a message.
        """


@runtime_checkable
class ScriptExecutor(CommandExecutor, Protocol):
    """An executor that submits scripts, which `--dry-run` shows."""

    def scripts(self, output: Path, stages: list[str]) -> Iterator[ShownScript]:
        """Yield the scripts of some stages.

        Args:
            output: the output directory.
            stages: names of the stages.
        """
