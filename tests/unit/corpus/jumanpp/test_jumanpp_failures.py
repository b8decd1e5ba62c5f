"""How often a program may fail before the client stops. No process is started."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.segmenters import analyzer_client
from jprep.corpus.segmenters.analyzer_client import PROBE, AnalyzerClient
from jprep.corpus.segmenters.analyzer_process import InvalidAnswer
from jprep.corpus.segmenters.jumanpp import parse_words
from jprep.errors import MachineError

TRAP = "罠"


class Played:
    """A replacement for `AnalyzerProcess` that echoes its input, and dies when configured to."""

    started = 0
    life = 1 << 30
    error_output = "terminate called"

    def __init__(self, *_: object) -> None:
        type(self).started += 1
        self._sent: list[bytes] = []
        self._left = self.life

    def send(self, data: bytes) -> None:
        self._sent.append(data)

    def receive(self, *_: object) -> bytes:
        data = self._sent.pop(0)
        self._left -= data.count(b"\n") - 1
        if TRAP.encode() in data or self._left < 0:
            raise InvalidAnswer("died")
        return data

    def kill(self) -> None:
        pass


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> type[Played]:
    monkeypatch.setattr(analyzer_client, "AnalyzerProcess", Played)
    monkeypatch.setattr(Played, "started", 0)
    monkeypatch.setattr(Played, "life", 1 << 30)
    return Played


def made(batch: int = 500) -> AnalyzerClient[str]:
    return AnalyzerClient(
        ["jumanpp"], f"{PROBE}\n".encode(), parse_words, growth=2, batch=batch, timeout=1, memory_mb=256
    )


def lines(count: int, trap_each: int = 1 << 30) -> list[str]:
    return [f"文{number}{TRAP}" if number % trap_each == trap_each // 2 else f"文{number}" for number in range(count)]


@pytest.mark.parametrize("life", [1, 2, 3, 5])
def test_restarts_are_limited(life: int, played: type[Played]) -> None:
    played.life = life
    with pytest.raises(MachineError, match=r"failed \d+ times in \d+ lines"):
        made().ask(lines(406))
    assert played.started < 2 * analyzer_client._MAX_FAILURES


@pytest.mark.parametrize("calls", [1, 40])
def test_failures_count_from_one_call_to_the_next(calls: int, played: type[Played]) -> None:
    played.life = 3
    asked, one = lines(800), made()
    with pytest.raises(MachineError):
        for at in range(0, 800, 800 // calls):
            one.ask(asked[at : at + 800 // calls])


@pytest.mark.parametrize("each", [150, 500, 5000])
def test_occasional_failing_lines_are_skipped(each: int, played: type[Played]) -> None:
    asked = lines(20_000, each)
    answers = made().ask(asked)
    assert [isinstance(answer, str) for answer in answers] == [TRAP not in line for line in asked]


def test_answered_lines_are_no_credit_for_later_failures(played: type[Played]) -> None:
    one = made()
    one.ask(lines(100_000))
    before, played.life = played.started, 3
    one.kill()
    with pytest.raises(MachineError):
        one.ask(lines(2000))
    assert played.started - before < 2 * analyzer_client._MAX_FAILURES


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 300), st.integers(1, 60))
def test_the_number_of_processes_is_bounded_by_the_number_of_lines(
    count: int, life: int, batch: int, each: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyzer_client, "AnalyzerProcess", Played)
        patch.setattr(Played, "started", 0)
        patch.setattr(Played, "life", life)
        asked = lines(count, each)
        try:
            answers = made(batch).ask(asked)
        except MachineError:
            pass
        else:
            assert all(answer == line for answer, line in zip(answers, asked, strict=True) if isinstance(answer, str))
        assert Played.started <= analyzer_client._MAX_FAILURES + count / analyzer_client._LINES_PER_FAILURE + 2
