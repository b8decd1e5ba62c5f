"""Tests of jprep-fairseq-xla, for an environment that has fairseq: `python -m pytest backends/fairseq_xla/tests`."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

if find_spec("fairseq"):
    import torch

    torch.set_num_threads(1)  # models are tiny
else:
    collect_ignore_glob = ["test_*"]
