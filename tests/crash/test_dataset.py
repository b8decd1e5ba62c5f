"""A packing that is killed at a failpoint resumes with the same bytes."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jprep.dataset.manifest import read_dataset
from tests.command_server import CommandServer
from tests.conftest import COMMAND, Run, digests, environment
from tests.sampling import every

PLACES = [
    "inputs.recorded",
    "inputs.deleted@2",
    "stage.begun@3",
    "output.written@26",
    "stage.begun@2",
    "output.opened",
    "output.written@9",
    "output.renamed@3",
    "receipt.written",
    "stage.done@2",
]
PARTS = 3
MIX = (
    'dataset.mix={weights={short=2,whole=1,s1=1},parts=[{name="short",where=[{signal="characters",max=21}]},'
    '{name="whole",source="s2"}]}'
)
MIX_PLACES = ["output.opened@4", "output.written@9", "output.renamed@12", "receipt.written@2", "stage.done@2"]


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> tuple[Path, Path]:
    """A corpus of several parts, and a tokenizer for it."""
    folder = tmp_path_factory.mktemp("inputs")
    sources = []
    for part in range(PARTS):
        text = "\n\n".join(f"{part}の{n}番目の文書である。\n吾輩は猫である。" for n in range(40))
        (folder / f"{part}.txt").write_text(text, encoding="utf-8")
        reader = '{ use = "text", documents = "blank_line" }'
        sources.append(f'[[corpus.sources]]\nname = "s{part}"\npaths = ["{folder}/{part}.txt"]\nreader = {reader}\n')
    (folder / "r.toml").write_text(
        'name = "r"\n[corpus]\nsegmenter = "none"\nsignals = ["characters"]\n' + "".join(sources), encoding="utf-8"
    )
    jprep("corpus", "build", folder / "r.toml", "-o", folder / "corpus")
    model = ("--model", "byte-bpe", "--vocab-size", 300, "--boundaries", "none")
    jprep("tokenizer", "train", folder / "corpus", "-o", folder / "tokenizer", *model)
    return folder / "corpus", folder / "tokenizer"


def command(inputs: tuple[Path, Path], folder: Path, workers: int = 1, *settings: str) -> list[str]:
    corpus, tokenizer = map(str, inputs)
    own = [part for each in ("dataset.validation=0.2", *settings) for part in ("--set", each)]
    options = [*own, "--workers", str(workers)]
    return ["dataset", "pack", corpus, "--tokenizer", tokenizer, "-o", str(folder), *options]


@pytest.fixture(scope="session")
def uninterrupted(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> dict[str, str]:
    """Every file's hash when nobody disturbs the work."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "dataset"
    jprep(*command(inputs, folder))
    return digests(folder)


@pytest.mark.parametrize("place", every(3, PLACES))
def test_killed_and_resumed(
    place: str,
    inputs: tuple[Path, Path],
    tmp_path: Path,
    jprep: Run,
    command_server: CommandServer,
    uninterrupted: dict[str, str],
) -> None:
    folder = tmp_path / "dataset"
    env = environment(JPREP_FAILPOINT=f"{place}=kill")
    killed = command_server.run([COMMAND, *command(inputs, folder)], env=env, group=True)
    assert killed.returncode == -signal.SIGKILL
    assert not (folder / "dataset.json").exists()
    jprep(*command(inputs, folder, workers=2))
    assert digests(folder) == uninterrupted


@pytest.fixture(scope="session")
def in_parts(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> dict[str, str]:
    """Every file's hash of the dataset that is packed in the parts of a mixture."""
    folder = tmp_path_factory.mktemp("in_parts") / "dataset"
    jprep(*command(inputs, folder, 2, MIX))
    dataset = read_dataset(folder)
    assert all(part.documents for part in dataset.mix_parts) and [each.source for each in dataset.left_out] == ["s0"]
    return digests(folder)


@pytest.mark.parametrize("place", every(3, MIX_PLACES))
def test_killed_and_resumed_in_parts(
    place: str,
    inputs: tuple[Path, Path],
    tmp_path: Path,
    jprep: Run,
    command_server: CommandServer,
    in_parts: dict[str, str],
) -> None:
    folder, workers = tmp_path / "dataset", 1 + MIX_PLACES.index(place) % 2
    env = environment(JPREP_FAILPOINT=f"{place}=kill")
    killed = command_server.run([COMMAND, *command(inputs, folder, workers, MIX)], env=env, group=True)
    assert killed.returncode == -signal.SIGKILL and not (folder / "dataset.json").exists()
    jprep(*command(inputs, folder, 3 - workers, MIX))
    assert digests(folder) == in_parts


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(
    seed: int, inputs: tuple[Path, Path], tmp_path: Path, jprep: Run, uninterrupted: dict[str, str]
) -> None:
    chance, folder = random.Random(seed), tmp_path / "dataset"
    for _ in range(2):
        process = subprocess.Popen([COMMAND, *command(inputs, folder, 1 + seed % 2)], stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 1.0))
        process.kill()
        process.wait()
    jprep(*command(inputs, folder))
    assert digests(folder) == uninterrupted


def test_killed_after_the_manifest_was_written(
    inputs: tuple[Path, Path], tmp_path: Path, jprep: Run, command_server: CommandServer, uninterrupted: dict[str, str]
) -> None:
    """The parts of work under way are still there: seen to be whole, they go."""
    folder = tmp_path / "dataset"
    last = f"output.renamed@{3 + PARTS * 7 + 2 * (4 + 4) + 1}"  # manifests of stages; files and receipts; dataset.json
    env = environment(JPREP_FAILPOINT=f"{last}=kill")
    command_server.run([COMMAND, *command(inputs, folder)], env=env, group=True)
    assert (folder / "dataset.json").exists() and (folder / ".state/encoding").exists()
    jprep(*command(inputs, folder))
    assert digests(folder) == uninterrupted


def test_a_full_disk_is_reported(
    inputs: tuple[Path, Path], tmp_path: Path, jprep: Run, uninterrupted: dict[str, str]
) -> None:
    folder = tmp_path / "dataset"
    for place in ("output.written@3", "output.written@24"):  # while encoding, while joining
        failed = jprep(*command(inputs, folder), code=3, env={"JPREP_FAILPOINT": f"{place}=enospc"})
        assert "the disk is full" in failed.stderr and "Traceback" not in failed.stderr
    jprep(*command(inputs, folder))
    assert digests(folder) == uninterrupted
