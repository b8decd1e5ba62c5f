"""The work of the whole inputs, stage by stage, computed from what a sample took."""

from __future__ import annotations

from typing import NamedTuple

from jprep.pipeline.estimate.loads.corpus_loads import CorpusLoads
from jprep.pipeline.estimate.loads.dataset_loads import dataset_loads
from jprep.pipeline.estimate.loads.task_loads import StageLoad
from jprep.pipeline.estimate.loads.tokenizer_loads import tokenizer_loads
from jprep.pipeline.estimate.measuring.calibration import Calibration
from jprep.pipeline.estimate.measuring.input_sizes import SourceSizes
from jprep.pipeline.recipe import Recipe
from jprep.tokenizer.config import TokenizerConfig


class Workload(NamedTuple):
    """The work of a recipe.

    Attributes:
        stages: the stages of all steps, in order.
        text: bytes of text of the corpus.
        growth: how many times as large the corpus is as that of the sample.
        factors: how many times as large each source is as its sample.
    """

    stages: list[StageLoad]
    text: float
    growth: float
    factors: list[float]


def scale_up(recipe: Recipe, calibration: Calibration, sizes: list[SourceSizes]) -> Workload:
    """Compute the work of the whole inputs.

    Args:
        recipe: the recipe.
        calibration: what the sample took.
        sizes: the sizes of the inputs of each source.
    """
    corpus = CorpusLoads(recipe, calibration, sizes)
    stages = list(corpus.loads())
    if step := calibration.steps.get("tokenizer"):
        stages += tokenizer_loads(recipe.tokenizer or TokenizerConfig(), step, corpus.growth, corpus.shards)
    if step := calibration.steps.get("dataset"):
        stages += dataset_loads(step, corpus.growth, corpus.shards)
    return Workload(stages, corpus.text, corpus.growth, corpus.factors)
