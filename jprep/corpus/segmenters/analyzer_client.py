"""Send lines to an external analyzer and validate its answers.

Lines are sent in batches. A batch with an invalid answer is halved and sent again, until the failing lines are isolated
or the analyzer has failed too often.
"""

from __future__ import annotations

import logging
import shlex
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from jprep.corpus.segmenters.analyzer_process import AnalyzerProcess, InvalidAnswer
from jprep.errors import MachineError

PROBE = "\x03"
"""A line sent after each batch. Its answer shows that the process has read the whole batch and still runs. A single
character is always one word, and no other line consists of this character."""

_PROBE_LINE = f"{PROBE}\n".encode()

_BATCHES_AHEAD = 4
"""Batches sent before their answers are read."""

_MAX_FAILURES = 64
"""Failures, beyond those compensated by answered lines, after which the program is considered broken: more than
halving a batch with some failing lines can cause."""

_LINES_PER_FAILURE = 10
"""Answered lines that compensate one failure. Isolating a failing line takes about ten failures, each with a new
process: with more of them a build would be a hundred times slower without any message."""

Analysis = TypeVar("Analysis")

log = logging.getLogger(__name__)


class AnalyzerClient(Generic[Analysis]):
    """Keeps one process of the analyzer running, and restarts it when it dies or gives an invalid answer.

    Args:
        command: path and arguments of the program.
        end: last line of its answer to `PROBE`.
        read: converts a batch, as sent, and its answer to one value per line, or raises `InvalidAnswer`.
        growth: maximum length of an answer, as a multiple of the length of the batch.
        batch: lines per batch.
        timeout: seconds allowed for a full batch and for starting the program. A smaller batch is allowed a
            proportional time, at least a tenth.
        memory_mb: see `AnalyzerProcess`.
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
        self._child: AnalyzerProcess | None = None
        self._probed = end
        self._fresh = True
        self._excess = 0.0  # failures not compensated by answered lines
        self._failures = self._answered = 0  # since the excess was last 0

    def ask(self, lines: Sequence[str]) -> list[Analysis | InvalidAnswer]:
        """Analyze lines.

        Args:
            lines: valid UTF-8 without newlines, none of them empty or equal to `PROBE`.

        Returns:
            For each line its analysis, or the error that its answer caused.

        Raises:
            MachineError: the program does not start, or fails too often.
        """
        try:
            return self._ask([lines[at : at + self._batch] for at in range(0, len(lines), self._batch)][::-1])
        except BaseException:  # including Ctrl-C: the rest of an answer must not be read by the next call
            self.kill()
            raise

    def _ask(self, todo: list[Sequence[str]]) -> list[Analysis | InvalidAnswer]:
        """Send the batches, last one first, some of them ahead so that the program never waits for input."""
        answers: list[Analysis | InvalidAnswer] = []
        sent: deque[tuple[Sequence[str], bytes]] = deque()
        while todo or sent:
            while todo and len(sent) < _BATCHES_AHEAD:
                sent.append((todo[-1], self._send(todo.pop())))
            part, data = sent.popleft()
            try:
                answers += self._receive(data)
            except InvalidAnswer as fault:
                todo += [later for later, _ in reversed(sent)]
                sent.clear()
                retries = self._split_after_failure(part, fault)
                todo += retries
                answers += [] if retries else [fault]
        return answers

    def _send(self, lines: Sequence[str]) -> bytes:
        data = "".join(f"{line}\n" for line in (*lines, PROBE)).encode()
        (self._child or self._start()).send(data)
        return data

    def _receive(self, data: bytes) -> list[Analysis]:
        assert self._child
        sent = data.removesuffix(_PROBE_LINE)
        seconds = self._timeout * max(sent.count(b"\n") / self._batch, 0.1)
        answer = self._child.receive(len(data), self._probed, seconds)
        values = self._read(sent, answer.removesuffix(self._probed))
        self._fresh = False
        self._compensate_failures(len(values))
        return values

    def _compensate_failures(self, lines: int) -> None:
        self._answered += lines
        self._excess -= lines / _LINES_PER_FAILURE
        if self._excess <= 0:
            self._excess, self._failures, self._answered = 0.0, 0, 0

    def _start(self) -> AnalyzerProcess:
        """Start the program, and read its answer to the probe."""
        try:
            self._child = AnalyzerProcess(self._command, self._memory_mb, self._growth)
            self._child.send(_PROBE_LINE)
            self._probed = self._child.receive(len(_PROBE_LINE), self._end, self._timeout)
        except (InvalidAnswer, OSError) as fault:
            raise MachineError(
                f"{self._command[0]} does not work ({fault}): {self.kill() or 'no error message'}",
                where=shlex.join(self._command),
                fix="run the command by hand; the model must match the version of the program",
            ) from fault
        self._fresh = True
        return self._child

    def _split_after_failure(self, part: Sequence[str], fault: InvalidAnswer) -> list[Sequence[str]]:
        """Return what to send again, last part first: both halves, or a single line that had no fresh process."""
        fresh, error_output = self._fresh, self.kill()
        log.debug("%s: %s: %s", self._command[0], fault.reason, error_output)
        self._failures, self._excess = self._failures + 1, self._excess + 1
        if self._excess >= _MAX_FAILURES:
            what = f"failed {self._failures} times in {self._answered} lines, last with {fault.reason}: {error_output}"
            fix = (
                "run it by hand on a few sentences; if it is slow or needs more memory, raise `timeout` or `memory_mb`"
            )
            raise MachineError(f"{self._command[0]} {what}", where=shlex.join(self._command), fix=fix)
        half = len(part) // 2
        if half:
            return [part[half:], part[:half]]
        return [] if fresh else [part]

    def kill(self) -> str:
        """Kill the process; return the end of its standard error."""
        child, self._child = self._child, None
        if child is None:
            return ""
        child.kill()
        return child.error_output

    def close(self) -> None:
        """Stop the process."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
