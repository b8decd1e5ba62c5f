"""`compare.json`: the result of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from jprep.engine.manifest import read_manifest
from jprep.engine.stage import Output

COMPARE_JSON = "compare.json"

FORMAT = 1
"""Increased when this version could not read earlier comparisons."""


class ModelSize(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the table of sizes.

    Attributes:
        name: its name, which states its parameters without embeddings: `0.8m`.
        width: the size of the hidden states.
        layers: the number of layers.
        heads: the number of attention heads.
        inner: the size of the feed-forward layers.
        parameters: weights without the token embeddings.
        rows: rows in a batch.
        length: tokens per row.
        lr: the peak learning rate.
    """

    name: str
    width: int
    layers: int
    heads: int
    inner: int
    parameters: int
    rows: int
    length: int
    lr: float


class ComparisonPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What was planned from the budget.

    Attributes:
        budget: as given: `20min`.
        backend: the backend.
        device: `cpu` or `gpu`.
        size: the models' size.
        characters: characters of training text that each model sees.
        seeds: the seeds, the same for each arm.
    """

    budget: str
    backend: str
    device: str
    size: ModelSize
    characters: int
    seeds: list[int]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One recipe of a comparison.

    Attributes:
        name: a short name, unique in the comparison: `A`, `B`, …
        recipe: the recipe's file name.
        title: the recipe's own name.
        differences: what differs from the first arm, as `key: value here (value of the first arm)`.
        documents: training documents of its corpus.
        characters: characters of its corpus.
        dropped: documents that its filters and deduplication dropped, by reason.
        tokenizer: the tokenizer's signature.
        vocab_size: ids of its tokenizer.
        tokens_per_character: of its dataset.
        parameters: all weights of its model, with embeddings.
        steps: updates of each of its models.
        epochs: how often each document was seen.
        changed_characters: characters of the held-out texts that its pipeline changes or deletes.
        same_as: the name of the earlier arm that comes to the same dataset, or "".
    """

    name: str
    recipe: str
    title: str
    differences: list[str]
    documents: int
    characters: int
    dropped: dict[str, int]
    tokenizer: str
    vocab_size: int
    tokens_per_character: float
    parameters: int
    steps: int
    epochs: float
    changed_characters: int
    same_as: str = ""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A held-out text.

    Attributes:
        id: id of its document.
        source: name of its source.
        title: title of its document.
        characters: characters of the text as it was read, by which bits are divided.
        sha256: of the text, whose file is `heldout.jsonl`.
        left_out: why it is not part of the score, or "".
    """

    id: str
    source: str
    title: str
    characters: int
    sha256: str
    left_out: str = ""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to a task's questions.

    Attributes:
        name: the task's name.
        metric: what is measured: `accuracy`, `bits per character of the answer`.
        lower_is_better: whether the smaller score wins.
        chance: the score of guessing; 0 if it is unknown.
        items: questions that are scored.
        left_out: questions that are not, because they stand in a training text.
        scores: the score, by arm and seed: the sum of `correct` over the sum of `weights`.
        correct: of each question, by arm, seed and item: 1 if the answer is right, 0 if it is wrong, or the answer's
            bits.
        weights: of each question: 1, or the answer's characters.
    """

    name: str
    metric: str
    lower_is_better: bool
    chance: float
    items: int
    left_out: int
    scores: list[list[float]]
    correct: list[list[list[float]]]
    weights: list[float]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """How one arm did against another.

    Attributes:
        a: name of the one arm.
        b: name of the other.
        measure: `bits per character`, `bits per character as seen`, or a task's name.
        primary: whether it is the verdict of the pair; the others are further figures.
        unit: `%` of the worse arm's figure, or `points`.
        difference: how much better `a` is, in this unit; negative if it is worse.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        better: name of the better arm; "" if no difference can be shown.
        sentence: the verdict in words.
    """

    a: str
    b: str
    measure: str
    primary: bool
    unit: Literal["%", "points"]
    difference: float
    low: float
    high: float
    better: str
    sentence: str


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The training loss of one model.

    Attributes:
        arm: name of the arm.
        seed: its seed.
        characters: characters seen at each point.
        bits: training loss there, in bits per character.
    """

    arm: str
    seed: int
    characters: list[int]
    bits: list[float]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """`compare.json`. It is written last: a directory without it is unfinished.

    Bits are those of a held-out text as an arm's pipeline sees it. `restoring` are the bits that describe what the
    pipeline changed, so that `bits` + `restoring` describe the text as it was read.

    Attributes:
        jprep: version of jprep that wrote it.
        format: version of the file, see `FORMAT`.
        name: name of the comparison.
        signature: one line to cite.
        fingerprint: hash of `made_from`.
        made_from: recipes, inputs, tasks and options.
        plan: the plan.
        arms: the arms.
        items: the held-out texts.
        bits: bits of each item that is scored, by arm, seed and item.
        restoring: bits that restore the item's text, by arm and item.
        bits_per_character: the primary figure, by arm and seed.
        bits_as_seen: the same without `restoring`.
        tasks: the tasks.
        judgements: the verdicts, primary ones first.
        curves: training losses.
        files: the other files of the output: `heldout.jsonl`, scores.
    """

    jprep: str
    format: int
    name: str
    signature: str
    fingerprint: str
    made_from: dict[str, Any]
    plan: ComparisonPlan
    arms: list[Arm]
    items: list[Item]
    bits: list[list[list[float]]]
    restoring: list[list[float]]
    bits_per_character: list[list[float]]
    bits_as_seen: list[list[float]]
    tasks: list[TaskResult]
    judgements: list[Judgement]
    curves: list[Curve]
    files: list[Output]

    @property
    def scored(self) -> list[Item]:
        """The items that `bits` and `restoring` are of, in their order."""
        return [item for item in self.items if not item.left_out]


def read_comparison(folder: Path) -> Comparison:
    """Read the result of a comparison.

    Raises:
        ConfigError: the directory holds no finished comparison.
        DamagedError: the file is damaged.
    """
    return read_manifest(folder / COMPARE_JSON, Comparison, what="comparison", command="jprep compare")
