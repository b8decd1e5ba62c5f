"""`jprep segmenter train` and `evaluate`."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path

import pytest

from jprep.cli.segmenter.evaluate import evaluate
from jprep.cli.text import segment
from jprep.corpus import text
from jprep.corpus.config import CorpusConfig
from tests.conftest import Run

SIZES = "characters=10,pairs=12,triples=12,quadruples=12,neighbours=10,words=12"


def test_commands_and_functions_have_the_default_segmenter_of_new_recipes() -> None:
    used = [option.default for command in (segment, evaluate) for option in command.params if option.name == "using"]
    assert [*used, signature(text.segment).parameters["using"].default] == [CorpusConfig().segmenter] * 3


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of a small grammar, with spaces between their words."""
    path = tmp_path_factory.mktemp("gold") / "gold.txt"
    lines = [
        f"{who} は {what} を {verb} 。\n"
        for who in ("彼女", "犬", "先生", "子供", "東京")
        for what in ("本", "図書館", "水", "タワー")
        for verb in ("読む", "見た", "作る")
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(gold: Path, jprep: Run) -> Path:
    """A model that was trained on them."""
    path = gold.with_name("words.model")
    options = ("--dictionary", "none", "--sizes", SIZES, "--passes", 8, "--license", "CC0")
    done = jprep("segmenter", "train", "--words", gold, "--json", "-o", path, *options)
    found = json.loads(done.stdout)
    assert found["card"]["sentences"] == 60 and found["card"]["license"] == "CC0"
    assert found["bytes"] == path.stat().st_size
    return path


def test_a_trained_model_segments_text(model: Path, jprep: Run) -> None:
    done = jprep(
        "text", "segment", "--using", "pointwise", "--set", f"model={model}", stdin="犬は水を見た。\n".encode()
    )
    assert done.stdout == "犬 は 水 を 見た 。\n"


def test_evaluation_shows_f1_and_agreement(model: Path, gold: Path, jprep: Run) -> None:
    options = ("--using", "pointwise", "--set", f"model={model}", "--against", "none")
    rows = json.loads(jprep("segmenter", "evaluate", gold, *options, "--json").stdout)
    assert [(row["segmenter"], row["against"]) for row in rows] == [
        ("pointwise", "gold"), ("none", "gold"), ("pointwise", "none"),
    ]  # fmt: skip
    assert rows[0]["f1"] > 0.99 and rows[1]["f1"] == 0 and rows[2]["sentences"] == 60
    shown = jprep("segmenter", "evaluate", gold, *options).stdout
    assert "60 of 60 sentences are equal" in shown and "  →  " in shown


def test_a_teacher_labels_text_and_a_finished_model_is_not_replaced(gold: Path, tmp_path: Path, jprep: Run) -> None:
    path, options = tmp_path / "a.model", ("--teacher", "spaces", "--dictionary", gold, "--sizes", SIZES, "--passes", 1)
    command = ("segmenter", "train", "--text", gold, "-o", path, *options)
    assert "segmenter evaluate GOLD" in jprep(*command).stdout
    assert "this file exists" in jprep(*command, code=2).stderr
    jprep(*command, "--force")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "at least one --words or --text"),
        (("--words", "GOLD", "--sizes", "x=1"), "--sizes"),
        (("--words", "GOLD", "--sizes", "words=99"), "words"),
        (("--words", "GOLD", "--dictionary", "missing"), "no dictionary"),
        (("--words", "GOLD", "--passes", "0"), "passes"),
    ],
)
def test_wrong_options_are_usage_errors(
    gold: Path, tmp_path: Path, jprep: Run, options: tuple[str, ...], message: str
) -> None:
    named = [gold if option == "GOLD" else option for option in options]
    assert message in jprep("segmenter", "train", "-o", tmp_path / "a.model", *named, code=2).stderr
