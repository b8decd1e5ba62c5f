"""What an evaluation measures, and the figures that follow from its loss."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from jprep.dataset.manifest import DatasetManifest, ShardRange, read_dataset, write_dataset
from jprep.errors import ConfigError
from jprep.train.evaluation.data import HELD_OUT, EvaluationData, choose_data
from jprep.train.evaluation.evaluate import evaluate
from jprep.train.evaluation.records import add_evaluation, read_evaluations
from jprep.train.results.perplexity import perplexity
from jprep.train.run.directory import read_job
from jprep.train.worker.batches import Batches
from tests.fakes.trained_run import trained_run

CHAT = [{"role": "user", "content": "日本語"}, {"role": "assistant", "content": "東京"}]


def rows_of(run: Path, chosen: EvaluationData) -> int:
    return Batches(run, chosen.job, chosen.job_split).validation.samples


def measured(monkeypatch: pytest.MonkeyPatch, run: Path, figures: dict[str, float | None]) -> dict[str, float | None]:
    """Return the figures of an evaluation whose worker gives some figures."""
    module = "jprep.train.evaluation.evaluate"
    monkeypatch.setattr(f"{module}.measure", lambda *given: figures)
    monkeypatch.setattr(f"{module}._plan", lambda *given: None)
    return evaluate(run, split="validation").figures


def test_bits_per_byte_are_those_of_the_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained_run(tmp_path, "clm", "gpt2")
    dataset = read_dataset(tmp_path / "dataset")
    tokens = next(split.tokens for split in dataset.splits if split.name == "validation")
    write_dataset(tmp_path / "dataset", structs.replace(dataset, counts={"validation.bytes": 5 * tokens}))
    found = measured(monkeypatch, run, {"loss": 2.5})
    assert found == {"loss": 2.5, "perplexity": math.exp(2.5), "bits_per_byte": pytest.approx(2.5 / math.log(2) / 5)}
    write_dataset(tmp_path / "dataset", dataset)
    assert measured(monkeypatch, run, {"loss": 2.5}) == {"loss": 2.5, "perplexity": math.exp(2.5)}


@pytest.mark.parametrize(
    ("task", "kind", "figures", "expected"),
    [
        ("mlm", "roberta", {"loss": 2.0}, math.exp(2)),
        ("mlm", "roberta", {"loss": 100.0}, None),
        ("mlm", "roberta", {"loss": None}, None),
        ("mlm", "bert", {"loss": 2.5, "next_sentence_loss": 0.5}, math.exp(2)),
        ("rtd", "electra", {"loss": 2.0, "generator_loss": 3.0}, None),
        ("classify", "bert", {"loss": 2.0}, None),
    ],
)
def test_perplexity_is_that_of_predicted_tokens(
    task: str, kind: str, figures: dict[str, Any], expected: float | None, tmp_path: Path
) -> None:
    job = read_job(trained_run(tmp_path, task, kind))
    assert perplexity(job, figures) == (None if expected is None else pytest.approx(expected))
    if task == "rtd":
        assert perplexity(job, figures, generator=True) == pytest.approx(math.exp(3))


def test_the_measured_job_has_all_rows_once(tmp_path: Path) -> None:
    section = {"stages": [{"until_step": 5, "length": 16}], "drop_last": True, "validation": {"every_steps": 5}}
    run = trained_run(tmp_path, **section)
    chosen = choose_data(run, read_job(run), split="train")
    assert chosen.seen and chosen.job.train.stages == [] and not chosen.job.train.drop_last
    whole = trained_run(tmp_path / "whole")
    assert rows_of(run, chosen) == read_job(whole).samples


def rows(run: Path, chosen: EvaluationData) -> list[tuple[int, int]]:
    """Return the sample and the number of tokens of each row that a worker measures."""
    found = Batches(run, chosen.job, chosen.job_split).validating(0, 1)
    return [pair for batch in found for pair in zip(batch.indices.tolist(), batch.lengths.tolist(), strict=True)]


def two_sources(dataset: DatasetManifest) -> DatasetManifest:
    """Return a manifest in which the first 100 tokens of the validation split are from `a`, the others from `b`."""
    [tokens] = [split.tokens for split in dataset.splits if split.name == "validation"]
    parts = [
        ShardRange(f"documents/000{number}-{name}-000000.parquet", "", {}, {"validation": ends})
        for number, (name, ends) in enumerate({"a": (0, 100), "b": (100, tokens)}.items())
    ]
    return structs.replace(dataset, sources=[{"name": "a"}, {"name": "b"}, {"name": "c"}], parts=parts)


def test_the_rows_of_a_source_are_measured_alone(tmp_path: Path) -> None:
    run = trained_run(tmp_path, "clm", "gpt2")
    job, dataset = read_job(run), read_dataset(tmp_path / "dataset")
    write_dataset(tmp_path / "dataset", two_sources(dataset))
    each = {name: rows(run, choose_data(run, job, split="validation", source=name)) for name in ("a", "b", "")}
    tokens = {name: sum(size for _, size in found) for name, found in each.items()}
    assert tokens["a"] == 100 and tokens["a"] + tokens["b"] == tokens[""]
    indices = sorted(index for name in "ab" for index, _ in each[name])
    assert indices == [*range(len(indices))]
    for name in ("c", "d"):
        with pytest.raises(ConfigError, match=f"no text of the source '{name}'") as caught:
            choose_data(run, job, split="validation", source=name)
        assert caught.value.fix == "give another --source: a, b"


def test_figures_of_a_source_are_a_record_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained_run(tmp_path, "clm", "gpt2")
    write_dataset(tmp_path / "dataset", two_sources(read_dataset(tmp_path / "dataset")))
    module = "jprep.train.evaluation.evaluate"
    monkeypatch.setattr(f"{module}.measure", lambda *given: {"loss": 2.5})
    monkeypatch.setattr(f"{module}._plan", lambda *given: None)
    for source in ("", "a", "b", "a"):
        add_evaluation(run, evaluate(run, split="validation", source=source))
    found = read_evaluations(run, read_job(run))
    assert sorted(one.source for one in found) == ["", "a", "b"]
    assert {one.title for one in found if one.source == "a"} == {f"validation of {found[0].name} (source a)"}


def test_labelled_files_have_no_sources(tmp_path: Path) -> None:
    run = trained_run(tmp_path, "classify", "bert", labelled={"length": 32, "folds": 3})
    with pytest.raises(ConfigError, match="--source is for datasets"):
        choose_data(run, read_job(run), source="a")


def test_a_fold_or_given_files_are_measured(tmp_path: Path) -> None:
    labelled = {"length": 32, "folds": 3, "stratify": "label"}
    run = trained_run(tmp_path, "classify", "bert", labelled=labelled, class_weights="balanced")
    job = read_job(run)
    held = choose_data(run, job)
    assert (held.split, rows_of(run, held), held.seen) == ("fold 0 of 3", 10, False)
    given = choose_data(run, job, [tmp_path / "rows.jsonl"])
    assert (given.split, rows_of(run, given), given.seen) == ("", 30, True)
    assert given.job.class_weights == [] and given.job.train.class_weights == ""


def test_conversations_are_measured(tmp_path: Path) -> None:
    for name, count in (("train", 30), ("held", 5)):
        lines = [json.dumps({"messages": CHAT}, ensure_ascii=False)] * count
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    given = {"data": [str(tmp_path / "train.jsonl")], "validation_data": [str(tmp_path / "held.jsonl")]}
    run = trained_run(tmp_path, "sft", "llama", special="sentencepiece", **given)
    job = read_job(run)
    held = choose_data(run, job)
    sampler = Batches(run, held.job, held.job_split).validation
    assert held.split == HELD_OUT and sampler.counts["conversations"] == 5
    (tmp_path / "train.jsonl").unlink()
    assert rows_of(run, choose_data(run, job)) == sampler.samples, "data of the training is not read"


def test_a_column_of_folds_plays_no_part_in_given_files(tmp_path: Path) -> None:
    lines = [{"text": f"日本語{number}", "label": "ab"[number % 2], "part": number} for number in range(12)]
    rows = tmp_path / "parts.jsonl"
    rows.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    run = trained_run(tmp_path, "classify", "bert")
    job = read_job(run)
    train = structs.replace(job.train, labelled=structs.replace(job.train.labelled, fold="part", folds=3))
    chosen = choose_data(run, structs.replace(job, train=train, labels=["a", "b"]), [rows])
    assert rows_of(run, chosen) == 12
