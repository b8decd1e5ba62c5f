"""The session of a worker for labelled rows."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.errors import ConfigError, MismatchError
from jprep.tokenizer import load_tokenizer
from jprep.train.job.config import parse_train_config
from jprep.train.job.labelled_data import read_labelled_splits
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.directory import read_job
from jprep.train.run.events import read_events
from jprep.train.worker.session import Session
from tests.fakes.labelled_run import LABELS, labelled_run, rows, tokenizer
from tests.fakes.small_run import all_ranks, plan_of, weights
from tests.fakes.two_ranks import __file__ as LAUNCHER


def drawn(session: Session) -> list[LabelledBatch]:
    """Return all batches of a session, and close it."""
    found = [batch for _, batch in session.batches()]
    session.close()
    assert all(isinstance(batch, LabelledBatch) for batch in found)
    return found  # type: ignore[return-value]


def validated(run: Path, world: int = 1) -> list[int]:
    """Return the rows that all ranks validate on."""
    found: list[int] = []
    with all_ranks(run, world) as sessions:
        for batch in itertools.chain.from_iterable(session.validation() for session in sessions):
            assert not batch.epochs.any() and len(batch.labels) == len(batch.indices)
            found += batch.indices.tolist()
    return sorted(found)


def split(run: Path) -> tuple[set[int], set[int]]:
    """Return the rows to train on, and those to validate on."""
    trained = {int(index) for batch in drawn(Session(run)) for index in batch.indices}
    return trained, set(validated(run))


def test_an_epoch_has_each_row_once(tmp_path: Path) -> None:
    run = labelled_run(tmp_path, steps=0, epochs=2)
    job = read_job(run)
    epochs = np.concatenate([batch.epochs for batch in drawn(Session(run))])
    indices = np.concatenate([batch.indices for batch in drawn(Session(run))])
    for epoch in (0, 1):
        found = indices[epochs == epoch]
        assert len(found) == len(set(found.tolist())) == job.samples
    assert indices[epochs == 0].tolist() != indices[epochs == 1].tolist()


def test_an_epoch_has_only_complete_batches_with_drop_last(tmp_path: Path) -> None:
    kept, dropped = (labelled_run(tmp_path / str(drop), steps=0, epochs=2, drop_last=drop) for drop in (False, True))
    batch, rows = read_job(kept).train.batch, read_job(kept).samples
    assert rows % batch and read_job(dropped).samples == rows - rows % batch
    assert (read_job(kept).steps, read_job(dropped).steps) == (-(-2 * rows // batch), 2 * (rows // batch))
    for step, one in enumerate(drawn(Session(dropped))):
        assert set(one.epochs.tolist()) == {step // (rows // batch)}
        assert len(set(one.indices.tolist())) == batch
    assert validated(dropped) == validated(kept)
    assert read_job(dropped).fingerprint != read_job(kept).fingerprint


def test_ranks_share_a_batch_and_its_width(tmp_path: Path) -> None:
    run = labelled_run(tmp_path, labelled={"length": 64, "buckets": [8, 16], "folds": 3})
    whole = drawn(Session(run))
    with all_ranks(run, 2) as sessions:
        both = [[batch for _, batch in session.batches()] for session in sessions]
    for one, first, second in zip(whole, *both, strict=True):
        assert first.input_ids.shape == second.input_ids.shape == (4, one.input_ids.shape[1])
        assert (np.concatenate([first.input_ids, second.input_ids]) == one.input_ids).all()
        assert (np.concatenate([first.labels, second.labels]) == one.labels).all()


@pytest.mark.parametrize("fold", [0, 1, 2])
def test_a_fold_is_held_out_and_validated_on_once(fold: int, tmp_path: Path) -> None:
    run = labelled_run(tmp_path, fold=fold, steps=0, epochs=1)
    trained, held = split(run)
    assert not trained & held and trained | held == set(range(45))
    assert sorted(held) == validated(run, 2) == validated(run, 4)


def test_folds_are_other_jobs_and_hold_out_each_row_once(tmp_path: Path) -> None:
    held, names = [], set()
    for fold in range(3):
        (tmp_path / str(fold)).mkdir()
        run = labelled_run(tmp_path / str(fold), fold=fold)
        held += validated(run)
        names.add(read_job(run).fingerprint)
        assert read_job(run).labels == sorted(LABELS)
    assert sorted(held) == list(range(45)) and len(names) == 3
    with pytest.raises(MismatchError, match=r"train\.fold"):
        labelled_run(tmp_path / "0", fold=1)


def test_a_file_without_rows_is_named_before_its_folds(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").touch()
    with pytest.raises(ConfigError, match="there are no rows") as caught:
        train = {"task": "classify", "model": {"preset": "bert-tiny"}, "data": ["rows.jsonl"], "labelled": {"folds": 3}}
        found = load_tokenizer(tokenizer(tmp_path / "tokenizer"))
        read_labelled_splits(parse_train_config(train | {"steps": 1}, "here"), found, tmp_path)
    assert caught.value.where == "rows.jsonl" and "folds" not in caught.value.fix


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fold": 3}, "there is no fold 3"),
        ({"fold": -1}, "there is no fold -1"),
        ({"fold": 1, "labelled": {}}, "needs folds"),
        ({"fold": 1, "validation_data": ["other.jsonl"]}, "needs folds"),
        ({"labelled": {}}, "nothing to validate on"),
        ({"labelled": {"folds": 1}}, "(two|2) or more"),
        ({"labelled": {"folds": 46}}, r"46 folds are more than the 45 rows in .*rows\.jsonl"),
    ],
)
def test_a_fold_that_cannot_be_held_out_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        labelled_run(tmp_path, **changes)
    assert caught.value.fix


def test_files_to_validate_on(tmp_path: Path) -> None:
    other = rows(tmp_path / "other.jsonl", 5, start=100)
    run = labelled_run(tmp_path, validation_data=[str(other)], steps=0, epochs=1)
    trained, held = split(run)
    assert trained == set(range(45)) and held == set(range(5))


def test_validation_batches_are_limited(tmp_path: Path) -> None:
    run = labelled_run(tmp_path, validation={"every_steps": 6, "batches": 1})
    assert len(validated(run)) == 8


@pytest.mark.parametrize(("task", "figures"), [("classify", {"accuracy", "macro_f1", "mcc"}), ("regress", {"rmse"})])
def test_figures_of_two_ranks_are_those_of_one(task: str, figures: set[str], tmp_path: Path) -> None:
    measured = []
    for worker in ({}, {"worker": Path(LAUNCHER)}):
        place = tmp_path / str(len(measured))
        place.mkdir()
        run = labelled_run(place, task=task)
        assert supervise(run, plan_of(run, **worker)) == 0
        measured.append([event.figures for event in read_events(run) if event.kind == "validation"])
    one, both = measured
    assert len(one) == len(both) == 2 and one[0].keys() >= figures | {"loss"}
    for alone, together in zip(one, both, strict=True):
        assert together == {
            name: value if value is None else pytest.approx(value, rel=1e-9) for name, value in alone.items()
        }
        assert all(value is None or math.isfinite(value) for value in alone.values())


def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    (tmp_path / "uninterrupted").mkdir()
    uninterrupted, run = labelled_run(tmp_path / "uninterrupted"), labelled_run(tmp_path)
    assert supervise(uninterrupted, plan_of(uninterrupted)) == 0
    assert supervise(run, plan_of(run, CRASH_AT="7"), say=lambda text: None, backoff=0.01) == 1
    assert supervise(run, plan_of(run)) == 0
    assert [event.step for event in read_events(run) if event.kind == "start"][-1] == 4
    assert weights(run, 12) == weights(uninterrupted, 12)
