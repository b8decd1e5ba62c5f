"""Run the steps of a recipe on a sample of its inputs, in a temporary directory, and measure them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.config import Source, step_name
from jprep.corpus.download.head import HEAD_BYTES
from jprep.dataset.manifest import DatasetConfig
from jprep.dataset.pack import pack
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError
from jprep.io.atomic import remove_tree
from jprep.io.inputs.paths import SUFFIXES, all_exist
from jprep.io.machine import peak_memory
from jprep.pipeline.estimate.measuring.input_division import Division, find_division
from jprep.pipeline.estimate.measuring.machine_rates import MachineRates, measure_machine
from jprep.pipeline.estimate.measuring.sampling import Sample, find_unhashed, make_sample
from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredStage, SamplingExecutor
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.steps import Step
from jprep.pipeline.tiny_inputs import with_tiny_inputs
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.train import train as train_tokenizer
from jprep.tokenizer.training_data import CorpusTrainingData

SECONDS = 20.0
"""Seconds of CPU that the sample of the corpus is processed for, by default."""

_LEAST_VOCABULARY = 300
_VALIDATION = 0.2
_RATIO = 4.0  # bytes of Japanese text for a byte of its compressed form: assumed where none of it could be read
LEARNING, SCORING = "learning", "scoring"
"""What the main process does after counting and merging for a tokenizer."""

_READ_SHARE = 0.3  # of the seconds; segmenting what was read takes longer

Note = Callable[[str], None]


class MeasuredStep(msgspec.Struct):
    """A step of which a sample was run.

    Attributes:
        stages: its stages, in order.
        rest: seconds of CPU besides the stages' tasks and `phases`.
        phases: seconds of CPU of what the main process does between stages: `LEARNING` and `SCORING`.
        memory: most bytes that the process has held until its end.
        result: bytes of the finished output.
        files: files of the finished output.
    """

    stages: list[MeasuredStage] = []
    rest: float = 0.0
    phases: dict[str, float] = {}
    memory: int = 0
    result: int = 0
    files: int = 0


class Calibration(msgspec.Struct):
    """What was measured.

    Attributes:
        machine: rates of the machine.
        steps: the steps of the sample, by name.
        origins: see `Sample`.
        whole: see `Sample`.
        shard_ratio: see `Sample`.
        stand_ins: sources for which the embedded sample of jprep, or a part of a download, was read.
        divisions: for each source of the whole recipe, how its files are read before the first stage.
        expansion: for each source of the whole recipe, how many bytes of the sample a stored byte has: more than 1 for
            the beginning of a download, which is stored without compression.
        vocabulary: ids of the tokenizer of the sample.
        seconds: seconds that all of it took.
    """

    machine: MachineRates
    steps: dict[str, MeasuredStep]
    origins: list[int]
    whole: set[int]
    shard_ratio: list[float]
    stand_ins: list[str] = []
    divisions: list[Division] = []
    expansion: list[float] = []
    vocabulary: int = 0
    seconds: float = 0.0


class CalibrationFolders:
    """Directories of a calibration.

    Args:
        folder: their parent, which is temporary.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus, self.tokenizer, self.dataset = folder / "corpus", folder / "tokenizer", folder / "dataset"
        self.run = folder / "run"


@contextmanager
def calibration_folders(work: Path) -> Iterator[CalibrationFolders]:
    """Give temporary directories on the disk of the outputs, if it can be written; they are deleted after the block.

    Args:
        work: the directory of all recipes' outputs; it need not exist.
    """
    parent = next((each for each in (work.absolute(), *work.absolute().parents) if each.is_dir()), None)
    on_disk = parent if parent and os.access(parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".jprep-plan-", dir=on_disk) as name:
        yield CalibrationFolders(Path(name))


def calibrate(
    recipe: Recipe,
    steps: list[Step],
    folders: CalibrationFolders,
    *,
    tokenizer: Path | None = None,
    seconds: float = SECONDS,
    note: Note = lambda _: None,
) -> Calibration:
    """Run the steps of a recipe on a sample of its inputs, and measure them.

    Args:
        recipe: the recipe.
        steps: the steps to measure; training is left out.
        folders: where to write.
        tokenizer: a finished tokenizer, for a recipe that trains none.
        seconds: seconds of CPU to process the sample of the corpus.
        note: called with a line for each step.

    Raises:
        ConfigError: an input does not exist, or a step is wrong.
        JprepError: a step failed on the sample.
    """
    begun = time.monotonic()
    read = with_tiny_inputs(recipe, folders.folder / "downloads", note)
    stand_ins = [
        new.name for new, old in zip(read.corpus.sources, recipe.corpus.sources, strict=True) if new.paths != old.paths
    ]
    _refuse_missing(read)
    sample = make_sample(read)
    note("measuring this machine")
    machine = measure_machine(folders.folder)
    calibration = Calibration(
        machine, {}, sample.origins, sample.whole - _numbers(recipe, stand_ins), sample.shard_ratio
    )
    calibration.stand_ins = stand_ins
    calibration.divisions = [find_division(source) for source in recipe.corpus.sources]
    calibration.expansion = [
        _expansion(old, new) for old, new in zip(recipe.corpus.sources, read.corpus.sources, strict=True)
    ]
    _Steps(sample, folders, calibration, tokenizer, seconds, note).run(steps)
    calibration.seconds = time.monotonic() - begun
    return calibration


def _refuse_missing(recipe: Recipe) -> None:
    """Raise ConfigError for a source whose files are still to be downloaded, and of which no part can be read."""
    for source in recipe.corpus.sources:
        if source.files and not all_exist(source.paths):
            what = f"the source {source.name} is not downloaded, and its reader cannot read a part of it"
            raise ConfigError(what, where=recipe.name, fix="download it with `jprep corpus fetch RECIPE`")


def _expansion(source: Source, read: Source) -> float:
    """Return how many bytes what is read has for a stored byte of the source."""
    compressed = source.files and source.files[0].url.endswith(SUFFIXES)
    if read.paths == source.paths or not compressed:
        return 1.0
    path = Path(read.paths[0])
    if path.name.startswith("sample-"):  # jprep's own
        return 1.0 if step_name(source.reader) == "wikipedia" else _RATIO
    return max(1.0, path.stat().st_size / HEAD_BYTES)


def _numbers(recipe: Recipe, names: list[str]) -> set[int]:
    return {number for number, source in enumerate(recipe.corpus.sources) if source.name in names}


class _Steps:
    """Runs the steps on the sample."""

    def __init__(
        self,
        sample: Sample,
        folders: CalibrationFolders,
        calibration: Calibration,
        tokenizer: Path | None,
        seconds: float,
        note: Note,
    ) -> None:
        self._recipe, self._folders, self._calibration = sample.recipe, folders, calibration
        self._given, self._note = tokenizer, note
        self._seconds = _READ_SHARE * seconds / max(1, len(sample.origins))

    def run(self, steps: list[Step]) -> None:
        """Run those of the steps that process text."""
        for step, work in (("corpus", self._corpus), ("tokenizer", self._tokenizer), ("dataset", self._dataset)):
            if step in steps:
                self._note(f"measuring a sample: {step}")
                executor, begun = SamplingExecutor(self._seconds), time.process_time()
                clock = work(executor)
                spent = time.process_time() - begun
                self._calibration.steps[step] = self._measured(step, executor.stages, spent, clock.seconds)

    def _measured(self, step: str, stages: list[MeasuredStage], spent: float, phases: dict[str, float]) -> MeasuredStep:
        phases = {name: seconds for name, seconds in phases.items() if name in (LEARNING, SCORING)}
        in_tasks = sum(stage.cpu + stage.startup + sum(task.main for task in stage.tasks) for stage in stages)
        files = [path for path in getattr(self._folders, step).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        rest = max(0.0, spent - in_tasks - sum(phases.values()))
        return MeasuredStep(stages, rest, phases, peak_memory(), size, len(files))

    def _corpus(self, executor: SamplingExecutor) -> PhaseClock:
        build(self._recipe, self._folders.corpus, executor, clock := PhaseClock(), find=find_unhashed)
        return clock

    def _tokenizer(self, executor: SamplingExecutor) -> PhaseClock:
        """Train a tokenizer with as many ids as the sample allows."""
        given = self._recipe.tokenizer or TokenizerConfig()
        config = given.for_small_text()
        if given.extended:  # most of its ids and characters may be those of the tokenizer that it extends
            config = msgspec.structs.replace(config, vocab_size=max(config.vocab_size, TokenizerConfig().vocab_size))
        while True:
            clock = PhaseClock()
            try:
                data = CorpusTrainingData(Corpus(self._folders.corpus))
                train_tokenizer(data, config, self._folders.tokenizer, executor, clock)
            except ConfigError:
                if config.vocab_size <= _LEAST_VOCABULARY:
                    raise
                remove_tree(self._folders.tokenizer)
                executor.stages.clear()
                config = _halved(config)
                continue
            self._calibration.vocabulary = config.vocab_size
            clock.end()
            return clock

    def _dataset(self, executor: SamplingExecutor) -> PhaseClock:
        config = self._recipe.dataset or DatasetConfig()
        share = config.validation if isinstance(config.validation, float) else _VALIDATION
        config = msgspec.structs.replace(config, mix=None, validation=max(_VALIDATION, share), test=0.0)
        tokenizer = self._given or self._folders.tokenizer
        pack(Corpus(self._folders.corpus), tokenizer, config, self._folders.dataset, executor, clock := PhaseClock())
        return clock


def _halved(config: TokenizerConfig) -> TokenizerConfig:
    size = max(_LEAST_VOCABULARY, config.vocab_size // 2)
    return msgspec.structs.replace(config, vocab_size=size, alphabet=min(config.alphabet, size // 2))


class PhaseClock(SilentProgress):
    """Measures the CPU time from the beginning of each stage or phase to that of the next one.

    Attributes:
        seconds: seconds of CPU, by title.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name, self._begun = "", 0.0

    def begin(self, stage: str, total: int) -> None:
        """End the last stage and begin another one."""
        self.end()
        self._name, self._begun = stage, time.process_time()

    def end(self) -> None:
        """End the last stage."""
        if self._name:
            self.seconds[self._name] = time.process_time() - self._begun
        self._name = ""
