"""The model family of the guide for plugin authors, trained by DeepSpeed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jprep.testing.backend_suite.runner import SuiteRunner
from tests.fakes.guide_family import CASE, installed_family, known_curve


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRunner]:
    with installed_family(tmp_path_factory.mktemp("family")):
        yield SuiteRunner(tmp_path_factory.mktemp("runs"), "deepspeed", {"device": "cpu", "threads": 1})


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"processes": 2, "stage": 2}, marks=pytest.mark.soak),
        pytest.param({"processes": 2, "stage": 3, "gradient_checkpointing": True}, marks=pytest.mark.soak),
    ],
    ids=["one process", "stage 2", "stage 3"],
)
def test_losses_are_those_of_all_backends(options: dict[str, Any], bench: SuiteRunner) -> None:
    trained, known = bench.trained(CASE, options), known_curve(CASE)
    assert list(trained.losses().values()) == pytest.approx(known.train, rel=1e-4)
    assert trained.losses("validation") == pytest.approx(known.validation, rel=1e-4)
