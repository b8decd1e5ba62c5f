"""Runs on a mixture: what the job records, resuming on other numbers of processes, and a stage that is added later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.dataset.manifest import read_dataset
from jprep.dataset.mix import MixConfig, MixStage
from jprep.errors import MismatchError
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.directory import open_run, read_job
from jprep.train.worker.batches import Batches
from tests.fakes.small_run import all_ranks, plan_of, weights
from tests.fakes.trained_run import trained_run
from tests.unit.dataset.test_mixtures import SIZES, mixed_dataset

MIX = MixConfig(weights={"wiki": 2, "web": 1, "books": 0})
LATER = MixConfig(weights={"wiki": 1, "web": 1, "books": 3}, stages=[MixStage(until_step=20, weights=MIX.weights)])
MODEL = {"config": {"model_type": "roberta", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                    "intermediate_size": 24}}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a tokenizer, and a dataset whose training split has sources."""
    trained_run(tmp_path)
    plain = read_dataset(tmp_path / "dataset")
    fields = {name: getattr(plain, name) for name in ("made_from", "vocab_size", "end", "newline")}
    mixed_dataset(tmp_path / "mixed", 200, **fields)
    return tmp_path


def job(folder: Path, run: Path | None, mix: MixConfig | None, steps: int = 20, **section: Any) -> Job:
    given = {"task": "mlm", "model": MODEL, "batch": 8, "length": 16, "steps": steps, "checkpoint": {"every_steps": 10},
             "schedule": {"kind": "constant"}} | section  # fmt: skip
    config = parse_train_config(given, "here")
    return build_job(config, "mixed", "numpy", {}, folder / "tokenizer", folder / "mixed", run=run, mix=mix)


def train(folder: Path, name: str, mix: MixConfig, steps: int) -> Path:
    run = folder / name
    open_run(run, job(folder, run, mix, steps), lambda what: None)
    assert supervise(run, plan_of(run), say=lambda what: None) == 0
    return run


def test_a_job_records_what_it_sees_of_each_source(folder: Path) -> None:
    found = {one.name: one for one in job(folder, None, MIX).sources}
    assert list(found) == list(SIZES)
    assert {name: one.rows for name, one in found.items()} == {"wiki": 107, "none": 0, "web": 53, "books": 0}
    tokens = read_dataset(folder / "mixed").parts
    size = tokens[1].tokens["train"][1]
    assert found["wiki"].tokens == round(found["wiki"].epochs * size) and found["wiki"].epochs > 0
    assert found["wiki"].epochs == 107 / -(-size // 14)
    assert job(folder, None, None).sources == []


def test_an_epoch_of_repeats_sees_each_source_that_often(folder: Path) -> None:
    mix = MixConfig(repeats={"wiki": 1, "web": 3, "books": 2})
    found = job(folder, None, mix, steps=0, epochs=1, batch=1)
    assert {one.name: one.epochs for one in found.sources} == {"wiki": 1, "none": 0, "web": 3, "books": 2}
    assert found.steps == found.samples == sum(one.rows for one in found.sources)


def test_only_a_mixture_changes_the_fingerprint(folder: Path) -> None:
    plain, mixed, other = (job(folder, None, mix) for mix in (None, MIX, LATER))
    assert mixed.made_from["mix"].keys() == {"weights", "repeats", "stages"}  # as before there were parts
    assert "mix" not in plain.made_from and len({plain.fingerprint, mixed.fingerprint, other.fingerprint}) == 3


def test_the_processes_of_a_run_share_the_rows_of_the_mixture(folder: Path) -> None:
    run = folder / "own"
    open_run(run, job(folder, run, LATER, 30), lambda what: None)
    alone = Batches(run, read_job(run)).train
    with all_ranks(run, 2) as sessions:
        batches = [session._batch(25) for session in sessions]
    whole = alone.batch(25)
    assert (np.concatenate([one.input_ids for one in batches]) == whole.input_ids).all()


def test_a_stage_added_later_gives_the_weights_of_one_planned_from_the_start(folder: Path) -> None:
    train(folder, "longer", MIX, 20)
    run, straight = train(folder, "longer", LATER, 40), train(folder, "straight", LATER, 40)
    assert weights(run, 40) == weights(straight, 40)
    assert read_job(run).mix == LATER and len(read_job(run).earlier) == 1


def test_rows_already_trained_on_cannot_be_mixed_otherwise(folder: Path) -> None:
    run = folder / "own"
    open_run(run, job(folder, run, MIX), lambda what: None)
    sooner = MixConfig(weights=LATER.weights, stages=[MixStage(until_step=19, weights=MIX.weights)])
    for mix, steps in ((sooner, 40), (None, 40), (LATER, 20)):
        with pytest.raises(MismatchError, match=r"dataset\.mix"):
            open_run(run, job(folder, run, mix, steps), lambda what: None)
    with pytest.raises(MismatchError, match="would have had other rows") as caught:
        open_run(run, job(folder, run, sooner, 40), lambda what: None)
    assert "[[dataset.mix.stages]] with until_step = 20" in caught.value.fix
    assert read_job(run).mix == MIX
