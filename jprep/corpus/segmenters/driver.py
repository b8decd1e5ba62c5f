"""Asking a line-by-line analyser that cannot be trusted: believe whole batches, halve what fails, give up at last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from jprep.corpus.segmenters.process import Child, Distrust
from jprep.errors import MachineError

PROBE = "\x03"
"""Sent after each batch: a process that stays has no exit code, but one that answers this has read all and is in step.
One character is always one word, and no line that is only this character is ever sent otherwise."""

_IN_A_ROW = 64
"""Failures without a success between them after which the program itself is at fault, not its input: more than halving
a batch with some bad lines at its head can give."""

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


class Driver(Generic[Answer]):
    """Keeps one process of the program alive, and starts it anew when it dies or lies.

    Args:
        command: the program's path and arguments.
        end: the last line of its answer to `PROBE`.
        read: turns a batch, as sent, and its answer into one value a line; raises `Distrust` unless all agrees.
        growth: how many times as long as its input an answer may be.
        batch: lines a batch.
        timeout: seconds that a full batch may take, and the start of the program; a part of a batch has its share of
            it, a tenth at least.
        memory_mb: see `Child`.
    """

    def __init__(
        self,
        command: Sequence[str],
        end: bytes,
        read: Callable[[bytes, bytes], list[Answer]],
        *,
        growth: int,
        batch: int,
        timeout: float,
        memory_mb: int,
    ) -> None:
        self._command, self._end, self._read = command, end, read
        self._growth, self._batch, self._timeout, self._memory_mb = growth, batch, timeout, memory_mb
        self._child: Child | None = None
        self._probed = end
        self._failures = 0

    def ask(self, lines: Sequence[str]) -> list[Answer | Distrust]:
        """Analyse lines of valid UTF-8 without newlines, none of them empty or `PROBE`.

        Returns:
            For each line its analysis, or why there is none.

        Raises:
            MachineError: the program does not start, or fails on everything.
        """
        answers: list[Answer | Distrust] = []
        todo = [lines[at : at + self._batch] for at in range(0, len(lines), self._batch)][::-1]
        while todo:
            part, fresh = todo.pop(), self._child is None
            try:
                answers += self._exchange(part)
            except Distrust as fault:
                self._failed(fault)
                half = len(part) // 2
                if half:
                    todo += [part[half:], part[:half]]
                elif fresh:
                    answers.append(fault)
                else:  # the process may have been spoilt before: the line gets one to itself
                    todo.append(part)
            except BaseException:  # Ctrl-C: the rest of the answer must not meet the next question
                self.kill()
                raise
        return answers

    def _exchange(self, lines: Sequence[str]) -> list[Answer]:
        child = self._child or self._start()
        sent = "".join(f"{line}\n" for line in lines).encode()
        seconds = self._timeout * max(len(lines) / self._batch, 0.1)
        most = len(sent) * self._growth + len(self._probed)
        answer = child.ask(sent + f"{PROBE}\n".encode(), self._probed, seconds, most)
        values = self._read(sent, answer.removesuffix(self._probed))
        self._failures = 0
        return values

    def _start(self) -> Child:
        """Start the program, and learn how its answer to the probe reads."""
        try:
            self._child = Child(self._command, self._memory_mb)
            self._probed = self._child.ask(f"{PROBE}\n".encode(), self._end, self._timeout, 1 << 16)
        except (Distrust, OSError) as fault:
            raise MachineError(
                f"{self._command[0]} does not work ({fault}): {self.kill() or 'it said nothing'}",
                where=" ".join(map(repr, self._command)),
                fix="run it by hand; its model must be of its own version",
            ) from fault
        return self._child

    def _failed(self, fault: Distrust) -> None:
        complaint = self.kill()
        log.debug("%s: %s: %s", self._command[0], fault.reason, complaint)
        self._failures += 1
        if self._failures == _IN_A_ROW:
            raise MachineError(
                f"{self._command[0]} failed {_IN_A_ROW} times in a row, at last with {fault.reason}: {complaint}",
                fix="run it by hand on a few sentences; if it is slow here, raise `timeout`",
            )

    def kill(self) -> str:
        """End the process now; what it wrote last to standard error."""
        child, self._child = self._child, None
        if child is None:
            return ""
        child.kill()
        return child.complaint

    def close(self) -> None:
        """Let the process leave."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
