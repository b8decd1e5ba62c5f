"""Fixtures of the tests of corpora."""

from __future__ import annotations

import pytest

from jprep.corpus.dedup import hashes
from jprep.corpus.dedup.near import clusters


@pytest.fixture
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each input file a task of its own, and have several buckets and chunks."""
    monkeypatch.setattr("jprep.corpus.stages.planned_shards._GROUP", 1)
    monkeypatch.setattr(hashes, "_BUCKET", 100)
    monkeypatch.setattr(clusters, "_CHUNK", 3)
