"""A recipe key that a job does not use has no part in its fingerprint, so that earlier runs resume."""

from __future__ import annotations

from typing import Any

import pytest

from jprep.train.job import fingerprint as module
from jprep.train.job.config import parse_train_config
from jprep.train.job.fingerprint import job_fingerprint

LABELLED = {"text", "pair", "label", "fold", "folds", "header", "length", "buckets"}
"""The keys of the first version."""


def hashed(monkeypatch: pytest.MonkeyPatch, **section: Any) -> Any:
    """Return what is hashed for a `[train]` section."""
    found: list[Any] = []
    monkeypatch.setattr(module, "fingerprint", lambda fields: str(found.append(fields)))
    config = parse_train_config({"task": "classify", "steps": 1, "data": ["x.csv"]} | section, "here")
    job_fingerprint(config, {}, 1, {}, {})
    return found[0]["train"]


def test_unused_keys_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = hashed(monkeypatch)
    assert plain["labelled"].keys() == LABELLED
    assert not {"push", "checkpoint", "validation"} & plain.keys()


def test_used_keys_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"stratify": "label", "folds": 3, "columns": ["text", "label"], "header": False, "encoding": "cp932"}
    assert hashed(monkeypatch, labelled=given)["labelled"].items() >= given.items()
