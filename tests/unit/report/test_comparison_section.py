"""The section about a comparison: the verdict first, hostile names, a comparison without tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jprep.compare.result import (
    FORMAT,
    Arm,
    Comparison,
    ComparisonPlan,
    Curve,
    Item,
    Judgement,
    ModelSize,
    TaskResult,
)
from jprep.engine.manifest import write_manifest
from jprep.report.build import build_report
from tests.unit.report.pages import HOSTILE, SHOWN, page_of

SIZE = ModelSize(name="1m", width=8, layers=2, heads=2, inner=16, parameters=9, rows=4, length=16, lr=0.1)
PLAN = ComparisonPlan(budget="20min", backend="torch", device="cpu", size=SIZE, characters=1000, seeds=[1, 2])


def arm(name: str, **changes: Any) -> Arm:
    fields: dict[str, Any] = {
        "name": name, "recipe": f"{name}.toml", "title": name, "differences": [], "documents": 5, "characters": 50,
        "dropped": {}, "tokenizer": "t", "vocab_size": 9, "tokens_per_character": 0.5, "parameters": 20, "steps": 3,
        "epochs": 1.5, "changed_characters": 0,
    }  # fmt: skip
    return Arm(**fields | changes)


def item(number: int, **changes: str) -> Item:
    fields = {"id": f"i{number}", "source": "web", "title": f"text {number}"} | changes
    return Item(characters=10, sha256="c" * 64, **fields)


def judgement(sentence: str, *, primary: bool, unit: Any = "%") -> Judgement:
    return Judgement(
        a="A", b="B", measure="bits per character", primary=primary, unit=unit, difference=0.8, low=0.5, high=1.1,
        better="A", sentence=sentence,
    )  # fmt: skip


def comparison(folder: Path, **changes: Any) -> Path:
    bits = [[[20.0, 30.0], [20.0, 30.0]], [[25.0, 20.0], [25.0, 20.0]]]
    curves = [Curve(arm=name, seed=1, characters=list(range(1, 1001)), bits=[3.0] * 1000) for name in "AB"]
    fields: dict[str, Any] = {
        "jprep": "0", "format": FORMAT, "name": "try", "signature": "s", "fingerprint": "f", "made_from": {},
        "plan": PLAN, "arms": [arm("A"), arm("B", differences=["filters: none"], dropped={"too short": 3})],
        "items": [item(0), item(1), item(2, left_out="stands in a training text")], "bits": bits,
        "restoring": [[0.0, 0.0], [0.0, 0.0]], "bits_per_character": [[2.5, 2.6], [2.2, 2.3]],
        "bits_as_seen": [[2.5, 2.6], [2.2, 2.3]], "tasks": [],
        "judgements": [judgement("A better than B", primary=True), judgement("on tasks, too", primary=False)],
        "curves": curves, "files": [],
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder / "compare.json", Comparison(**fields | changes))
    return folder


def test_the_verdict_comes_first(tmp_path: Path) -> None:
    page = page_of([comparison(tmp_path / "comparison")])
    order = ["A better than B", "Bits per character", "No tasks were given", "filters: none", "too short"]
    order += ["stands in a training text", "Training loss over the characters seen", "Bits per character by seed"]
    places = [page.index(text, page.index("<main")) for text in order]
    assert places == sorted(places)


def test_texts_in_which_the_arms_differ_most_come_first(tmp_path: Path) -> None:
    [section] = build_report([comparison(tmp_path / "comparison")]).sections
    assert [row[0] for row in section.values["texts"]] == ["text 1", "text 0"]
    assert section.values["texts"][0][3:] == ["3.000", "2.000"]
    assert section.figures["judgements"][0]["sentence"] == "A better than B"


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    task = TaskResult(
        name=HOSTILE, metric=HOSTILE, lower_is_better=True, chance=0.25, items=4, left_out=1,
        scores=[[0.5, 0.5], [0.25, 0.25]],
        correct=[[[1.0] * 4] * 2] * 2, weights=[1.0] * 4,
    )  # fmt: skip
    arms = [arm("A", title=HOSTILE, recipe=HOSTILE), arm(HOSTILE, differences=[HOSTILE], dropped={HOSTILE: 1})]
    items = [item(0, title=HOSTILE, source=HOSTILE), item(1), item(2, left_out=HOSTILE)]
    changes = {"arms": arms, "tasks": [task], "items": items, "judgements": [judgement(HOSTILE, primary=True)]}
    assert SHOWN in page_of([comparison(tmp_path / "comparison", **changes)])


def test_a_comparison_without_curves_and_verdict(tmp_path: Path) -> None:
    page = page_of([comparison(tmp_path / "comparison", curves=[], judgements=[])])
    assert "There is no verdict" in page and "No training loss was recorded." in page
