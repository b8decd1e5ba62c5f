"""Web archives: killed at a failpoint, with one worker and two, the same bytes come out."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.command_server import CommandServer
from tests.conftest import digests
from tests.crash.conftest import Work
from tests.fakes.web_archives import SENTENCES, info, members, page, record, response
from tests.sampling import every

ENCODINGS = {"utf-8": "utf-8", "Shift_JIS": "cp932", "EUC-JP": "euc_jp", "ISO-2022-JP": "iso2022_jp"}
PAGES = 60
POINTS = ["output.opened@2", "output.written@3", "receipt.written@3"]
KILLED = [(point, workers) for point in POINTS for workers in (1, 2)]


def archive() -> list[bytes]:
    """Records that do not compress well, so that there are several tasks; one of them damaged."""
    chance, records = random.Random(0), [info()]
    for number in range(PAGES):
        label, codec = list(ENCODINGS.items())[number % 4]
        filler = f"<!-- {chance.randbytes(60_000).hex()} -->"
        body = f"<p>これは{number}番目の頁である。{SENTENCES}</p><p>{SENTENCES}</p>{filler}"
        records.append(response(page(label, f"頁{number}", body=body), codec, url=f"https://example.jp/{number}"))
    records[7] = record(records[7], length=99)
    return records


@pytest.fixture(scope="module")
def web_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web")
    records = archive()
    (folder / "a.warc.gz").write_bytes(members(records[: PAGES // 2])[:-50])
    (folder / "b.warc").write_bytes(b"".join(records[PAGES // 2 :]))
    recipe = f"""
name = "web"
[[corpus.sources]]
name = "crawl"
reader = {{ use = "warc", shard_mb = 0.6, max_bad = 0.9 }}
paths = ["{folder}/*.warc*"]
[corpus]
normalizers = ["nfkc"]
segmenter = "none"
"""
    (folder / "web.toml").write_text(recipe)
    return folder / "web.toml"


@pytest.fixture(scope="module")
def once(web_recipe: Path, tmp_path_factory: pytest.TempPathFactory, command_server: CommandServer) -> dict[str, str]:
    work = Work(tmp_path_factory.mktemp("once") / "corpus", web_recipe, {}, command_server)
    work.finish()
    assert len(list((work.folder / "documents").glob("*.parquet"))) > 3
    return digests(work.folder)


def test_two_workers_give_the_same_bytes(
    web_recipe: Path, once: dict[str, str], tmp_path: Path, command_server: CommandServer
) -> None:
    work = Work(tmp_path / "corpus", web_recipe, {}, command_server)
    work.finish(2)
    assert digests(work.folder) == once


@pytest.mark.parametrize(("point", "workers"), every(3, KILLED))
def test_killed_and_resumed(
    point: str, workers: int, web_recipe: Path, once: dict[str, str], tmp_path: Path, command_server: CommandServer
) -> None:
    work = Work(tmp_path / "corpus", web_recipe, {}, command_server)
    code, _ = work.disturb(f"{point}=kill", workers)
    assert code == -signal.SIGKILL
    work.finish(3 - workers)
    assert digests(work.folder) == once
