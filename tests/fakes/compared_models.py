"""Recipes to compare, and models that need no framework: the likelihood of a token follows from its frequency."""

from __future__ import annotations

import json
import random
from collections import Counter
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import jprep.compare.run as comparing
from jprep.compare.data.building import ArmData
from jprep.compare.models.training import Trained
from jprep.compare.result import ComparisonPlan
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import read_dataset
from jprep.train.inference.protocol import Request, Response, Score

PARTS = ("山", "川", "海", "空", "町", "駅", "猫", "犬", "朝", "夜", "春", "秋")
PLACES = ("北", "南", "東", "西", "上", "下", "前", "奥")
VERBS = ("歩いた", "眠った", "遊んだ", "働いた", "休んだ", "笑った")

RECIPE = """version = 1
name = "{name}"

[[corpus.sources]]
name = "web"
reader = {{ use = "jsonl", id = "id" }}
paths = ["{texts}"]
{sources}
[corpus]
segmenter = "none"
normalizers = {normalizers}
filters = {filters}

[tokenizer]
model = "{model}"
vocab_size = {ids}
boundaries = "none"
"""


def write_texts(path: Path, count: int = 120, seed: int = 1) -> Path:
    """Write different documents of several sentences, as JSON lines."""
    chance = random.Random(seed)
    lines = []
    for number in range(count):
        said = [
            f"{chance.choice(PARTS)}の{chance.choice(PLACES)}で、第{chance.randrange(10**6)}番の"
            f"{chance.choice(PARTS)}が{chance.choice(VERBS)}。"
            for _ in range(6)
        ]
        lines.append(json.dumps({"id": str(number), "text": "\n".join(said)}, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_recipe(folder: Path, name: str, texts: Path, **more: Any) -> Path:
    """Write a recipe that reads these texts."""
    values = {"sources": "", "normalizers": "[]", "filters": "[]", "model": "bpe", "ids": 400} | more
    path = folder / f"{name}.toml"
    path.write_text(RECIPE.format(name=name, texts=texts, **values), encoding="utf-8")
    return path


class FakeModels:
    """Trains and answers without a framework.

    Attributes:
        trained: the key and the seed of each model that was trained.
        fails_at: the number of models after which a training fails; 0 for never.
    """

    def __init__(self) -> None:
        self.trained: list[tuple[str, int]] = []
        self.fails_at = 0

    def train(self, data: ArmData, plan: ComparisonPlan, steps: int, seed: int, runs: Path, train: Any) -> Trained:
        if self.fails_at and len(self.trained) == self.fails_at:
            raise RuntimeError("killed")
        self.trained.append((data.key, seed))
        job = SimpleNamespace(fingerprint=f"{data.key}-{seed}", parameters=1000)
        run = runs / f"{data.key}-{seed}"
        return Trained(job, run, data.dataset, 0.1)  # type: ignore[arg-type]

    def open_client(self, trained: Trained, backend: str) -> _Client:
        return _Client(trained.export, int(trained.run.name.rpartition("-")[2]))


class _Client:
    """A unigram model of a dataset, a little different with each seed."""

    def __init__(self, dataset: Path, seed: int) -> None:
        manifest = read_dataset(dataset)
        split = IndexedSplit(dataset / "train", manifest.dtype)
        self._counts = Counter(split.tokens[:].tolist())
        self._total = self._counts.total() + manifest.vocab_size
        self._factor = 1 + seed / 1000

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def send(self, request: Request) -> Response:
        assert isinstance(request, Score)
        pairs = zip(request.rows, request.starts, strict=True)
        return Response(scores=[self._factor * sum(map(self._likelihood, row[start:])) for row, start in pairs])

    def _likelihood(self, token: int) -> float:
        return log((self._counts[token] + 1) / self._total)


def fake_models(monkeypatch: pytest.MonkeyPatch) -> FakeModels:
    """Replace the models of comparisons."""
    models = FakeModels()
    monkeypatch.setattr(comparing, "check_backend", lambda backend, device: None)
    monkeypatch.setattr(comparing, "train_model", models.train)
    monkeypatch.setattr(comparing, "open_client", models.open_client)
    monkeypatch.setattr(Trained, "seconds_per_step", lambda trained: 0.001)
    monkeypatch.setattr(comparing, "training_curve", lambda trained, data: ([100], [5.0]))
    return models
