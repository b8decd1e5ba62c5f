"""Keys that only some backends follow: refused by the others, and values that cannot be."""

from __future__ import annotations

import pytest

from jprep.errors import ConfigError
from jprep.train.job.config import parse_train_config
from jprep.train.job.features import FEATURES, check_documents, check_features
from jprep.train.job.fingerprint import job_fingerprint
from jprep.train.job.ranges import check_train_ranges

USED = {
    "document_masks": {"document_masks": True},
    "z_loss": {"z_loss": 1e-4},
    "optimizer.kind": {"optimizer": {"kind": "muon"}},
    "optimizer.layer_decay": {"optimizer": {"layer_decay": 0.9}},
    "class_weights": {"class_weights": "balanced", "task": "classify", "data": ["x.jsonl"]},
    "stages": {"stages": [{"until_step": 3, "length": 8}]},
}


@pytest.mark.parametrize("name", FEATURES)
def test_a_backend_must_say_that_it_follows_a_key(name: str) -> None:
    train = parse_train_config({"steps": 5, **USED[name]}, "recipe.toml")
    check_features(train, "mine", FEATURES)
    with pytest.raises(ConfigError, match=f"the backend mine does not support {name}") as error:
        check_features(train, "mine", tuple(other for other in FEATURES if other != name))
    assert error.value.where == f"train.{name}"


def test_a_plain_job_needs_no_feature() -> None:
    check_features(parse_train_config({"steps": 5}, "recipe.toml"), "mine", ())


def test_an_empty_table_of_weights_is_none() -> None:
    given = {"steps": 5, "task": "classify", "data": ["x.jsonl"]}
    plain, empty = (parse_train_config(given | more, "recipe.toml") for more in ({}, {"class_weights": {}}))
    check_features(empty, "mine", ())
    assert job_fingerprint(empty, {}, 5, {}, {}) == job_fingerprint(plain, {}, 5, {}, {})


def test_momentum_is_refused_where_it_has_no_effect() -> None:
    check_train_ranges(parse_train_config({"steps": 5, "optimizer": {"kind": "muon", "momentum": 0.9}}, "recipe.toml"))
    with pytest.raises(ConfigError, match="momentum is Muon's") as error:
        check_train_ranges(parse_train_config({"steps": 5, "optimizer": {"momentum": 0.9}}, "recipe.toml"))
    assert error.value.where == "train.optimizer.momentum"


@pytest.mark.parametrize(
    "section",
    [
        {"z_loss": -1.0},
        {"z_loss": float("inf")},
        {"z_loss": 0.1, "task": "rtd"},
        {"z_loss": 0.1, "hooks": {"loss": "a.py:b"}},
    ],
)
def test_an_impossible_z_loss_is_refused(section) -> None:
    with pytest.raises(ConfigError, match="z_loss"):
        parse_train_config({"steps": 5, **section}, "recipe.toml")


def test_documents_cannot_be_told_apart_in_every_model() -> None:
    train = parse_train_config({"steps": 5, "task": "mlm", "document_masks": True}, "recipe.toml")
    check_documents(train, "modernbert")
    with pytest.raises(ConfigError, match="deberta-v2"):
        check_documents(train, "deberta-v2")


def test_a_misspelt_value_is_named_with_the_valid_ones() -> None:
    with pytest.raises(ConfigError) as error:
        parse_train_config({"steps": 5, "class_weights": "balancd"}, "recipe.toml")
    assert error.value.what == "'balancd' is not a valid value of `class_weights`"
    assert error.value.fix == "available: balanced, or a table of numbers, e.g. { NAME = 1.5 }"
