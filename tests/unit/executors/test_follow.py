"""`jprep work --follow` ends: with the output, or when no queue is opened any more."""

from pathlib import Path

import pytest

from jprep.cli.cluster import work


def follow(folder: Path) -> int:
    return work._Worker(folder, 0, 1, 1, lambda: False).follow()


def test_it_ends_when_no_queue_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_IDLE", -1.0)
    monkeypatch.setattr(work, "_PAUSE", 0.0)
    assert follow(tmp_path / "absent") == 1


def test_it_ends_with_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work._Worker, "_is_finished", lambda self: True)
    assert follow(tmp_path) == 0
