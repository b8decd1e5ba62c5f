"""Put the result of a comparison together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from jprep.compare.arms import RecipeArm, list_differences
from jprep.compare.data.building import dropped_documents
from jprep.compare.data.held_out import HeldOutText
from jprep.compare.data.left_out import LeftOut, kept
from jprep.compare.data.preparation import Preparation
from jprep.compare.judging import Scores, judge_task, judge_texts
from jprep.compare.layout import HELD_OUT, scores_path
from jprep.compare.models.scoring import EncodedItems
from jprep.compare.models.training import ModelScores, steps_of
from jprep.compare.result import FORMAT, Arm, Comparison, ComparisonPlan, Curve, Item, Judgement, TaskResult
from jprep.compare.tasks.judging import weights
from jprep.compare.tasks.task_files import Task
from jprep.corpus.api import Corpus
from jprep.engine.stage import Output
from jprep.io.atomic import file_sha256


class ArmOutcome(NamedTuple):
    """What the models of an arm have achieved.

    Attributes:
        scores: of each seed's model.
        items: the held-out texts as the arm's pipeline sees them.
    """

    scores: list[ModelScores]
    items: EncodedItems


class Summary(NamedTuple):
    """Everything that a comparison has found.

    Attributes:
        arms: the arms.
        tasks: the tasks.
        ready: the arms' data.
        left_out: which items are not part of the score.
        plan: the plan.
        outcomes: by the index of the first arm with the same data.
    """

    arms: Sequence[RecipeArm]
    tasks: Sequence[Task]
    ready: Preparation
    left_out: LeftOut
    plan: ComparisonPlan
    outcomes: Mapping[int, ArmOutcome]

    def result(self, made_from: dict[str, Any], mark: str, folder: Path) -> Comparison:
        """Return the result of the comparison.

        Args:
            made_from: everything that it depends on.
            mark: its hash.
            folder: the output directory.
        """
        ready, outcomes, scored = self.ready, self.by_arm, self.left_out.scored
        items = [_item(text, why) for text, why in zip(ready.held_out, self.left_out.texts, strict=True)]
        bits = [[[model.bits[number] for number in scored] for model in each.scores] for each in outcomes]
        restoring = [[round(each.items.restoring[number], 6) for number in scored] for each in outcomes]
        numbers = range(len(self.arms))
        return Comparison(
            jprep=version("jprep"),
            format=FORMAT,
            name=folder.name,
            signature=_signature(self.arms, self.plan, mark),
            fingerprint=mark,
            made_from=made_from,
            plan=self.plan,
            arms=[self._arm(number) for number in numbers],
            items=items,
            bits=bits,
            restoring=restoring,
            bits_per_character=self._figures([each.items.restoring for each in outcomes]),
            bits_as_seen=self._figures([[0.0] * len(items) for _ in outcomes]),
            tasks=[self._task(number) for number in range(len(self.tasks))],
            judgements=self._judgements([items[number] for number in scored], bits, restoring),
            curves=[curve for number in numbers for curve in _curves(self.arms[number].name, outcomes[number].scores)],
            files=[_output(folder, HELD_OUT, len(items)), *_score_files(ready, self.plan, folder)],
        )

    @property
    def by_arm(self) -> list[ArmOutcome]:
        """The outcome of each arm; the same one for arms with the same data."""
        keys = [data.key for data in self.ready.data]
        return [self.outcomes[keys.index(key)] for key in keys]

    def _figures(self, extra: Sequence[Sequence[float]]) -> list[list[float]]:
        held_out, scored = self.ready.held_out, self.left_out.scored
        return [
            [bits_per_character(model.bits, more, held_out, scored) for model in each.scores]
            for each, more in zip(self.by_arm, extra, strict=True)
        ]

    def _judgements(self, items: list[Item], bits: Scores, restoring: list[list[float]]) -> list[Judgement]:
        names = [arm.name for arm in self.arms]
        ids, characters = [item.id for item in items], [item.characters for item in items]
        found = judge_texts(names, self.plan.seeds, ids, characters, bits, restoring)
        return found + [
            each for number in range(len(self.tasks)) for each in judge_task(names, self.plan.seeds, self._task(number))
        ]

    def _task(self, number: int) -> TaskResult:
        task, scored = self.tasks[number], kept(self.left_out.tasks[number])
        every = weights(task, task.items).tolist()
        weight = [every[item] for item in scored]
        correct = [[[model.tasks[task.name][item] for item in scored] for model in each.scores] for each in self.by_arm]
        return TaskResult(
            name=task.name,
            metric=task.measure.name,
            lower_is_better=task.measure.lower_is_better,
            chance=task.chance,
            items=len(scored),
            left_out=len(task.items) - len(scored),
            scores=[[sum(values) / max(1, sum(weight)) for values in seeds] for seeds in correct],
            correct=correct,
            weights=weight,
        )

    def _arm(self, number: int) -> Arm:
        arm, data, outcome = self.arms[number], self.ready.data[number], self.by_arm[number]
        steps, first = steps_of(data, self.plan.size, self.plan.characters), self._first(number)
        return Arm(
            name=arm.name,
            recipe=arm.path.name,
            title=arm.recipe.name,
            differences=list_differences(arm, self.arms[0]),
            documents=len(Corpus(data.corpus)),
            characters=data.characters,
            dropped=dict(dropped_documents(data.corpus)),
            tokenizer=data.load_tokenizer().card.signature,
            vocab_size=data.manifest.vocab_size,
            tokens_per_character=data.tokens_per_character,
            parameters=outcome.scores[0].parameters,
            steps=steps,
            epochs=steps * self.plan.size.rows * self.plan.size.length / data.tokens,
            changed_characters=outcome.items.changed,
            same_as="" if first == number else self.arms[first].name,
        )

    def _first(self, number: int) -> int:
        return [data.key for data in self.ready.data].index(self.ready.data[number].key)


def bits_per_character(
    bits: Sequence[float], extra: Sequence[float], texts: Sequence[HeldOutText], scored: Sequence[int]
) -> float:
    """Return the bits of the scored texts for each of their characters.

    Args:
        bits: of each held-out text.
        extra: further bits of each text.
        texts: the held-out texts.
        scored: indexes of those that are scored.
    """
    characters = sum(len(texts[number].text) for number in scored)
    return round(sum(bits[number] + extra[number] for number in scored) / characters, 9)


def _item(text: HeldOutText, left_out: str) -> Item:
    return Item(
        id=text.id,
        source=text.source,
        title=text.title,
        characters=len(text.text),
        sha256=sha256(text.text.encode("utf-8", "surrogatepass")).hexdigest(),
        left_out=left_out,
    )


def _curves(name: str, models: Sequence[ModelScores]) -> list[Curve]:
    return [Curve(arm=name, seed=model.seed, characters=model.characters, bits=model.losses) for model in models]


def _score_files(ready: Preparation, plan: ComparisonPlan, folder: Path) -> list[Output]:
    paths = [scores_path(number, seed) for number in ready.distinct for seed in plan.seeds]
    return [_output(folder, path, len(ready.held_out)) for path in paths]


def _output(folder: Path, path: str, rows: int) -> Output:
    return Output(path, rows, file_sha256(folder / path))


def _signature(arms: Sequence[RecipeArm], plan: ComparisonPlan, mark: str) -> str:
    names = ",".join(f"{arm.name}={arm.recipe.name}" for arm in arms)
    model = f"{plan.size.name}.{plan.characters}characters.{len(plan.seeds)}seeds"
    return "|".join([f"jprep:{version('jprep')}", f"compare:{names}", model, plan.backend, f"id:{mark[:12]}"])
