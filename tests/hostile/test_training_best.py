"""The best checkpoint of a real training, and one flipped bit in each file of one, through the commands themselves."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import COMMAND, digests, environment
from tests.fakes.torch_work import Training, need_torch

pytestmark = pytest.mark.backends

BEST = (
    "train.validation.every_steps=3", "train.checkpoint.every_steps=5", "train.checkpoint.keep_last=1",
    "train.checkpoint.keep_best=1", "train.optimizer.lr=0.3",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def torch() -> None:
    need_torch()


def settings() -> list[str]:
    return [word for setting in BEST for word in ("--set", setting)]


def kept(training: Training) -> dict[int, tuple[float | None, dict[str, str]]]:
    return {
        one.step: (one.commit.loss, {name: file.sha256 for name, file in one.commit.files.items()})
        for one in training.whole()
    }


@pytest.mark.soak
def test_the_best_is_kept_and_the_same_after_kills(tmp_path: Path) -> None:
    straight = Training(tmp_path / "straight").lay_out(14)
    straight.train(*settings())
    measured = {event.step: event.figures["loss"] for event in straight.events() if event.kind == "validation"}
    best = min(measured, key=lambda step: (measured[step], -step))
    assert kept(straight).keys() == {best, 14} and best % 5
    killed = Training(tmp_path / "killed").lay_out(14)
    killed.train(*settings(), JPREP_FAILPOINT="run.committed@4=die")
    assert [event.kind for event in killed.events()].count("restart") >= 1
    assert kept(killed) == kept(straight)


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def outcome(training: Training, command: list[str], use: list[str], expected: dict[str, str]) -> str:
    """What came of a command: it refused, or what it wrote is right, or it is wrong."""
    done = subprocess.run(command, cwd=training.folder, env=environment(), capture_output=True, text=True, timeout=1800)
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode:
        return "refused"
    found = {name: digest for name, digest in digests(training.folder / use[0]).items() if name in use[1:]}
    return "right" if found == expected else "WRONG"


@pytest.mark.soak
def test_one_flipped_bit_in_each_file_of_a_run(tmp_path: Path) -> None:
    """Each followed by `jprep train` or `jprep export`: the exported weights are right, or nothing is exported."""
    whole = Training(tmp_path / "whole").lay_out(10)
    whole.train()
    run = str(whole.run.relative_to(whole.folder))
    export = [COMMAND, "export", run, "-o", "out"]
    subprocess.run(export, cwd=whole.folder, env=environment(), check=True)
    expected = {name: digests(whole.folder / "out")[name] for name in ("model.safetensors", "config.json")}
    shutil.rmtree(whole.folder / "out")
    names = [path.relative_to(whole.run) for path in sorted(whole.run.rglob("*")) if path.is_file()]
    found, chance = Counter[str](), random.Random(7)
    for name in (name for name in names if name.parts[0] not in ("LOCK", "heartbeat", "log.txt", "ranks")):
        for first in ([], whole.command()):
            copy = Training(tmp_path / "copy")
            shutil.copytree(whole.folder, copy.folder)
            flip(copy.run / name, chance)
            if first:
                subprocess.run(first, cwd=copy.folder, env=environment(), capture_output=True, timeout=1800)
            came = outcome(copy, export, ["out", *expected], expected)
            assert came != "WRONG", f"{name}, {'train' if first else 'export'}"
            found[came] += 1
            shutil.rmtree(copy.folder)
    print(dict(found))
