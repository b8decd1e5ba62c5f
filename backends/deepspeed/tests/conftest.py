"""Tests of jprep-deepspeed, for an environment that has DeepSpeed: `python -m pytest backends/deepspeed/tests`."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

if find_spec("deepspeed"):
    import torch

    torch.set_num_threads(1)  # models are tiny
else:
    collect_ignore_glob = ["test_*"]
