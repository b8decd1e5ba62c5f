"""Put the result of a comparison together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from jprep.compare.arms import RecipeArm, list_differences
from jprep.compare.data.building import dropped_documents
from jprep.compare.data.preparation import Preparation
from jprep.compare.judging import judge_texts
from jprep.compare.layout import HELD_OUT, scores_path
from jprep.compare.models.scoring import EncodedItems
from jprep.compare.models.training import ModelScores, steps_of
from jprep.compare.result import FORMAT, Arm, Comparison, ComparisonPlan, Curve, Item
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


def summarize(
    arms: Sequence[RecipeArm],
    ready: Preparation,
    plan: ComparisonPlan,
    outcomes: Mapping[int, ArmOutcome],
    made_from: dict[str, Any],
    mark: str,
    folder: Path,
) -> Comparison:
    """Return the result of a comparison.

    Args:
        arms: the arms.
        ready: their data.
        plan: the plan.
        outcomes: by the index of the first arm with the same data.
        made_from: everything that the result depends on.
        mark: its hash.
        folder: the output directory.
    """
    keys = [data.key for data in ready.data]
    outcome = [outcomes[keys.index(key)] for key in keys]
    items = [_item(text) for text in ready.held_out]
    scored = [number for number, item in enumerate(items) if not item.left_out]
    characters = [items[number].characters for number in scored]
    bits = [[[model.bits[number] for number in scored] for model in each.scores] for each in outcome]
    restoring = [[round(each.items.restoring[number], 6) for number in scored] for each in outcome]
    names, total = [arm.name for arm in arms], sum(characters)
    seen = [[sum(values) / total for values in seeds] for seeds in bits]
    charged = [
        [(sum(values) + sum(extra)) / total for values in seeds] for seeds, extra in zip(bits, restoring, strict=True)
    ]
    ids = [items[number].id for number in scored]
    return Comparison(
        jprep=version("jprep"),
        format=FORMAT,
        name=folder.name,
        signature=_signature(arms, plan, mark),
        fingerprint=mark,
        made_from=made_from,
        plan=plan,
        arms=[_arm(number, arms, ready, plan, outcome[number]) for number in range(len(arms))],
        items=items,
        bits=bits,
        restoring=restoring,
        bits_per_character=charged,
        bits_as_seen=seen,
        tasks=[],
        judgements=judge_texts(names, plan.seeds, ids, characters, bits, restoring),
        curves=[curve for number in range(len(arms)) for curve in _curves(names[number], outcome[number])],
        files=[_output(folder, HELD_OUT, len(items)), *_score_files(ready, plan, folder)],
    )


def _item(text: Any) -> Item:
    return Item(
        id=text.id,
        source=text.source,
        title=text.title,
        characters=len(text.text),
        sha256=sha256(text.text.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _arm(number: int, arms: Sequence[RecipeArm], ready: Preparation, plan: ComparisonPlan, outcome: ArmOutcome) -> Arm:
    arm, data = arms[number], ready.data[number]
    steps, first = steps_of(data, plan.size, plan.characters), [each.key for each in ready.data].index(data.key)
    return Arm(
        name=arm.name,
        recipe=arm.path.name,
        title=arm.recipe.name,
        differences=list_differences(arm, arms[0]),
        documents=len(Corpus(data.corpus)),
        characters=data.characters,
        dropped=dict(dropped_documents(data.corpus)),
        tokenizer=data.load_tokenizer().card.signature,
        vocab_size=data.manifest.vocab_size,
        tokens_per_character=data.tokens_per_character,
        parameters=outcome.scores[0].parameters,
        steps=steps,
        epochs=steps * plan.size.rows * plan.size.length / data.tokens,
        changed_characters=outcome.items.changed,
        same_as=arms[first].name if first != number else "",
    )


def _curves(name: str, outcome: ArmOutcome) -> list[Curve]:
    return [
        Curve(arm=name, seed=model.seed, characters=model.characters, bits=model.losses) for model in outcome.scores
    ]


def _score_files(ready: Preparation, plan: ComparisonPlan, folder: Path) -> list[Output]:
    paths = [scores_path(number, seed) for number in ready.distinct for seed in plan.seeds]
    return [_output(folder, path, len(ready.held_out)) for path in paths]


def _output(folder: Path, path: str, rows: int) -> Output:
    return Output(path, rows, file_sha256(folder / path))


def _signature(arms: Sequence[RecipeArm], plan: ComparisonPlan, mark: str) -> str:
    names = ",".join(f"{arm.name}={arm.recipe.name}" for arm in arms)
    model = f"{plan.size.name}.{plan.characters}characters.{len(plan.seeds)}seeds"
    return "|".join([f"jprep:{version('jprep')}", f"compare:{names}", model, plan.backend, f"id:{mark[:12]}"])
