"""Asking a line-by-line analyser that cannot be trusted: believe whole batches, halve what fails, give up at last."""

from __future__ import annotations

import logging
import shlex
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from jprep.corpus.segmenters.child_process import ChildProcess, InvalidAnswer
from jprep.errors import MachineError

PROBE = "\x03"
"""Sent after each batch: a process that stays has no exit code, but one that answers this has read all and is in step.
One character is always one word, and no line that is only this character is ever sent otherwise."""

_PROBING = f"{PROBE}\n".encode()

_AHEAD = 4
"""Batches under way at once."""

_FAILURES = 64
"""Failures beyond those that its answers make up for, after which the program itself is at fault, not its input: more
than halving a batch with some bad lines at its head can give."""

_LINES_PER_FAILURE = 10
"""Answered lines that make up for one failure. To find one bad line takes some ten failures, each a new process: where
they come more often than this for long, a corpus would take a hundred times as long, and nobody would know why."""

Analysis = TypeVar("Analysis")

log = logging.getLogger(__name__)


class AnalyzerClient(Generic[Analysis]):
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
        read: Callable[[bytes, bytes], list[Analysis]],
        *,
        growth: int,
        batch: int,
        timeout: float,
        memory_mb: int,
    ) -> None:
        self._command, self._end, self._read = command, end, read
        self._growth, self._batch, self._timeout, self._memory_mb = growth, batch, timeout, memory_mb
        self._child: ChildProcess | None = None
        self._probed = end
        self._fresh = True
        self._excess = 0.0  # failures that no answered lines have made up for
        self._failures = self._answered = 0  # since the excess was last 0

    def ask(self, lines: Sequence[str]) -> list[Analysis | InvalidAnswer]:
        """Analyse lines of valid UTF-8 without newlines, none of them empty or `PROBE`.

        Returns:
            For each line its analysis, or why there is none.

        Raises:
            MachineError: the program does not start, or fails too often.
        """
        try:
            return self._ask([lines[at : at + self._batch] for at in range(0, len(lines), self._batch)][::-1])
        except BaseException:  # Ctrl-C too: the rest of an answer must not meet the next question
            self.kill()
            raise

    def _ask(self, todo: list[Sequence[str]]) -> list[Analysis | InvalidAnswer]:
        """Ask the batches, the last first; some are sent ahead, so that the program never waits."""
        answers: list[Analysis | InvalidAnswer] = []
        sent: deque[tuple[Sequence[str], bytes]] = deque()
        while todo or sent:
            while todo and len(sent) < _AHEAD:
                sent.append((todo[-1], self._send(todo.pop())))
            part, data = sent.popleft()
            try:
                answers += self._receive(data)
            except InvalidAnswer as fault:
                todo += [later for later, _ in reversed(sent)]
                sent.clear()
                again = self._again(part, fault)
                todo += again
                answers += [] if again else [fault]
        return answers

    def _send(self, lines: Sequence[str]) -> bytes:
        data = "".join(f"{line}\n" for line in (*lines, PROBE)).encode()
        (self._child or self._start()).send(data)
        return data

    def _receive(self, data: bytes) -> list[Analysis]:
        assert self._child
        sent = data.removesuffix(_PROBING)
        seconds = self._timeout * max(sent.count(b"\n") / self._batch, 0.1)
        answer = self._child.receive(len(data), self._probed, seconds)
        values = self._read(sent, answer.removesuffix(self._probed))
        self._fresh = False
        self._make_up_for_failures(len(values))
        return values

    def _make_up_for_failures(self, lines: int) -> None:
        self._answered += lines
        self._excess -= lines / _LINES_PER_FAILURE
        if self._excess <= 0:
            self._excess, self._failures, self._answered = 0.0, 0, 0

    def _start(self) -> ChildProcess:
        """Start the program, and learn how its answer to the probe reads."""
        try:
            self._child = ChildProcess(self._command, self._memory_mb, self._growth)
            self._child.send(_PROBING)
            self._probed = self._child.receive(len(_PROBING), self._end, self._timeout)
        except (InvalidAnswer, OSError) as fault:
            raise MachineError(
                f"{self._command[0]} does not work ({fault}): {self.kill() or 'it said nothing'}",
                where=shlex.join(self._command),
                fix="run it by hand; its model must be of its own version",
            ) from fault
        self._fresh = True
        return self._child

    def _again(self, part: Sequence[str], fault: InvalidAnswer) -> list[Sequence[str]]:
        """What to ask again after a fault, the last first: the halves, or a line that had no process to itself."""
        fresh, complaint = self._fresh, self.kill()
        log.debug("%s: %s: %s", self._command[0], fault.reason, complaint)
        self._failures, self._excess = self._failures + 1, self._excess + 1
        if self._excess >= _FAILURES:
            what = f"failed {self._failures} times in {self._answered} lines, at last with {fault.reason}: {complaint}"
            fix = "run it by hand on a few sentences; if it is slow or large here, raise `timeout` or `memory_mb`"
            raise MachineError(f"{self._command[0]} {what}", where=shlex.join(self._command), fix=fix)
        half = len(part) // 2
        if half:
            return [part[half:], part[:half]]
        return [] if fresh else [part]

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
