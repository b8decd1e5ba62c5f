"""Tests of jprep-fairseq-xla, for an environment with fairseq: `python -m pytest backends/fairseq_xla/tests`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

ON_XLA = {
    f"test_{name}_fairseq_xla" for name in ("backend_suite", "documents", "hosts", "native_cli", "patches", "training")
} | {"test_torch_on_xla"}
"""Files with tests of XLA. The others are run daily with plain fairseq, in an environment of its own."""

LONG = {
    "test_a_decoder_learns_from_an_exported_dataset",
    "test_a_killed_run_ends_like_an_uninterrupted_one",
    "test_a_non_finite_loss_ends_the_run",
    "test_documents_do_not_depend_on_the_division",
    "test_equivalent_options_make_the_same_steps",
    "test_fairseq_cannot_be_imported_without_hashable_dataclasses",
    "test_fairseq_itself_learns_from_an_exported_dataset",
    "test_two_hosts_take_the_steps_of_one_and_resume_together",
}
"""Tests that take a minute or more on XLA, which compiles each program, and that are run daily with plain fairseq."""

if find_spec("fairseq"):
    import torch

    torch.set_num_threads(1)  # models are tiny
else:
    collect_ignore_glob = ["test_*"]


@pytest.hookimpl(tryfirst=True)  # before tests marked `soak` are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests that need no XLA, or take long on it, to `make soak` where XLA is."""
    for item in items if find_spec("torch_xla") else []:
        if item.path.stem not in ON_XLA or item.name.partition("[")[0] in LONG:
            item.add_marker("soak")


@pytest.fixture(scope="session")
def train_natively(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return a function that trains a `model_type` with fairseq itself, once for the same options."""
    from native_training import train_with_fairseq

    return cache(lambda kind, *options: train_with_fairseq(tmp_path_factory.mktemp(kind), kind, *options))
