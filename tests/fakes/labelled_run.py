"""A small labelled job: rows in Japanese, a tokenizer, and the run directory that trains on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jprep.train.job.build import build_job
from jprep.train.job.config import parse_train_config
from jprep.train.run.directory import open_run
from tests.unit.tokenizer.vocabularies import finished, small

LABELS = ["否定", "中立", "肯定"]


def rows(path: Path, count: int = 45, start: int = 0, scores: bool = False) -> Path:
    """Write a file of distinct rows."""
    made = [
        {"text": f"東京の{number}", "label": number / 10 if scores else LABELS[number % 3]}
        for number in range(start, start + count)
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made), encoding="utf-8")
    return path


def section(data: Path, **changes: Any) -> dict[str, Any]:
    """Return a raw `[train]` section."""
    given: dict[str, Any] = {
        "task": "classify", "model": {"preset": "bert-tiny"}, "batch": 8, "steps": 12, "log_every": 3,
        "data": [str(data)], "labelled": {"length": 24, "folds": 3}, "checkpoint": {"every_steps": 4},
        "validation": {"every_steps": 6}, "max_restarts": 2,
    }  # fmt: skip
    return given | changes


def tokenizer(folder: Path) -> Path:
    return finished(folder, small("unigram", special=["bert"]))


def labelled_run(folder: Path, **changes: Any) -> Path:
    """Create a run directory that is ready to be trained."""
    place, data, run = folder / "tokenizer", folder / "rows.jsonl", folder / "run"
    if not place.exists():
        tokenizer(place)
        rows(data, scores=changes.get("task") == "regress")
    train = parse_train_config(section(data, **changes), "here")
    open_run(run, build_job(train, "rows", "numpy", {}, place, run=run))
    return run
