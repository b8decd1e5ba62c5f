"""A shipped recipe, its job and its backend's plan for the machine that was published, as a user would plan it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from jprep.corpus.config import Source
from jprep.pipeline.recipe import Recipe, load_recipe
from jprep.pipeline.run import plan_run
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.vocabulary import Vocabulary, VocabularyPiece
from jprep.train.backend import Plan
from jprep.train.job import build
from jprep.train.job.config import Job, TrainConfig
from jprep.train.job.data_summary import DataSummary
from jprep.train.job.intervals import is_interval_end
from jprep.train.launcher.launch import RunInputs, prepare_run
from jprep.train.optimization.schedule import learning_rate
from tests.conftest import ROOT
from tests.fakes.hugging_face import write_bert
from tests.unit.tokenizer.vocabularies import finished, small

ROWS = 4_000_000
"""Rows of an epoch, for recipes whose data the test does not have."""

MACHINES: dict[str, dict[str, Any]] = {
    "roberta-fairseq-tpu": {"tpu_type": "v3-8"},
    "bert-regression-flax": {"tpu_type": "v3-8"},
    "bert-tpu": {"tpu_type": "v3-8"},
    "electra-tpu": {"tpu_type": "v3-8"},
    "gpt2-tpu": {"tpu_type": "v3-8"},
    "roberta-tensorflow": {"tpu_type": "v3-8"},
    "gpt2-xl-japanese": {"gpu": "A100-40GB", "processes": 8},
}
"""Recipe → the machine that was published, as options of its backend."""


ROWS_FOR = {"bert-regression-flax": "reviews.csv"}
"""Recipe → rows that come with jprep, for those that take the user's own."""


class Planned(NamedTuple):
    """A recipe as it was planned.

    Attributes:
        recipe: the recipe as shipped, without the options that name the machine and what stands for the user's data.
        train: its section `[train]`.
        backend: the backend that it trains with.
        job: the job.
        plan: the plan for the published machine.
        tokenizer: a tokenizer of the kind and size that the recipe asks for, or that of the given weights.
    """

    recipe: Recipe
    train: TrainConfig
    backend: str
    job: Job
    plan: Plan
    tokenizer: Tokenizer

    @property
    def text(self) -> str:
        """The recipe's file, whose head has the commands of steps that `jprep run` does not do."""
        return recipe_path(self.recipe.name).read_text(encoding="utf-8")

    @property
    def vocabulary(self) -> TokenizerConfig:
        """The section `[tokenizer]`."""
        assert self.recipe.tokenizer
        return self.recipe.tokenizer

    def source(self, part: str) -> Source:
        """Return the only source with a path or URL that contains a text."""
        [found] = [
            source
            for source in self.recipe.corpus.sources
            if any(part in place for place in [*source.paths, *(file.url for file in source.files)])
        ]
        return found

    def rate(self, step: int) -> float:
        """Return the learning rate of an update, counted from 1; -1 is the last one."""
        number = self.job.steps - 1 if step < 0 else step - 1
        return learning_rate(number, self.job.steps, self.train.optimizer.lr, self.train.schedule)

    def saved_steps(self, count: int) -> list[int]:
        """Return the first steps after which a checkpoint is saved."""
        return self._ends(self.train.checkpoint, count)

    def validated_steps(self, count: int) -> list[int]:
        """Return the first steps after which the model is validated."""
        return self._ends(self.train.validation, count)

    def _ends(self, every: Any, count: int) -> list[int]:
        found = (step for step in range(1, self.job.steps + 1) if is_interval_end(every, step, self.job))
        return [step for _, step in zip(range(count), found, strict=False)]


def recipe_path(name: str) -> Path:
    """Return the path of a shipped recipe."""
    return ROOT / "data_recipes" / f"{name}.toml"


@lru_cache
def plan_recipe(name: str, folder: Path) -> Planned:
    """Plan a shipped recipe for the published machine.

    Nothing is read from the network: a small BERT stands for weights from the Hub, and `ROWS` for a dataset.

    Args:
        name: the recipe's name.
        folder: an empty folder for its tokenizer.
    """
    path = recipe_path(name)
    recipe = load_recipe(path)
    assert recipe.train
    init = {"train.model.init": str(_pretrained(folder / "init"))} if recipe.train.model.init else {}
    tokenizer = folder / "init" if init else _tokenizer(folder / "tokenizer", recipe.tokenizer or TokenizerConfig())
    backend = next(iter(recipe.train.backend))
    data = {"train.data": [str(ROOT / "data_recipes" / ROWS_FOR[name])]} if name in ROWS_FOR else {}
    machine = {f"train.backend.{backend}.{key}": value for key, value in MACHINES[name].items()}
    planned = plan_run(path, set=machine | init | data, tokenizer=tokenizer, work=folder / "work")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "summarize_dataset", lambda *_: DataSummary(ROWS, (), {"dataset": ""}))
        prepared = prepare_run(planned.recipe.train, RunInputs(name, planned.backend, planned.run, tokenizer), dry=True)
    train = prepared.job.train
    return Planned(recipe, train, planned.backend, prepared.job, prepared.plan, load_tokenizer(tokenizer))


def _pretrained(folder: Path) -> Path:
    """Write a BERT of two layers, with positions for the rows of a fine-tuning."""
    return write_bert(folder, positions=512)


def _tokenizer(folder: Path, config: TokenizerConfig) -> Path:
    """Write a tokenizer of the kind and size that a section asks for; most of its pieces are numbers."""
    options = {key: value for key, value in msgspec.structs.asdict(config).items() if key != "model"}
    made = small(config.model, **options)
    end = len(made.pieces) - len(made.special.tail)
    more = [VocabularyPiece(f"k{number:07d}", "normal", -1000.0 - number) for number in _missing(config, made)]
    full = Vocabulary(config, made.special, [*made.pieces[:end], *more, *made.pieces[end:]], *_rest(made))
    return finished(folder, full)


def _missing(config: TokenizerConfig, made: Vocabulary) -> range:
    return range(1_000_000, 1_000_000 + config.vocab_size - len(made.pieces))


def _rest(made: Vocabulary) -> tuple[list[tuple[str, str]], str, dict[str, int]]:
    return made.merges, made.alphabet, made.counts
