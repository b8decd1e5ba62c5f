"""Samples of text of checkpoints, with PyTorch."""

from __future__ import annotations

from pathlib import Path

from jprep.train.exporting import export
from jprep.train.inference.checkpoint_samples import TextSampler, sample_checkpoint
from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline
from jprep.train.run.directory import read_job
from jprep.train.run.text_samples import read_samples
from tests.fakes.trained_run import trained_run

PROMPTS = ["日本語", "東京"]


def test_a_checkpoint_gives_the_continuations_of_its_export(tmp_path: Path) -> None:
    run = trained_run(tmp_path, "clm", "gpt2")
    found = sample_checkpoint(run, read_job(run), 5, PROMPTS, tokens=8)
    with InferencePipeline(export(run, tmp_path / "export", which="5")) as pipeline:
        expected = [pipeline.predict(prompt, GenerationConfig(tokens=8)).continuation for prompt in PROMPTS]
    assert [(sample.step, sample.prompt, sample.text) for sample in found] == [
        (5, prompt, text) for prompt, text in zip(PROMPTS, expected, strict=True)
    ]


def test_masks_are_filled_and_recorded(tmp_path: Path) -> None:
    run, said = trained_run(tmp_path, samples={"prompts": ["日本<mask>"]}), list[str]()
    TextSampler(run, read_job(run), said.append).finish(complete=True, stopped=lambda: False)
    [sample] = read_samples(run)
    assert not said and sample.step == 10 and sample.text.startswith("日本") and "<mask>" not in sample.text
