"""Ranks get the same decisions, at a low cost of waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.errors import MachineError
from jprep.train.run.ranks import RANKS
from jprep.train.worker.rank_sync import Decision, RankSync
from tests.conftest import PATIENCE
from tests.fakes.small_run import in_thread


def ranks(run: Path, timeout: float = PATIENCE) -> tuple[RankSync, RankSync]:
    (run / RANKS).mkdir(exist_ok=True)
    return RankSync(run, "one", 0, 2, timeout), RankSync(run, "one", 1, 2, timeout)


@settings(max_examples=20, deadline=None)
@given(wishes=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_both_ranks_get_the_same_decision(
    wishes: list[tuple[bool, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = ranks(tmp_path_factory.mktemp("run"))
    heard: list[Decision] = []
    other = in_thread(lambda: heard.extend(second.decide(str(step), Decision()) for step in range(len(wishes))))
    decided = [first.decide(str(step), Decision(*wish)) for step, wish in enumerate(wishes)]
    other.join(PATIENCE)
    assert heard == decided == [Decision(*wish) for wish in wishes]


def test_a_waiting_rank_reads_each_byte_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ranks(tmp_path)
    path, read, real = tmp_path / RANKS / "agreed-one", [0], Path.open

    class Counted:
        def __init__(self, file: object) -> None:
            self._file = file

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def read(self) -> bytes:
            data: bytes = self._file.read()  # type: ignore[attr-defined]
            read[0] += len(data)
            return data

    monkeypatch.setattr(Path, "open", lambda path, mode="r", *more, **named: (
        Counted(real(path, mode)) if mode == "rb" else real(path, mode, *more, **named)
    ))  # fmt: skip
    for step in range(500):
        first.decide(str(step), Decision())
        second.decide(str(step), Decision())
    assert read[0] == path.stat().st_size


def test_a_line_that_is_half_written_is_waited_for(tmp_path: Path) -> None:
    _, second = ranks(tmp_path, timeout=0.1)
    path = tmp_path / RANKS / "agreed-one"
    path.write_bytes(b"1 0 0\n2 1")
    assert second.decide("1", Decision()) == Decision()
    with pytest.raises(MachineError, match="rank 0 did not answer for step 2"):
        second.decide("2", Decision())
    path.write_bytes(b"1 0 0\n2 1 1\n")
    assert second.decide("2", Decision()) == Decision(True, True)
