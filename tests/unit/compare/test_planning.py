"""Budgets, and the plans that fit into them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jprep.compare.models import training
from jprep.compare.models.sizes import SIZES, find_size, train_section
from jprep.compare.options import CompareOptions, parse_budget
from jprep.compare.planning import (
    Calibration,
    StoredPlan,
    choose_plan,
    expected_seconds,
    flops_per_character,
    guess_plan,
    read_plan,
    sample_share,
    write_plan,
)
from jprep.compare.result import ComparisonPlan
from jprep.errors import ConfigError, MachineError
from jprep.train.backend import Finding
from jprep.train.backend_loading import load_backend
from jprep.train.job.config import check_train_config

RATE = 3e10


def arm(characters: int = 10**9, tokens_per_character: float = 0.6) -> Any:
    manifest = SimpleNamespace(vocab_size=8000)
    return SimpleNamespace(manifest=manifest, characters=characters, tokens_per_character=tokens_per_character)


def planned(budget: str, arms: int = 2, characters: int = 10**9, wanted: int = 0, **more: Any) -> ComparisonPlan:
    options = CompareOptions(parse_budget(budget), **{"characters": wanted} | more)
    return choose_plan(options, [arm(characters)] * arms, Calibration(RATE, 20.0), options.budget.seconds)


@pytest.mark.parametrize(
    ("text", "seconds", "device"), [("20min", 1200, "cpu"), ("2h", 7200, "cpu"), ("gpu:30min", 1800, "gpu")]
)
def test_budgets(text: str, seconds: float, device: str) -> None:
    assert parse_budget(text) == (text, seconds, device)


@pytest.mark.parametrize("text", ["", "20", "min", "0min", "-1h", "20 minutes", "tpu:1h", "1e3s"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize("budget", ["5min", "20min", "2h", "20h"])
@pytest.mark.parametrize("arms", [2, 4])
def test_the_plan_fits_into_the_budget(budget: str, arms: int) -> None:
    plan = planned(budget, arms)
    work = flops_per_character(plan.size, 8000, 0.6) * plan.characters / RATE + 20
    assert work * len(plan.seeds) * arms <= parse_budget(budget).seconds
    assert len(plan.seeds) >= 2


def test_a_plan_that_takes_longer_than_the_budget_is_known_to() -> None:
    arms, calibration = [arm()] * 2, Calibration(RATE, 20.0)
    assert expected_seconds(planned("20min"), arms, calibration) <= 1200
    assert expected_seconds(planned("20min", size="85m", wanted=10**7), arms, calibration) > 1200
    assert expected_seconds(planned("10s"), arms, calibration) > 10  # two models of two arms: 80 s only to start them


def test_more_time_gives_larger_models() -> None:
    sizes = [list(SIZES).index(planned(budget).size.name) for budget in ("10min", "2h", "100h")]
    assert sizes == sorted(sizes) and sizes[0] == 0 < sizes[-1]
    assert len(planned("20min").seeds) == 3


def test_text_is_not_repeated_more_often_than_it_teaches() -> None:
    assert planned("20h", characters=10**6).characters <= 4 * 10**6


def test_what_the_user_chose_is_kept() -> None:
    plan = planned("20min", seeds=7, size="0.8m", wanted=123_456)
    assert plan.seeds == list(range(1, 8)) and plan.size.name == "0.8m"
    fixed = CompareOptions(parse_budget("1min"), seeds=2, size="5m", characters=999)
    assert choose_plan(fixed, [arm()], None, 0).characters == 999
    assert guess_plan(fixed, 2).seeds == [1, 2]


def test_the_size_follows_from_the_characters_if_they_are_given() -> None:
    """A long budget is no reason for a large model that sees little text, nor for one that does not fit into it."""
    assert planned("20h").size.name != "0.1m"
    few, more = planned("20h", wanted=2_000_000), planned("20h", wanted=20_000_000)
    assert (few.size.name, few.characters) == ("0.1m", 2_000_000)
    assert (more.size.name, more.characters) == ("0.8m", 20_000_000)
    assert planned("10min", wanted=10**9).size.name == "0.1m"
    options = CompareOptions(parse_budget("20h"), characters=2_000_000)
    assert guess_plan(options, 2).size.name == "0.1m"


@pytest.mark.parametrize(("device", "fix"), [("gpu", "the budget without gpu:"), ("cpu", "buy one")])
def test_a_missing_device_is_found_before_anything_is_built(
    device: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--budget gpu:30min` without a GPU would else fail after the data is prepared."""
    backend, findings = load_backend("torch"), [Finding("PyTorch 2"), Finding("no GPU", "error", "buy one")]
    monkeypatch.setattr(type(backend), "check", lambda self, options: findings)
    monkeypatch.setattr(training, "worker_python", lambda planner, options: Path())
    with pytest.raises(MachineError, match="no GPU") as caught:
        training.check_backend("torch", device)
    assert fix in caught.value.fix
    findings.pop()
    training.check_backend("torch", device)


def test_a_model_of_another_backend_or_device_is_another_run(tmp_path: Path) -> None:
    """Options may change until a model is scored: half of a training must not be another backend's."""
    data: Any = SimpleNamespace(key="abc")
    plans = [planned("20min"), planned("20min", backend="deepspeed"), planned("gpu:20min")]
    assert len({training.run_folder(tmp_path, data, plan, 100, 1) for plan in plans}) == 3


def test_large_inputs_are_sampled() -> None:
    options = CompareOptions(parse_budget("1min"), characters=10**7)
    assert sample_share(options, 10**6) == 1
    assert sample_share(options, 10**9) == pytest.approx(0.04)


def test_a_decision_is_kept(tmp_path: Path) -> None:
    stored = StoredPlan(share=0.5, plan=planned("20min"))
    write_plan(tmp_path / "plan.json", stored)
    assert read_plan(tmp_path / "plan.json") == stored
    (tmp_path / "plan.json").write_bytes(b"{")
    assert read_plan(tmp_path / "plan.json") is None
    assert read_plan(tmp_path / "none.json") is None


@pytest.mark.parametrize("name", SIZES)
def test_every_size_is_a_valid_section_and_named_by_its_parameters(name: str) -> None:
    size = SIZES[name]
    check_train_config(train_section(size, 100, 1, "torch", "cpu"), "[train]")
    assert float(name.removesuffix("m")) == pytest.approx(size.parameters / 1e6, rel=0.1)
    assert size.width % size.heads == 0


@pytest.mark.parametrize(
    ("name", "nearest"), [("0.2m", "0.1m and 0.3m"), ("20M", "5m and 25m"), ("0.01m", "0.1m"), ("1000m", "85m")]
)
def test_sizes_near_an_unknown_one_are_listed(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match="there is no size") as caught:
        find_size(name)
    assert caught.value.fix == f"nearest: {nearest}; available: {', '.join(SIZES)}"


def test_all_sizes_are_listed_for_a_name_that_is_none() -> None:
    with pytest.raises(ConfigError) as caught:
        find_size("small")
    assert caught.value.fix == f"available: {', '.join(SIZES)}"
