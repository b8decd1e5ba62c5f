"""Tasks from files in a comparison: all forms, contaminated items, and changed files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.compare.options import CompareOptions, parse_budget
from jprep.compare.result import Comparison
from jprep.compare.run import CompareReporter, compare
from jprep.compare.statistics.differences import BITS_PER_CHARACTER
from jprep.compare.statistics.false_alarms import false_alarm_rate
from jprep.errors import ConfigError, InputError, MismatchError
from tests.fakes.compared_models import FakeModels, fake_models, write_recipe, write_texts

TASKS = Path(__file__).parent / "tasks"
FORMS = ("jcommonsenseqa.jsonl", "jnli.jsonl", "marc_ja.jsonl", "jsquad.json")
OPTIONS = CompareOptions(parse_budget("1min"), seeds=2, size="0.1m", characters=1000, workers=1)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> FakeModels:
    return fake_models(monkeypatch)


@pytest.fixture
def recipes(tmp_path: Path) -> list[Path]:
    texts = write_texts(tmp_path / "texts.jsonl")
    return [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, model="byte-bpe", ids=600)]


def run(recipes: list[Path], folder: Path, **more: Any) -> Comparison:
    return compare(recipes, folder, OPTIONS._replace(**more))


def test_all_forms_of_jglue_are_answered_and_judged(models: FakeModels, recipes: list[Path], tmp_path: Path) -> None:
    found = run(recipes, tmp_path / "out", tasks=tuple(TASKS / name for name in FORMS))
    assert [(each.name, each.items, each.left_out) for each in found.tasks] == [
        (name.partition(".")[0], 40, 0) for name in FORMS
    ]
    for task in found.tasks:
        assert np.array(task.correct).shape == (2, 2, 40)
        assert task.lower_is_better == (task.name == "jsquad")
        assert task.lower_is_better or ((np.array(task.scores) >= 0).all() and (np.array(task.scores) <= 1).all())
    assert [each.measure for each in found.judgements if not each.primary][-4:] == [
        "jcommonsenseqa accuracy",
        "jnli accuracy",
        "marc_ja accuracy",
        "jsquad bits per character of the answer",
    ]


def test_shortened_and_repeated_items_are_noted(models: FakeModels, recipes: list[Path], tmp_path: Path) -> None:
    seen: list[str] = []

    class Reporter(CompareReporter):
        def note(self, text: str) -> None:
            seen.append(text)

    long = {"context": "山と川。" * 300, "question": "何がありますか。", "answers": [{"text": "山"}]}
    items = [long, long, long | {"context": "空です。"}]
    (tmp_path / "quiz.jsonl").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    compare(recipes, tmp_path / "out", OPTIONS._replace(tasks=(tmp_path / "quiz.jsonl",)), Reporter())
    assert "note: quiz: repeated items left out: 1" in seen
    assert any("quiz, B: 1 of 2 items are longer than the model's rows" in text for text in seen)


def test_items_in_the_training_texts_of_one_arm_are_left_out_for_both(models: FakeModels, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts.jsonl")
    questions = [json.loads(line)["question"] for line in (TASKS / FORMS[0]).open(encoding="utf-8")]
    leak = tmp_path / "leak.jsonl"
    lines = [json.dumps({"text": f"質問の例: {each} という。"}, ensure_ascii=False) for each in questions[:7]]
    leak.write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = f'[[corpus.sources]]\nname = "leak"\nreader = "jsonl"\npaths = ["{leak}"]\n'
    arms = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, sources=source)]
    [task] = run(arms, tmp_path / "out", tasks=(TASKS / FORMS[0],)).tasks
    assert (task.items, task.left_out) == (33, 7)
    assert np.array(task.correct).shape == (2, 2, 33)


def test_changed_items_behind_a_description_are_noticed(
    models: FakeModels, recipes: list[Path], tmp_path: Path
) -> None:
    items, description = tmp_path / "items.jsonl", tmp_path / "task.toml"
    items.write_bytes((TASKS / FORMS[1]).read_bytes())
    description.write_text('form = "nli"\nfile = "items.jsonl"\n', encoding="utf-8")
    run(recipes, tmp_path / "out", tasks=(description,))
    items.write_text(items.read_text(encoding="utf-8").replace("男", "若い男"), encoding="utf-8")
    with pytest.raises(MismatchError):
        run(recipes, tmp_path / "out", tasks=(description,))


def test_wrong_tasks_are_refused_before_anything_is_trained(
    models: FakeModels, recipes: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "何？"}\n', encoding="utf-8")
    (tmp_path / "missing.toml").write_text('form = "nli"\nfile = "none.jsonl"\n', encoding="utf-8")
    cases = [("bad.jsonl", InputError, "no task has these fields"), ("missing.toml", ConfigError, "no such file")]
    for name, kind, message in cases:
        with pytest.raises(kind, match=message):
            run(recipes, tmp_path / "out", tasks=(tmp_path / name,))
    assert not models.trained


def test_scores_of_a_result_can_be_compared_with_themselves(
    models: FakeModels, recipes: list[Path], tmp_path: Path
) -> None:
    found = run(recipes, tmp_path / "out", seeds=6)
    characters = np.array([item.characters for item in found.scored], np.float64)
    alarms = false_alarm_rate(np.array(found.bits[0]), characters, BITS_PER_CHARACTER, seeds=3, pairs=50)
    assert alarms.pairs == 50 and 0 <= alarms.low <= alarms.high <= 1
