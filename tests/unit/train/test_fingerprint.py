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


@pytest.mark.parametrize(
    ("schedule", "fingerprint"),
    [
        ({}, "eb71e00762c9b003a8bebb186aae951c"),
        ({"total": 50, "warmup": 3}, "ebc179aba2a5a7278e81a4906f467c75"),
        ({"steps": 50, "warmup": 3}, "ebc179aba2a5a7278e81a4906f467c75"),
    ],
)
def test_the_former_name_of_a_key_has_the_same_fingerprint(schedule: dict[str, int], fingerprint: str) -> None:
    """The values are from the version in which `schedule.total` was `schedule.steps`."""
    config = parse_train_config({"steps": 20, "schedule": schedule}, "here")
    assert job_fingerprint(config, {"model_type": "gpt2"}, 20, {"tokenizer": "t"}, {}) == fingerprint


def test_padding_of_the_vocabulary_is_not_hashed() -> None:
    plain, padded = (
        parse_train_config({"steps": 20, "model": {"preset": "gpt2-small", "pad_vocab": pad}}, "here")
        for pad in (0, 128)
    )
    found = {job_fingerprint(config, {"model_type": "gpt2"}, 20, {}, {}) for config in (plain, padded)}
    assert len(found) == 1
