"""Tests of jprep-torch. They run in an environment that has PyTorch, `python -m pytest backends/torch/tests`."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")
torch = pytest.importorskip("torch", reason="these tests need the backend's own environment")
torch.set_num_threads(1)  # models are tiny
