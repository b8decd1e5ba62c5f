"""Killed at a failpoint while a corpus is filtered: rerunning gives the same bytes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from jprep import Corpus
from tests.command_server import CommandServer
from tests.conftest import COMMAND, digests, environment
from tests.fakes.small_corpus import build_corpus, posts
from tests.sampling import every

CONDITIONS = ("--filter", "hiragana_share>=0.5", "--filter", "characters<=60")
FAILPOINTS = [
    (f"{name}@{nth}", workers)
    for name, passings in {
        "output.opened": (1, 6),
        "output.written": (3,),
        "output.renamed": (4,),
        "receipt.written": (1, 3),
        "stage.done": (1,),
        "corpus.sealing": (1,),
    }.items()
    for nth in passings
    for workers in (1, 2)
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of three sources with rejects."""
    folder = tmp_path_factory.mktemp("whole")
    sources = []
    for number in range(3):
        path = folder / f"{number}.jsonl"
        rows = [post | {"text": post["text"] * (number + 1)} for post in posts(20)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        sources.append({"name": f"s{number}", "paths": [str(path)], "reader": "jsonl"})
    return build_corpus(folder, posts(), sources=sources, signals=["characters"])


def run(server: CommandServer, corpus: Corpus, folder: Path, workers: int, **env: str) -> int:
    command = ["corpus", "filter", str(corpus.folder), *CONDITIONS, "-o", str(folder), "--workers", str(workers)]
    done = server.run([COMMAND, *command], env=environment(**env), group=True)
    assert env or done.returncode == 0, done.stderr.decode()
    return done.returncode


@pytest.fixture(scope="module")
def undisturbed(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory, command_server: CommandServer) -> Path:
    """The corpus, filtered without interruption."""
    folder = tmp_path_factory.mktemp("filtered") / "whole"
    run(command_server, corpus, folder, 1)
    return folder


@pytest.mark.parametrize(("failpoint", "workers"), every(3, FAILPOINTS))
def test_killed_and_resumed(
    failpoint: str, workers: int, corpus: Corpus, undisturbed: Path, tmp_path: Path, command_server: CommandServer
) -> None:
    assert run(command_server, corpus, tmp_path / "killed", workers, JPREP_FAILPOINT=failpoint) == -signal.SIGKILL
    assert not (tmp_path / "killed" / "corpus.json").exists()
    run(command_server, corpus, tmp_path / "killed", 3 - workers)
    assert digests(tmp_path / "killed") == digests(undisturbed)
    filtered = Corpus(tmp_path / "killed")
    assert 0 < len(filtered) < len(corpus)
    assert not list(filtered.verify())
