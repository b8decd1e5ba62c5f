"""Training with a full disk, damaged checkpoints or data, or a non-finite loss: reported, resumed, same bytes."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from tests.fakes.torch_work import EVERY, FILES, Ending, Training, need_torch
from tests.hostile.conftest import Resize
from tests.sampling import every

pytestmark = pytest.mark.backends

STEPS = 8 * EVERY


@pytest.fixture(scope="module", autouse=True)
def torch() -> None:
    need_torch()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A run that has come to its end, with all its checkpoints; tests do not write there."""
    training = Training(tmp_path_factory.mktemp("finished")).lay_out(STEPS, keep=8)
    training.train()
    return training


@pytest.fixture(scope="module")
def uninterrupted(finished: Training) -> Ending:
    return finished.ending()


@pytest.fixture
def training(finished: Training, tmp_path: Path) -> Iterator[Training]:
    """A copy of it, to be damaged."""
    shutil.copytree(finished.folder, tmp_path / "copy")
    training = Training(tmp_path / "copy")
    yield training
    training.close()


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    *((name, flip) for name in (*FILES, "COMMIT.json")),
    ("model.safetensors", shorten),
    ("optimizer.safetensors", Path.unlink),
]


def test_damaged_checkpoints_are_skipped_with_a_message(training: Training, uninterrupted: Ending) -> None:
    for step, (name, damage) in zip(range(STEPS, 0, -EVERY), DAMAGES, strict=False):
        damage(training.folders(f"step-{step:08d}")[0] / name)
    good = STEPS - len(DAMAGES) * EVERY
    said, events = training.train(), training.events()
    notes = [event.note for event in events if event.kind == "damaged"]
    for step, (name, _), note in zip(range(STEPS, 0, -EVERY), DAMAGES, notes, strict=False):
        assert note.startswith(f"step-{step:08d} is damaged and was set aside:") and name in note and note in said
    assert len(notes) == len(DAMAGES)
    assert [event.step for event in events if event.kind == "start"] == [0, good]
    assert training.ending() == uninterrupted
    aside = [f"damaged-step-{step:08d}" for step in range(good + EVERY, STEPS + 1, EVERY)]
    assert [path.name for path in training.folders("damaged-")] == aside
    assert len(training.whole()) == 8


def change_dataset(training: Training) -> tuple[object, ...]:
    flip(training.folder / "work/small/dataset/train.bin")
    return ()


def change_tokenizer(training: Training) -> tuple[object, ...]:
    flip(training.folder / "work/small/tokenizer/tokenizer.json")
    return ()


def other_dataset(training: Training) -> tuple[object, ...]:
    path = write_suite_dataset(training.folder / "other", "gpt") / "dataset.json"
    about = json.loads(path.read_bytes())
    assert about.pop("checksum")
    path.write_text(json.dumps(about).replace("suite-gpt", "suite-gpx", 1))
    return ("--dataset", path.parent)


def other_vocabulary(training: Training) -> tuple[object, ...]:
    return ("--tokenizer", write_suite_tokenizer(training.folder / "other", "roberta"))


def other_model(training: Training) -> tuple[object, ...]:
    return ("--set", "train.model.config.n_layer=3")


CHANGES = {
    change_dataset: "train.bin was changed or damaged",
    change_tokenizer: "this file was changed or damaged",
    other_dataset: "the dataset is a different one, or has changed",
    other_vocabulary: "packed with another tokenizer",
    other_model: "n_layer: was 2, is 3",
}


@pytest.mark.parametrize("change", every(3, CHANGES))
def test_changed_data_is_refused_and_the_run_is_unchanged(
    change: Callable[[Training], tuple[object, ...]], training: Training, uninterrupted: Ending
) -> None:
    shutil.rmtree(training.folders()[-1])
    before = training.digests()
    more = change(training)
    said = training.train(*more, code=2)
    assert CHANGES[change] in said and "fix: " in said and "--restart to" not in said
    assert training.digests() == before


@pytest.mark.soak
def test_a_run_resumes_when_its_data_is_restored(training: Training, uninterrupted: Ending) -> None:
    shutil.rmtree(training.folders()[-1])
    change_dataset(training)
    training.train(code=2)
    change_dataset(training)  # flipped once more, it is as it was
    training.train()
    assert training.ending() == uninterrupted


def test_a_non_finite_loss_is_reported_with_a_fix_that_works(training: Training, uninterrupted: Ending) -> None:
    worse, better = (Training(training.folder, run) for run in ("worse", "better"))
    said = worse.train("--set", "train.optimizer.lr=1e30", "--set", "train.checkpoint.every_steps=1", code=4)
    good = worse.whole()[-1]
    assert f"is nan at step {good.step + 1}; the newest checkpoint is {good.folder.name}" in said, said
    assert "use a lower train.optimizer.lr" in said and "in another output directory" in said
    kept = worse.digests()
    refused = worse.train(code=2)
    assert "train.optimizer.lr: was 1e30, is 0.01" in refused and "another output directory" in refused
    assert worse.digests() == kept
    better.train()
    assert better.ending() == uninterrupted


@pytest.mark.soak
def test_a_full_disk_ends_the_run_which_resumes_when_there_is_space(
    disk: tuple[Path, Resize], training: Training, uninterrupted: Ending
) -> None:
    folder, resize = disk
    size = sum(path.stat().st_size for path in training.whole()[-1].folder.iterdir())
    on_disk = Training(folder / "copy")
    shutil.copytree(training.folder, on_disk.folder, ignore=shutil.ignore_patterns("runs"))
    used = folder_size(folder)
    resize(str(used + size // 8))  # less than the weights that it begins with
    assert_full(on_disk)
    resize(str(used + int(3.5 * size)))  # some checkpoints and a part of one
    assert_full(on_disk)
    assert on_disk.whole()
    resize("512m")
    on_disk.train()
    assert on_disk.ending() == uninterrupted


def folder_size(folder: Path) -> int:
    statistics = os.statvfs(folder)
    return (statistics.f_blocks - statistics.f_bfree) * statistics.f_frsize


def assert_full(training: Training) -> None:
    said = training.train(code=3)
    assert "the disk is full" in said and "free some space" in said and "runs/torch" in said, said
    assert not training.folders("partial-") and not training.processes()
    training.whole()


@pytest.mark.soak
def test_a_file_that_may_not_grow_ends_it(
    training: Training, uninterrupted: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a quota does, and where no file system may be mounted."""
    size = (training.whole()[-1].folder / "model.safetensors").stat().st_size
    shutil.rmtree(training.folders()[-1])
    before = [one.step for one in training.whole()]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 2, hard))
    try:
        said = training.train(code=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot write: File too large" in said and "Traceback" not in said
    assert [one.step for one in training.whole()] == before
    training.train()
    assert training.ending() == uninterrupted
