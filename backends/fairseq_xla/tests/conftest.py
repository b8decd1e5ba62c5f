"""Tests of jprep-fairseq-xla, for an environment with fairseq: `python -m pytest backends/fairseq_xla/tests`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

if find_spec("fairseq"):
    import torch

    torch.set_num_threads(1)  # models are tiny
else:
    collect_ignore_glob = ["test_*"]


@pytest.fixture(scope="session")
def train_natively(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return a function that trains a `model_type` with fairseq itself, once for the same options."""
    from native_training import train_with_fairseq

    return cache(lambda kind, *options: train_with_fairseq(tmp_path_factory.mktemp(kind), kind, *options))
