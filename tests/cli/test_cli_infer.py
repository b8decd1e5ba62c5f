"""What `jprep infer` prints of a model that answers messages."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from jprep.cli.model import infer
from jprep.train.inference import pipeline
from jprep.train.inference.pipeline import Prediction


class Answering:
    """A pipeline whose answers have two lines."""

    exported = SimpleNamespace(task="sft", pair=False)

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def predict(self, text: str, *_: Any) -> Prediction:
        return Prediction(text, continuation=f"{text}への答\n以上")


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pipeline, "InferencePipeline", Answering)
    monkeypatch.setattr(infer, "_lines", lambda: ["問一"])
    monkeypatch.setattr(infer, "_exported", lambda model, backend: (model, "torch"))

    def run(*words: str) -> str:
        return CliRunner().invoke(infer.infer, [str(tmp_path), *words], catch_exceptions=False).output

    return run


def test_each_of_several_answers_stands_below_its_text(ask: Any) -> None:
    assert ask("問一", "問二") == "問一\n  問一への答\n  以上\n問二\n  問二への答\n  以上\n"
    assert ask("-") == "問一\n  問一への答\n  以上\n"
    assert ask("問一") == "問一への答\n以上\n"


def test_answers_in_json_are_alike_for_one_and_several(ask: Any) -> None:
    [one], [first, _] = (
        list(map(json.loads, ask("--json", *texts).splitlines())) for texts in (["問一"], ["問一", "問二"])
    )
    assert one == first and one["continuation"] == "問一への答\n以上"
