"""What an estimate assumes, and warnings about what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jprep.engine.executors.choice import LOCAL
from jprep.pipeline.estimate.loads.input_loads import CACHED, DECODING
from jprep.pipeline.estimate.measuring.calibration import Calibration
from jprep.pipeline.estimate.measuring.input_division import describe_whole_files
from jprep.pipeline.estimate.result import TRAIN, InputEstimate, RecipeEstimate
from jprep.pipeline.recipe import Recipe
from jprep.plurals import counted

_LARGE_FACTOR = 2000  # of a source and its sample, above which the plan is rough


def list_assumptions(
    calibration: Calibration, inputs: Sequence[InputEstimate], executor: str, scheduler: float
) -> list[str]:
    """Return what an estimate assumes, one sentence each.

    Args:
        calibration: what was measured.
        inputs: the inputs.
        executor: where tasks run.
        scheduler: seconds that a scheduler is assumed to take for each stage.
    """
    listed = [
        "the beginnings of the sampled files are like the rest, and repeated lines are as frequent as in the sample",
        "every processor is as fast as this machine's, and as busy with other work as it was during the measurement",
        "time to learn a tokenizer grows with the square root of the number of different units",
        "processes need 4 bytes of memory for each byte by which a shard is larger than the sample's",
    ]
    if executor != LOCAL:
        listed.append(f"the scheduler takes {scheduler:g} s until the first task of a stage begins")
    if any(each.stand_in and each.division != "none" for each in inputs):
        rate = f"{DECODING / 1e6:.0f} MB of text a second, and caches {CACHED:.0%} of it"
        listed.append(f"a process decompresses {rate}, for compressed inputs that are not downloaded")
    listed += [
        f"{name}: measured on the beginning of a download, or on jprep's own sample" for name in calibration.stand_ins
    ]
    return listed


def list_shortages(estimate: RecipeEstimate, free: int, memory: int) -> list[str]:
    """Return warnings about the disk, and about the memory for the steps before the training, if they are too small.

    Args:
        estimate: the estimate.
        free: free bytes of the disk of the outputs.
        memory: bytes of this machine's memory; 0 if that is not known.
    """
    return [*_disk_warnings(estimate, free), *_memory_warnings(estimate, memory)]


def _disk_warnings(estimate: RecipeEstimate, free: int) -> Iterator[str]:
    needed = estimate.peak_disk + estimate.to_download
    if free < needed:
        parts = f"outputs and downloads need up to {needed / 1e9:,.1f} GB"
        trained = sum(step.disk for step in estimate.steps if step.step == TRAIN)
        if trained > needed / 2:
            parts += f", of which {trained / 1e9:,.1f} GB are checkpoints: lower train.checkpoint.keep_last"
        yield f"the disk has {free / 1e9:,.1f} GB free, and {parts}"


def _memory_warnings(estimate: RecipeEstimate, memory: int) -> Iterator[str]:
    if not memory or estimate.executor != LOCAL:
        return
    before = [step for step in estimate.steps if step.step != TRAIN]
    largest = max(before, key=lambda step: step.total_memory, default=None)
    if largest and largest.total_memory > memory:
        needed = f"{largest.total_memory / 1e9:,.1f} GB of memory with {counted(estimate.workers, 'worker')}"
        yield f"the step {largest.step} needs {needed}; this machine has {memory / 1e9:,.1f} GB: use fewer --workers"


def list_input_warnings(recipe: Recipe, estimate: RecipeEstimate) -> Iterator[str]:
    """Yield warnings about sources whose size is not known, or that do not scale."""
    for source, found in zip(recipe.corpus.sources, estimate.inputs, strict=True):
        if found.unknown:
            yield f"{source.name}: the size of {found.unknown} of {found.files} files is not known, and not counted"
        if found.factor > _LARGE_FACTOR:
            rough = "what tasks take besides their bytes is scaled with it, so the plan is an upper bound"
            yield f"{source.name}: the sample is 1/{found.factor:,.0f} of it; {rough}; use more --seconds"
        if found.division == "whole" and (undivided := describe_whole_files(source)):
            yield f"{source.name}: {undivided}"
