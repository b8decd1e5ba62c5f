"""Tests of jprep-fairseq-xla, for an environment that has fairseq: `python -m pytest backends/fairseq_xla/tests`."""

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
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Trains a `model_type` by fairseq itself, once for the same options: see `hand_trained`."""
    from hand_trained import hand_trained

    return cache(lambda kind, *options: hand_trained(tmp_path_factory.mktemp(kind), kind, *options))
