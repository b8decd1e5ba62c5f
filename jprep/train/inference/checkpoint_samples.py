"""Let the checkpoints of a run continue prompts: one on request, or each new one while the run is training."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jprep.errors import JprepError
from jprep.io.temporary import temporary_directory
from jprep.train.exporting import export
from jprep.train.exporting.checkpoint_selection import newest_checkpoint
from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline, Prediction
from jprep.train.job.config import Job
from jprep.train.models import max_positions
from jprep.train.run.log import Say
from jprep.train.run.text_samples import SampledText, add_samples, read_samples


def sample_checkpoint(run: Path, job: Job, step: int, prompts: Sequence[str], *, tokens: int = 40) -> list[SampledText]:
    """Export a checkpoint to a temporary directory, and return what it makes of prompts, without sampling.

    The model runs on the CPU, so that it takes no memory of an accelerator from a training.

    Args:
        run: the run directory.
        job: its job.
        step: the checkpoint's step.
        prompts: raw texts.
        tokens: the maximum number of new tokens of a continuation.

    Raises:
        JprepError: the checkpoint cannot be exported, or the backend is not installed.
    """
    config = GenerationConfig(tokens=min(tokens, max_positions(job.model) // 2))
    with temporary_directory("jprep-samples-") as folder:
        exported = export(run, folder / "export", which=str(step), generator=job.train.task == "rtd")
        with InferencePipeline(exported, job.backend, on_cpu=True) as pipeline:
            found = [pipeline.predict(prompt, config) for prompt in prompts]
    return [_sample(step, each) for each in found]


class TextSampler:
    """Records what each new checkpoint makes of the prompts in `train.samples`, in a thread, one at a time.

    A checkpoint that is saved while an earlier one is asked is skipped if a later one follows meanwhile.

    Args:
        run: the run directory.
        job: its job.
        say: called with a message for the user.
    """

    def __init__(self, run: Path, job: Job, say: Say) -> None:
        self._run, self._job, self._say = run, job, say
        self._thread: threading.Thread | None = None
        self._failed = False

    def poll(self) -> None:
        """Start with the newest checkpoint if it has no samples. Called every few seconds; returns at once."""
        if not self._busy() and not self._failed and (step := self._due()):
            self._thread = threading.Thread(target=self._record, args=(step,), name="jprep-samples", daemon=True)
            self._thread.start()

    def finish(self, *, complete: bool, stopped: Callable[[], bool]) -> None:
        """Record the samples of the last checkpoint of a complete run, and wait for them."""
        self._wait(lambda: stopped() or not complete)
        if complete and not stopped():
            self.poll()
            self._wait(stopped)

    def _due(self) -> int:
        """Return the step of the newest checkpoint if it has no samples yet, else 0."""
        with contextlib.suppress(JprepError, OSError):
            step = newest_checkpoint(self._run, self._job).step
            known = {sample.prompt for sample in read_samples(self._run) if sample.step == step}
            return 0 if known.issuperset(self._job.train.samples.prompts) else step
        return 0

    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _wait(self, stopped: Callable[[], bool]) -> None:
        while self._busy() and not stopped():
            time.sleep(0.05)

    def _record(self, step: int) -> None:
        section = self._job.train.samples
        try:
            found = sample_checkpoint(self._run, self._job, step, section.prompts, tokens=section.tokens)
            add_samples(self._run, found)
        except Exception as error:  # whatever it is, training continues
            if self._still_there(step):
                self._failed = True
                what = error.what if isinstance(error, JprepError) else f"{type(error).__name__}: {error}"
                self._say(f"no samples of text until the next start: step {step:,} gave none: {what}")

    def _still_there(self, step: int) -> bool:
        """Return whether a checkpoint is still the newest; an older one may have been deleted meanwhile."""
        with contextlib.suppress(JprepError, OSError):
            return newest_checkpoint(self._run, self._job).step == step
        return True


def _sample(step: int, found: Prediction) -> SampledText:
    if found.error:
        return SampledText(step, found.text, error=found.error)
    if found.continuation is not None:
        return SampledText(step, found.text, found.continuation)
    score = None if found.score is None else f"{found.score:.4f}"
    return SampledText(step, found.text, found.filled or found.label or score or "")
