"""Samples of text over the steps of a run: those that the training recorded, and those asked for with the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jprep.errors import JprepError
from jprep.report.runs.history import RunHistory
from jprep.train.inference.checkpoint_samples import sample_checkpoint
from jprep.train.run.text_samples import SampledText, read_samples

_CHECKPOINTS = 12  # are asked, evenly spaced
_SHOWN = 24  # steps of each prompt, evenly spaced


def sampled_texts(run: RunHistory, prompts: Sequence[str]) -> list[SampledText]:
    """Return the samples that a training recorded, and what its kept checkpoints make of prompts, by step.

    A checkpoint that cannot be asked gives a sample with the error.

    Args:
        run: the run.
        prompts: texts to continue, or with masks to fill.
    """
    recorded = read_samples(run.folder)
    found = {(each.step, each.prompt): each for each in [*recorded, *_asked(run, prompts)]}
    steps = sorted({step for step, _ in found})
    chosen = set(_spaced(steps, _SHOWN))
    return sorted((each for each in found.values() if each.step in chosen), key=lambda each: each.step)


def _asked(run: RunHistory, prompts: Sequence[str]) -> Iterator[SampledText]:
    for step in _spaced([each.step for each in run.checkpoints], _CHECKPOINTS) if prompts else []:
        try:
            yield from sample_checkpoint(run.folder, run.job, step, prompts)
        except JprepError as error:
            yield from (SampledText(step, prompt, error=error.what) for prompt in prompts)


def _spaced(steps: Sequence[int], number: int) -> list[int]:
    """Return at most a number of steps, evenly spaced, with the first and the last one."""
    if len(steps) <= number:
        return list(steps)
    return sorted({steps[round(place * (len(steps) - 1) / (number - 1))] for place in range(number)})
