"""Tests of jprep-keras, for an environment with Keras and TensorFlow: `python -m pytest backends/keras/tests`."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

if not find_spec("keras_hub"):
    collect_ignore_glob = ["test_*"]
