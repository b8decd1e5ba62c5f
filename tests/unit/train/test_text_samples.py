"""Samples of text at checkpoints: what is recorded, when, and that a failure never stops a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jprep.errors import ConfigError, MachineError
from jprep.train.inference import checkpoint_samples
from jprep.train.inference.checkpoint_samples import TextSampler, sample_checkpoint
from jprep.train.inference.pipeline import Prediction
from jprep.train.job.config import parse_train_config
from jprep.train.run.directory import read_job
from jprep.train.run.text_samples import SampledText, read_samples
from jprep.train.uploads.background import background_tasks
from tests.fakes.trained_run import save, trained_run

PROMPTS = {"samples": {"prompts": ["日本", "東京"], "tokens": 9}}


class Pipeline:
    """Answers with the name of the export, instead of a backend's worker."""

    asked: list[Any] = []

    def __init__(self, folder: Path, backend: str, *, on_cpu: bool) -> None:
        assert (folder / "model.safetensors").is_file() and on_cpu
        self.backend = backend

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def predict(self, text: str, config: Any) -> Prediction:
        self.asked.append(config.tokens)
        return Prediction(text, continuation=f"{text} by {self.backend}")


def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_samples, "InferencePipeline", Pipeline)


def finished(sampler: TextSampler) -> None:
    sampler.finish(complete=True, stopped=lambda: False)


@pytest.mark.backends
def test_each_new_checkpoint_answers_all_prompts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch)
    run, said = trained_run(tmp_path, "clm", "gpt2", **PROMPTS), list[str]()
    [sampler] = background_tasks(run, read_job(run), said.append)
    assert isinstance(sampler, TextSampler)
    sampler.poll()
    finished(sampler)
    save(run, 15, 3.0)
    sampler.poll()
    finished(sampler)
    finished(sampler)
    lines = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    found = [(sample.step, sample.text) for sample in read_samples(run)]
    assert found == [(step, f"{prompt} by torch") for step in (10, 15) for prompt in ("日本", "東京")]
    assert len(lines) == 4 and not said and set(Pipeline.asked) == {9}


def test_a_failure_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> list[SampledText]:
        raise MachineError("torch is not installed")

    monkeypatch.setattr(checkpoint_samples, "sample_checkpoint", fail)
    run, said = trained_run(tmp_path, "clm", "gpt2", **PROMPTS), list[str]()
    sampler = TextSampler(run, read_job(run), said.append)
    for _ in range(3):
        sampler.poll()
        finished(sampler)
    assert said == ["no samples of text until the next start: step 10 gave none: torch is not installed"]
    assert read_samples(run) == []


def test_a_stopped_run_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch)
    run = trained_run(tmp_path, "clm", "gpt2", **PROMPTS)
    TextSampler(run, read_job(run), print).finish(complete=False, stopped=lambda: True)
    assert read_samples(run) == []


@pytest.mark.soak
def test_predictions_of_other_tasks_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch)
    run = trained_run(tmp_path)
    predictions = {"mask": Prediction("a", filled="ab"), "class": Prediction("a", label="good"),
                   "score": Prediction("a", score=0.5), "error": Prediction("a", error="too long")}  # fmt: skip
    for name, prediction in predictions.items():
        monkeypatch.setattr(Pipeline, "predict", lambda self, text, config, found=prediction: found)
        [sample] = sample_checkpoint(run, read_job(run), 5, ["a"])
        assert (sample.text, sample.error) == {
            "mask": ("ab", ""), "class": ("good", ""), "score": ("0.5000", ""), "error": ("", "too long"),
        }[name]  # fmt: skip


def test_samples_are_no_part_of_the_fingerprint(tmp_path: Path) -> None:
    one, two = trained_run(tmp_path / "one"), trained_run(tmp_path / "two", **PROMPTS)
    assert read_job(one).fingerprint == read_job(two).fingerprint
    assert background_tasks(one, read_job(one), print) == []


@pytest.mark.parametrize("section", [{"prompts": ["a"] * 33}, {"tokens": 0}, {"promts": ["a"]}])
def test_wrong_values_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        parse_train_config({"steps": 1, "samples": section}, "here")


def test_the_memory_of_the_process_is_logged() -> None:
    from jprep.io.machine import peak_memory

    before = peak_memory()
    held = bytearray(before + 10_000_000)
    assert peak_memory() >= len(held) > before > 1_000_000
