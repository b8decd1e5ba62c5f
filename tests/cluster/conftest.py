"""A small corpus that tests of several schedulers build, and a Ray cluster of three nodes for all tests of Ray."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.fakes.ray_cluster import RayCluster

TEXT = "".join(f"これは{number}番目の文書です。短い文がもう一つあります。\n\n" for number in range(40))
BUILD = ["corpus", "build", "--text", "*.txt", "--segmenter", "none", "-o"]


@pytest.fixture
def texts(tmp_path: Path, jprep: Run) -> Path:
    """A folder of texts, with the corpus `local` that the executor `local` builds from them."""
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(TEXT.replace("文書", f"文書{number}"), encoding="utf-8")
    jprep(*BUILD, "local", "--workers", 1, cwd=tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    with contextlib.closing(RayCluster()) as started:
        yield started
