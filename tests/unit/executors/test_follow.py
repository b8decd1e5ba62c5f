"""`jprep work --follow` ends: with the output, or when no queue is opened any more."""

from pathlib import Path

import pytest

from jprep.engine.queue import share_worker
from jprep.engine.queue.share_worker import ShareWorker


def follow(folder: Path, notes: list[str]) -> int:
    return ShareWorker(folder, 0, 1, 1, lambda: False, lambda result: None).follow(notes.append)


def test_it_ends_when_no_queue_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_worker, "_IDLE", -1.0)
    monkeypatch.setattr(share_worker, "_POLL_SECONDS", 0.0)
    assert follow(tmp_path / "absent", notes := []) == 1
    assert "the command that queues them may have failed" in notes[0]


def test_it_ends_with_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShareWorker, "_is_finished", lambda self: True)
    assert follow(tmp_path, []) == 0
