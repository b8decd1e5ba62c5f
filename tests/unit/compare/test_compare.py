"""Comparisons with models that need no framework: held-out texts, shared work, verdicts, and resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jprep.compare.options import CompareOptions, parse_budget
from jprep.compare.result import Comparison, read_comparison
from jprep.compare.run import CompareReporter, compare
from jprep.corpus.api import Corpus
from jprep.errors import ConfigError, DamagedError, MismatchError
from tests.conftest import digests
from tests.fakes.compared_models import FakeModels, fake_models, write_recipe, write_texts

OPTIONS = CompareOptions(parse_budget("1min"), seeds=2, size="0.1m", characters=1000, workers=1)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> FakeModels:
    return fake_models(monkeypatch)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts.jsonl")


def results(folder: Path) -> dict[str, str]:
    """Return the hashes of the files of a result."""
    return {path: each for path, each in digests(folder).items() if not path.startswith(("work/", ".state/"))}


def training_texts(folder: Path) -> set[str]:
    return {doc.text for path in folder.glob("work/corpora/*") for doc in Corpus(path)}


def run(recipes: list[Path], folder: Path, **more: Any) -> Comparison:
    return compare(recipes, folder, OPTIONS._replace(**more))


def test_arms_with_different_data_are_compared_on_texts_that_none_has_seen(
    models: FakeModels, texts: Path, tmp_path: Path
) -> None:
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, model="byte-bpe", ids=600)]
    found = run(recipes, tmp_path / "out")
    assert found == read_comparison(tmp_path / "out")
    assert [arm.name for arm in found.arms] == ["A", "B"] and found.plan.seeds == [1, 2]
    held_out = [json.loads(line)["text"] for line in (tmp_path / "out" / "heldout.jsonl").open(encoding="utf-8")]
    assert len(held_out) == len(found.items) == 24  # a fifth of so few documents
    assert not training_texts(tmp_path / "out") & set(held_out)
    assert len(found.bits) == 2 and len(found.bits[0]) == 2 and len(found.bits[0][0]) == len(found.scored)
    [verdict] = [each for each in found.judgements if each.primary]
    assert (verdict.a, verdict.b) == ("A", "B") and verdict.low <= verdict.difference <= verdict.high
    assert 'tokenizer.model: "byte-bpe" (A: "bpe")' in found.arms[1].differences


def test_equal_parts_are_built_once(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    run(recipes, tmp_path / "out")
    made = {kind: len(list((tmp_path / "out" / "work" / kind).iterdir())) for kind in ("sources", "texts", "corpora")}
    assert made == {"sources": 1, "texts": 1, "corpora": 1}
    assert len(list((tmp_path / "out" / "work" / "tokenizers").iterdir())) == 2
    assert len(models.trained) == 4


def test_recipes_that_come_to_the_same_data_share_their_models(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts)]
    found = run(recipes, tmp_path / "out")
    assert len(models.trained) == 2 and found.arms[1].same_as == "A"
    assert found.judgements[0].better == "" and found.judgements[0].difference == 0


@pytest.mark.parametrize("models_done", [0, 1, 3])
def test_an_interrupted_comparison_resumes_to_the_same_bytes(
    models: FakeModels, models_done: int, texts: Path, tmp_path: Path
) -> None:
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    run(recipes, tmp_path / "undisturbed" / "out")
    models.trained, models.fails_at = [], models_done or -1
    with pytest.MonkeyPatch.context() as patch:
        if not models_done:
            patch.setattr("jprep.compare.run.find_left_out", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            run(recipes, tmp_path / "killed" / "out")
    assert not (tmp_path / "killed" / "out" / "compare.json").exists()
    models.fails_at = 0
    run(recipes, tmp_path / "killed" / "out")
    assert len(models.trained) == 4  # none was trained twice
    assert results(tmp_path / "killed" / "out") == results(tmp_path / "undisturbed" / "out")


def test_a_recipe_is_corrected_without_a_restart_until_a_model_is_scored(
    models: FakeModels, texts: Path, tmp_path: Path
) -> None:
    one, two = write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=100)
    with pytest.raises(ConfigError, match="vocab_size"):
        run([one, two], tmp_path / "out")
    write_recipe(tmp_path, "two", texts, ids=500)
    models.fails_at = 1
    with pytest.raises(RuntimeError, match="killed"):
        run([one, two], tmp_path / "out")
    write_recipe(tmp_path, "two", texts, ids=450)
    with pytest.raises(MismatchError, match="vocab_size"):
        run([one, two], tmp_path / "out")


def test_a_finished_comparison_is_verified_and_not_repeated(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    found = run(recipes, tmp_path / "out")
    assert run(recipes, tmp_path / "out") == found and len(models.trained) == 4
    with pytest.raises(MismatchError, match="seeds"):
        run(recipes, tmp_path / "out", seeds=3)
    scores = tmp_path / "out" / "scores" / "00-0001.json"
    scores.write_bytes(scores.read_bytes()[:-5])
    with pytest.raises(DamagedError):
        run(recipes, tmp_path / "out")
    assert compare(recipes, tmp_path / "out", OPTIONS, restart=True) == found and len(models.trained) == 8


def test_damaged_scores_of_unfinished_work_are_computed_again(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    models.fails_at = 2
    with pytest.raises(RuntimeError, match="killed"):
        run(recipes, tmp_path / "out")
    models.fails_at = 0
    (tmp_path / "out" / "scores" / "00-0001.json").write_bytes(b"{}")
    run(recipes, tmp_path / "out")
    assert len(models.trained) == 5


def test_scores_of_a_lost_plan_are_computed_again(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    """Else models of the old size would be compared with models of the new one."""
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    models.fails_at = 2  # the measurement, and one model
    with pytest.raises(RuntimeError, match="killed"):
        run(recipes, tmp_path / "out", size="")
    (tmp_path / "out" / ".state" / "plan.json").write_bytes(b"{")
    models.fails_at, models.trained = 0, []
    run(recipes, tmp_path / "out", size="")
    assert len(models.trained) == 5  # the measurement, and two models for each of two recipes


def test_texts_that_stand_in_a_training_text_are_left_out_for_every_arm(
    models: FakeModels, texts: Path, tmp_path: Path
) -> None:
    lines = texts.read_text(encoding="utf-8").splitlines()
    copied = [json.dumps(json.loads(line) | {"text": json.loads(line)["text"] + "\n写し"}) for line in lines[:60]]
    more = tmp_path / "more.jsonl"
    more.write_text("\n".join(copied) + "\n", encoding="utf-8")
    source = f'[[corpus.sources]]\nname = "more"\nreader = "jsonl"\npaths = ["{more}"]\n'
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, sources=source)]
    found = run(recipes, tmp_path / "out")
    left_out = [item for item in found.items if item.left_out]
    assert left_out and all("stands in more:" in item.left_out for item in left_out)
    assert {int(item.id.partition(":")[2]) < 60 for item in left_out} == {True}
    assert {int(item.id.partition(":")[2]) >= 60 for item in found.scored} == {True}


def test_held_out_texts_come_from_files_if_given(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    own = write_texts(tmp_path / "own.jsonl", 5, seed=2)
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    found = run(recipes, tmp_path / "out", held_out=(own,))
    assert len(found.items) == 5 and found.arms[0].documents == 120


def test_a_task_is_answered(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    questions = [
        {"question": f"第{number}番の山はどこですか。", "label": number % 5}
        | {f"choice{choice}": place for choice, place in enumerate(("北の空", "南の海", "東の町", "西の駅", "上の川"))}
        for number in range(6)
    ]
    task = tmp_path / "places.jsonl"
    task.write_text("\n".join(json.dumps(each, ensure_ascii=False) for each in questions), encoding="utf-8")
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    found = run(recipes, tmp_path / "out", tasks=(task,))
    [result] = found.tasks
    assert (result.name, result.metric, result.items, result.chance) == ("places", "accuracy", 6, pytest.approx(0.2))
    assert [len(each) for each in result.correct] == [2, 2] and "places accuracy" in found.judgements[-1].measure


def test_a_normalizer_gains_nothing_by_deleting(models: FakeModels, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts.jsonl")
    texts.write_text(texts.read_text(encoding="utf-8").replace("の", "の  "), encoding="utf-8")
    recipes = [
        write_recipe(tmp_path, "plain", texts),
        write_recipe(tmp_path, "normal", texts, normalizers='[{ use = "neologdn", tilde = "ignore" }]'),
    ]
    found = run(recipes, tmp_path / "out")
    assert found.arms[0].changed_characters == 0 < found.arms[1].changed_characters
    assert not any(found.restoring[0]) and all(bits > 0 for bits in found.restoring[1])
    for charged, seen, extra in zip(
        found.bits_per_character[1], found.bits_as_seen[1], [sum(found.restoring[1])] * 2, strict=True
    ):
        assert charged == pytest.approx(seen + extra / sum(item.characters for item in found.scored))


def test_wrong_recipes_and_options_are_refused(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    one, two = write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)
    other = write_recipe(tmp_path, "other", write_texts(tmp_path / "other.jsonl", seed=3))
    for recipes, more, message in (
        ([one], {}, "expected 2 to 26 recipes"),
        ([one, two], {"size": "7m"}, "no size"),
        ([one, other], {}, "no source in common"),
        ([one, two], {"tasks": (tmp_path / "none.jsonl",)}, "no such file"),
        ([one, two], {"held_out": (tmp_path / "none.txt",)}, "no such file"),
        ([one, two], {"held_out": (tmp_path,)}, "got a directory"),
        ([one, two], {"backend": "flax"}, "cannot score texts"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(recipes, tmp_path / "out", **more)
    assert not models.trained


def test_a_recipe_that_drops_everything_is_named_with_the_reasons(
    models: FakeModels, texts: Path, tmp_path: Path
) -> None:
    one = write_recipe(tmp_path, "one", texts)
    two = write_recipe(tmp_path, "two", texts, filters='[{ use = "length", min_chars = 100000 }]')
    with pytest.raises(ConfigError, match="no document") as caught:
        run([one, two], tmp_path / "out")
    assert caught.value.where == str(two) and "length" in caught.value.fix


def test_the_progress_is_reported(models: FakeModels, texts: Path, tmp_path: Path) -> None:
    seen: list[str] = []

    class Reporter(CompareReporter):
        def stage(self, text: str) -> None:
            seen.append(text)

        def note(self, text: str) -> None:
            seen.append(text)

        def scored(self, arm: str, seed: int, bits_per_character: float) -> None:
            seen.append(f"{arm}{seed}")

    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, ids=500)]
    compare(recipes, tmp_path / "out", OPTIONS, Reporter())
    assert [text for text in seen if len(text) == 2] == ["A1", "B1", "A2", "B2"]
    assert seen[0] == "reading web" and not any("budget" in text for text in seen)
    compare(recipes, tmp_path / "late", OPTIONS._replace(budget=parse_budget("0.001s"), seeds=0), Reporter())
    assert any("of the budget are left" in text for text in seen)
