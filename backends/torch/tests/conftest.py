"""Tests of jprep-torch. They run in an environment that has PyTorch: `python -m pytest backends/torch/tests`."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

if find_spec("torch"):
    import torch

    torch.set_num_threads(1)  # models are tiny
else:
    collect_ignore_glob = ["test_*"]
