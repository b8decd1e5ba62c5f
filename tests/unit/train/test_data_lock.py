"""A run refuses data that has changed since it began."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from jprep.dataset.manifest import read_dataset, write_dataset
from jprep.errors import MismatchError
from jprep.io import hashing
from jprep.io.atomic import file_sha256
from jprep.tokenizer.card import read_card, write_card
from jprep.train.launcher.supervisor import supervise
from jprep.train.run import data_lock
from jprep.train.run.data_lock import VERIFIED, check_data
from jprep.train.run.directory import open_run, read_job
from tests.fakes.labelled_run import labelled_run
from tests.fakes.small_dataset import SPLITS, lay_out, tokenizer
from tests.fakes.small_run import plan_of, small_run


def hashed(folder: Path) -> Path:
    """A dataset whose manifest has its files' hashes."""
    lay_out(folder, SPLITS)
    about = read_dataset(folder)
    splits = [
        msgspec.structs.replace(
            split, files=[msgspec.structs.replace(one, sha256=file_sha256(folder / one.path)) for one in split.files]
        )
        for split in about.splits
    ]
    write_dataset(folder, msgspec.structs.replace(about, splits=splits))
    return folder


def flip(path: Path, place: int = 5) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are hashed; files that have just been written count as settled."""
    seen: list[str] = []
    monkeypatch.setattr(data_lock, "file_sha256", lambda path: seen.append(path.name) or file_sha256(path))
    monkeypatch.setattr(hashing, "_SETTLED", -(10**9))
    return seen


def test_a_byte_that_differs_from_the_manifest_is_refused_at_the_start(tmp_path: Path) -> None:
    flip(hashed(tmp_path / "dataset") / "train.bin")
    with pytest.raises(MismatchError, match=r"dataset/train.bin was changed or damaged") as caught:
        small_run(tmp_path)
    assert "pack the dataset again with --restart" in caught.value.fix
    assert not (tmp_path / "run" / "job.json").exists()


@pytest.mark.parametrize("with_hashes", [True, False])
def test_a_byte_that_changes_later_is_refused(with_hashes: bool, tmp_path: Path, reads: list[str]) -> None:
    (hashed if with_hashes else lambda folder: lay_out(folder, SPLITS))(tmp_path / "dataset")
    run, path = small_run(tmp_path), tmp_path / "dataset" / "train.bin"
    before = path.stat()
    flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the size and the time are what they were
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of some kernels ticks every few milliseconds
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for again in range(2):
        with pytest.raises(MismatchError, match=r"dataset/train\.bin was changed or damaged") as caught:
            supervise(run, plan_of(run))
        assert caught.value.where == str(path) and "restore" in caught.value.fix, again
    flip(path)
    assert supervise(run, plan_of(run)) == 0


def test_files_are_read_once(tmp_path: Path, reads: list[str]) -> None:
    run = small_run(tmp_path)
    splits = [f"{split}.{kind}" for split in ("train", "validation") for kind in ("bin", "idx", "marks")]
    assert sorted(reads) == ["dataset.json", *splits]
    reads.clear()
    check_data(run, read_job(run))
    small_run(tmp_path)
    assert reads == []
    (tmp_path / "dataset" / "train.bin").touch()
    check_data(run, read_job(run))
    assert reads == ["train.bin"]
    (run / VERIFIED).write_text("{")  # nothing is lost with it
    check_data(run, read_job(run))
    assert len(reads) == 1 + 7


def test_a_file_that_has_just_been_written_is_read_again(tmp_path: Path) -> None:
    """A change right after a write may not change the modification time."""
    run = small_run(tmp_path)
    assert not (run / VERIFIED).exists()


def test_a_long_check_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]) -> None:
    run, said = small_run(tmp_path), []
    check_data(run, read_job(run), said.append)
    assert said == []
    monkeypatch.setattr(data_lock, "_NOTICE_BYTES", 1)
    (tmp_path / "dataset" / "train.bin").touch()
    check_data(run, read_job(run), said.append)
    assert len(said) == 1 and "checking 0.0 GB" in said[0]


def test_an_unwritable_cache_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: object) -> None:
    run = small_run(tmp_path)
    (tmp_path / "dataset" / "train.bin").touch()
    (run / VERIFIED).unlink()
    (run / VERIFIED).mkdir()
    check_data(run, read_job(run))


def test_a_changed_tokenizer_file_is_refused(tmp_path: Path) -> None:
    place = tokenizer(tmp_path / "tokenizer")
    path = place / "tokenizer.json"
    write_card(place, msgspec.structs.replace(read_card(place), files={path.name: file_sha256(path)}))
    run = small_run(tmp_path, tokenizer="../tokenizer")
    flip(path)
    with pytest.raises(MismatchError, match=r"tokenizer/tokenizer\.json was changed or damaged"):
        check_data(run, read_job(run))
    flip(path)
    write_card(place, msgspec.structs.replace(read_card(place), signature="other"))
    with pytest.raises(MismatchError, match=r"tokenizer/card\.json is not what the run began with"):
        check_data(run, read_job(run))


def test_changed_rows_are_refused_and_named(tmp_path: Path) -> None:
    run, path = labelled_run(tmp_path), tmp_path / "rows.jsonl"
    path.write_text(path.read_text().replace("東京の7", "東京の8", 1))
    with pytest.raises(MismatchError, match=r"rows\.jsonl is not what the run began with") as caught:
        check_data(run, read_job(run))
    assert caught.value.where.endswith("rows.jsonl")


def test_a_changed_file_is_named_before_the_number_of_its_rows(tmp_path: Path) -> None:
    run, path = labelled_run(tmp_path), tmp_path / "rows.jsonl"
    job = read_job(run)
    path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")
    longer = msgspec.structs.replace(job, samples=job.samples + 1, fingerprint="other")
    with pytest.raises(MismatchError, match=r"rows\.jsonl is not what the run began with"):
        open_run(run, longer)


def test_a_file_more_is_refused(tmp_path: Path) -> None:
    run = labelled_run(tmp_path)
    job = read_job(run)
    train = msgspec.structs.replace(job.train, data=[*job.train.data, *job.train.data])
    with pytest.raises(MismatchError, match=r"files in train\.data: was 1, is 2"):
        open_run(run, msgspec.structs.replace(job, train=train, fingerprint="other"))


def test_a_model_with_fewer_ids_than_the_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match="the model has 39999 ids, and the dataset 40000"):
        small_run(tmp_path, model={"model_type": "linear", "vocab_size": 39_999})


def test_a_missing_data_lock_is_refused(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    path = run / "data.lock.json"
    path.write_text(json.dumps({"files": 3}))
    with pytest.raises(MismatchError, match=r"data\.lock\.json is damaged"):
        check_data(run, read_job(run))
    path.unlink()
    with pytest.raises(MismatchError, match=r"data\.lock\.json is missing"):
        check_data(run, read_job(run))
