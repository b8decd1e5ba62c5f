"""The next-sentence task in a job: its rows, weights and metrics, what it refuses, and fingerprints without it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.dataset.manifest import VALIDATION
from jprep.errors import ConfigError
from jprep.io.safetensors_file import TensorFiles
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from jprep.train.job import data_summary
from jprep.train.job.build import build_job
from jprep.train.job.config import TrainConfig, parse_train_config
from jprep.train.job.fingerprint import job_fingerprint
from jprep.train.models import parameters
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.worker.batches import Batches
from jprep.train.worker.next_sentence import NextSentenceMetrics
from jprep.train.worker.validation_metrics import row_labels, validation_metrics

PAIRS = {"next_sentence": True, "batch": 6, "length": 40, "validation": {"every_steps": 5}}
HEADS = {
    "bert.pooler.dense.weight": (128, 128), "bert.pooler.dense.bias": (128,),
    "cls.seq_relationship.weight": (2, 128), "cls.seq_relationship.bias": (2,),
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pairs")
    return write_suite_tokenizer(folder / "tokenizer", "bert"), write_suite_dataset(folder / "dataset", "bert")


def job(inputs: tuple[Path, Path], **section: Any):
    given = {"task": "mlm", "model": {"preset": "bert-tiny"}, "steps": 10} | section
    return build_job(parse_train_config(given, "here"), "run", "torch", {}, *inputs)


def test_the_model_has_both_pretraining_heads(inputs, tmp_path):
    with_pairs, without = job(inputs, **PAIRS), job(inputs, batch=6, length=40)
    assert with_pairs.model["architectures"] == ["BertForPreTraining"]
    tensors, others = parameters(with_pairs.model, "mlm"), parameters(without.model, "mlm")
    assert {name: tensors[name].shape for name in tensors.keys() - others.keys()} == HEADS
    assert with_pairs.parameters - without.parameters == sum(math.prod(shape) for shape in HEADS.values())
    assert with_pairs.fingerprint != without.fingerprint


def test_weights_of_a_masked_language_model_get_new_heads(inputs, tmp_path):
    with_pairs, without = job(inputs, **PAIRS), job(inputs, batch=6, length=40)
    given, extended, whole = (tmp_path / name for name in ("given", "extended", "whole"))
    write_initial_weights(without.model, "mlm", 5, given)
    write_initial_weights(with_pairs.model, "mlm", 6, extended, given)
    write_initial_weights(with_pairs.model, "mlm", 6, whole)
    found, old, new = (TensorFiles([path]) for path in (extended, given, whole))
    assert set(found) == set(new)
    for name in found:
        assert (found[name] == (new if name in HEADS else old)[name]).all()
    write_initial_weights(without.model, "mlm", 7, tmp_path / "back", whole)  # the next-sentence head is ignored


def test_the_fingerprint_of_a_job_without_it_is_that_of_earlier_versions():
    assert job_fingerprint(TrainConfig(task="mlm", steps=10), {}, 10, {}, {}) == "1a5badd26be99dcbdbb4d68bc2941818"


def test_validation_has_each_pair_once(inputs, tmp_path):
    found = job(inputs, **PAIRS | {"batch": 7})
    batches = Batches(tmp_path, found)
    seen = [index for batch in batches.validating(0, 1) for index in batch.indices.tolist()]
    assert sorted(seen) == list(range(batches.validation.samples)) and len(seen) % 7
    last = list(batches.validating(0, 1))[-1]
    assert len(last.segments) == len(last.next_sentence) == len(last.input_ids) < 7
    assert batches.train.samples == found.samples


def test_metrics_do_not_depend_on_the_ranks(inputs, tmp_path):
    found = job(inputs, **PAIRS)
    random = np.random.default_rng(1)
    whole, parts = NextSentenceMetrics(found), [NextSentenceMetrics(found, 3) for _ in range(3)]
    losses, correct = [], []
    for rows in (6, 6, 4):
        logits, labels = random.normal(size=(rows, 2)), random.integers(0, 2, rows)
        whole.add(logits, labels)
        for rank, part in enumerate(parts):
            part.add(logits[2 * rank : 2 * rank + 2], labels[2 * rank : 2 * rank + 2])
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        losses += [-math.log(share[label]) for share, label in zip(shares, labels, strict=True)]
        correct += (logits.argmax(axis=1) == labels).tolist()
    expected = {"next_sentence_loss": np.mean(losses), "next_sentence_accuracy": np.mean(correct)}
    assert whole.figures() == pytest.approx(expected, rel=1e-12)
    assert parts[0].figures([part.part for part in parts]) == pytest.approx(expected, rel=1e-12)
    assert NextSentenceMetrics(found).figures() == {}


def test_a_job_has_the_metrics_of_its_rows(inputs, tmp_path):
    found = job(inputs, **PAIRS)
    batch = next(Batches(tmp_path, found).validating(0, 1))
    assert isinstance(validation_metrics(found), NextSentenceMetrics)
    assert (row_labels(batch) == batch.next_sentence).all()
    plain = job(inputs, batch=6, length=40, validation={"every_steps": 5})
    assert validation_metrics(plain) is None
    with pytest.raises(ValueError, match="no labels"):
        row_labels(next(Batches(tmp_path, plain).validating(0, 1)))


@pytest.mark.parametrize("interval", [{"every_steps": 5}, {"every_epochs": 0.5}])
def test_a_validation_split_without_pairs_is_refused_when_the_job_is_built(
    inputs: tuple[Path, Path], interval: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = data_summary.text_sampler

    def no_pairs(train: Any, source: Any, split: str, *more: Any) -> Any:
        if split == VALIDATION:
            raise ConfigError("the split has no sentence pairs")
        return original(train, source, split, *more)

    monkeypatch.setattr(data_summary, "text_sampler", no_pairs)
    with pytest.raises(ConfigError, match="no sentence pairs"):
        job(inputs, **PAIRS | {"validation": interval})


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"task": "clm", "model": {"preset": "gpt2-tiny"}}, "next_sentence is for the task mlm"),
        ({"packing": "line"}, "cannot be combined with next_sentence"),
        ({"model": {"preset": "roberta-tiny"}}, "for models of type 'bert', not 'roberta'"),
        ({"model": {"preset": "bert-tiny", "config": {"type_vocab_size": 1}}}, "two token types"),
        ({"length": 4}, "cannot hold two segments"),
    ],
)
def test_what_cannot_be_trained_is_refused(inputs, section, message):
    with pytest.raises(ConfigError, match=message):
        job(inputs, **PAIRS | section)
