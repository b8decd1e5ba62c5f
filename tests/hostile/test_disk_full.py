"""A full disk: an error that says so, no partial output, and the same bytes after space is freed."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.benchmarks.measure import MIB, run
from tests.conftest import COMMAND, digests
from tests.hostile.conftest import ROOM, Build, Put, Resize, article, dump, reader

SMALL_SHARDS = reader("wikipedia", shard_mb=1)


@pytest.fixture(scope="module")
def pages() -> bytes:
    return dump(article(number, 300) for number in range(300))


SOME = [(0.0, 1), (0.1, 2), (0.4, 1), (0.7, 2), (0.95, 1)]
REST = [pytest.param(share, 3 - workers, marks=pytest.mark.soak) for share, workers in SOME]


@pytest.mark.parametrize(("share", "workers"), [*SOME, *REST])
def test_a_full_disk(
    share: float, workers: int, disk: tuple[Path, Resize], pages: bytes, build: Build, put: Put, tmp_path: Path
) -> None:
    folder, resize = disk
    path = put("pages.xml", pages)
    uninterrupted = build("--wikipedia", path, more=SMALL_SHARDS)
    needed = sum(file.stat().st_size for file in uninterrupted.folder.rglob("*") if file.is_file())
    resize(str(max(4096, int(needed * share) // 4096 * 4096)))
    full = build(
        "--wikipedia", path, more=SMALL_SHARDS, workers=workers, folder=folder / "corpus", code=3,
        says=["the disk is full", "free some space", str(folder)],
    )  # fmt: skip
    full.assert_committed_stands(0)
    for shard in full.folder.rglob("*.parquet"):
        pq.read_table(shard)
    resize(ROOM)
    build("--wikipedia", path, more=SMALL_SHARDS, workers=workers, folder=folder / "corpus")
    assert digests(folder / "corpus") == digests(uninterrupted.folder)


def test_documents_committed_before_are_kept(disk: tuple[Path, Resize], pages: bytes, build: Build, put: Put) -> None:
    folder, resize = disk
    path = put("pages.xml", pages)
    uninterrupted = build("--wikipedia", path, more=SMALL_SHARDS)
    shards = [part.stat().st_size for part in uninterrupted.folder.glob("documents/*.parquet")]
    resize(str(sum(shards) // 2 + MIB // 4))
    full = build("--wikipedia", path, more=SMALL_SHARDS, folder=folder / "corpus", code=3)
    full.assert_committed_stands(1)


def test_an_export_that_does_not_fit(disk: tuple[Path, Resize], pages: bytes, build: Build, put: Put) -> None:
    folder, resize = disk
    corpus = build("--wikipedia", put("pages.xml", pages)).folder
    resize("100k")
    done = run([COMMAND, "corpus", "export", str(corpus), "-o", str(folder / "out.txt")])
    assert done.code == 3
    assert "the disk is full" in done.err
    assert "Traceback" not in done.err
    assert not list(folder.iterdir())
