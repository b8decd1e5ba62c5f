"""Training from TFRecord shards takes the steps of the session, from a path or a URL, and resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

from jprep.dataset.exports import export_dataset
from jprep.dataset.exports.base import ExportOptions
from jprep.dataset.sampling.config import MaskingConfig
from jprep.errors import ConfigError, InputError
from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner
from jprep.train.run.directory import read_job
from jprep.train.worker.batches import Batches
from jprep_keras.worker.records import batch_of, record_batches

CASE, STEPS = "bert-mlm", 100
LONGER: dict[str, Any] = {"steps": STEPS, "validation": {"every_steps": 50}, "checkpoint": {"every_steps": 60}}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> SuiteRunner:
    return SuiteRunner(tmp_path_factory.mktemp("records"), "keras", {"device": "cpu"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("data")
    write_suite_tokenizer(made / "tokenizer", "bert")
    write_suite_dataset(made / "dataset", "bert")
    return made


@pytest.fixture(scope="module")
def session(bench: SuiteRunner) -> FinishedRun:
    return bench.trained(CASE, **LONGER)


def exported(folder: Path, features: Literal["bert", "transformers"]) -> list[str]:
    most = 32 if features == "bert" else None
    options = ExportOptions(
        features=features, length=32, packing="line", seed=7, dupe_factor=9, rows_per_shard=300, max_predictions=most
    )
    export_dataset(folder / "dataset", folder / "tokenizer", "tfrecord", folder / features, options)
    return [str(folder / features / "train-*.tfrecord")]


@pytest.mark.soak
@pytest.mark.parametrize("features", ["bert", "transformers"])
def test_a_hundred_steps_are_those_of_the_session(
    features: Literal["bert", "transformers"], folder: Path, bench: SuiteRunner, session: FinishedRun
) -> None:
    prepared = bench.prepare(CASE, {"records": exported(folder, features)}, **LONGER)
    kill = {"JPREP_FAILPOINT": "run.committed@2"} if features == "bert" else {}
    trained = bench.train(prepared, **kill)
    assert trained.code == 0, trained.messages
    assert [event.step for event in trained.events() if event.kind == "start"] == ([0, 60] if kill else [0])
    losses = trained.losses()
    assert list(losses) == list(range(1, STEPS + 1))
    golden = golden_curve(CASE).train
    assert list(losses.values())[: len(golden)] == pytest.approx(golden, rel=1e-4)
    assert losses == pytest.approx(session.losses(), rel=1e-6)
    assert trained.losses("validation") == pytest.approx(session.losses("validation"), rel=1e-6)


def test_missing_shards_end_the_run_with_a_fix(tmp_path: Path, bench: SuiteRunner) -> None:
    trained = bench.train(bench.prepare(CASE, {"records": [str(tmp_path / "none-*.tfrecord")]}))
    assert trained.code == 2 and "there are no such TFRecord files" in trained.messages


def test_records_are_for_texts_only(bench: SuiteRunner) -> None:
    with pytest.raises(ConfigError, match="records are for clm and mlm"):
        bench.prepare("bert-classify", {"records": ["x"]})
    with pytest.raises(ConfigError, match="no last rows"):
        bench.prepare(CASE, {"records": ["x"]}, drop_last=True)


@pytest.mark.parametrize("pairs", [False, True])
def test_pairs_are_for_next_sentence_and_nothing_else_is(pairs: bool, bench: SuiteRunner) -> None:
    job = read_job(bench.prepare(CASE).run)
    job = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, next_sentence=pairs))
    row = {name: np.ones(32, np.int64) for name in ("input_ids", "attention_mask", "labels")}
    pair = row | {"token_type_ids": np.ones(32, np.int64), "next_sentence_label": np.ones(1, np.int64)}
    single = pair | {"token_type_ids": np.zeros(32, np.int64)}
    right, wrong = (pair, single) if pairs else (single, pair)
    batch_of(job, [right], np.zeros(1, np.uint64))
    with pytest.raises(InputError, match="pairs of sentences") as error:
        batch_of(job, [wrong], np.zeros(1, np.uint64))
    assert "--next-sentence" in error.value.fix


def test_rows_that_do_not_fit_are_refused(bench: SuiteRunner) -> None:
    job = read_job(bench.prepare(CASE).run)
    row = {"input_ids": np.zeros(16, np.int64), "attention_mask": np.ones(16, np.int64)}
    keys = np.zeros(1, np.uint64)
    with pytest.raises(InputError, match="rows of 16 tokens"):
        batch_of(job, [row], keys)
    with pytest.raises(InputError, match="lack the feature attention_mask"):
        batch_of(job, [{"input_ids": row["input_ids"]}], keys)
    words = msgspec.structs.replace(job.train, masking=MaskingConfig(whole_word=True))
    wide = {name: np.ones(32, np.int64) for name in row}
    with pytest.raises(InputError, match="do not mark words") as error:
        batch_of(msgspec.structs.replace(job, train=words), [wide], keys)
    assert "--masks static" in error.value.fix


def test_rows_without_masks_are_masked_in_each_pass(folder: Path, bench: SuiteRunner) -> None:
    """The first pass has the batches of the session, and each later one has other masks of the same rows."""
    prepared = bench.prepare(CASE)
    job = read_job(prepared.run)
    train = job.train
    options = ExportOptions(
        features="transformers", masks="dynamic", length=train.length, packing=train.packing, seed=train.seed
    )
    export_dataset(folder / "dataset", folder / "tokenizer", "tfrecord", folder / "unmasked", options)
    patterns = [str(folder / "unmasked" / "train-*.tfrecord")]
    of_session, per_epoch = Batches(prepared.run, job).train, job.samples // train.batch
    read = record_batches(job, patterns, 0)
    for step in range(per_epoch):
        expected, found = of_session.batch(step), next(read)
        for name in ("input_ids", "labels", "lengths"):
            assert np.array_equal(getattr(found, name), getattr(expected, name))
    passes = [next(record_batches(job, patterns, step)) for step in (0, job.samples)]
    texts = [np.where(one.labels >= 0, one.labels, one.input_ids) for one in passes]
    assert np.array_equal(*texts) and not np.array_equal(passes[0].labels, passes[1].labels)
