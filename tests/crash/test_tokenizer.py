"""A tokenizer training that is killed at a failpoint resumes with the same bytes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.command_server import CommandServer
from tests.conftest import COMMAND, Run, digests, environment
from tests.sampling import every

PLACES = [
    "stage.begun", "stage.begun@2", "output.opened", "output.written@2", "output.renamed@3", "receipt.written",
    "receipt.written@2", "receipt.written@3", "inputs.recorded", "inputs.deleted", "inputs.deleted@2",
    "stage.done", "tokenizer.counted", "tokenizer.learnt", "tokenizer.moved",
]  # fmt: skip


def command(corpus: Path, folder: Path, workers: int = 1) -> list[str]:
    settings = ["--vocab-size", "1500", "--alphabet", "700", "--set", "tokenizer.max_words=3000"]
    return ["tokenizer", "train", str(corpus), "-o", str(folder), *settings, "--workers", str(workers)]


@pytest.fixture(scope="session")
def uninterrupted(corpus: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> dict[str, str]:
    """Every file's hash when nobody disturbs the work."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "tokenizer"
    jprep(*command(corpus, folder))
    return digests(folder)


@pytest.mark.parametrize("place", every(3, PLACES))
def test_killed_and_resumed(
    place: str,
    corpus: Path,
    tmp_path: Path,
    jprep: Run,
    command_server: CommandServer,
    uninterrupted: dict[str, str],
) -> None:
    folder = tmp_path / "tokenizer"
    env = environment(JPREP_FAILPOINT=f"{place}=kill")
    killed = command_server.run([COMMAND, *command(corpus, folder)], env=env, group=True)
    assert killed.returncode == -signal.SIGKILL
    assert not (folder / "card.json").exists()
    jprep(*command(corpus, folder, workers=2))
    assert digests(folder) == uninterrupted


def test_other_settings_are_refused_until_restarted(
    corpus: Path, tmp_path: Path, jprep: Run, command_server: CommandServer, uninterrupted: dict[str, str]
) -> None:
    folder = tmp_path / "tokenizer"
    env = environment(JPREP_FAILPOINT="tokenizer.learnt=kill")
    command_server.run([COMMAND, *command(corpus, folder)], env=env, group=True)
    refused = jprep(*command(corpus, folder), "--set", "tokenizer.digits=split", code=2)
    assert 'digits: was "keep", is "split"' in refused.stderr and "--restart" in refused.stderr
    jprep(*command(corpus, folder), "--set", "tokenizer.digits=split", "--restart")
    refused = jprep(*command(corpus, folder), code=2)
    assert "digits: was" in refused.stderr
    jprep(*command(corpus, folder), "--restart")
    assert digests(folder) == uninterrupted


def test_a_full_disk_is_reported(corpus: Path, tmp_path: Path, jprep: Run, uninterrupted: dict[str, str]) -> None:
    folder = tmp_path / "tokenizer"
    failed = jprep(*command(corpus, folder), code=3, env={"JPREP_FAILPOINT": "output.written@3=enospc"})
    assert "the disk is full" in failed.stderr and "Traceback" not in failed.stderr
    jprep(*command(corpus, folder))
    assert digests(folder) == uninterrupted
