"""jprep-keras passes the backend suite: on TensorFlow, on two replicas, and on JAX."""

from __future__ import annotations

from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.cases import CASES


class TestKeras(BackendSuite):
    backend = "keras"
    options = {"device": "cpu"}
    cases = tuple(name for name in CASES if name != "electra-rtd")
    micro_batch_of_two = {"micro_batch": 2}
    equivalent_options = {
        "two replicas": {"devices": 2, "micro_batch": 2},
        "compiled by XLA": {"jit_compile": True},
        "on JAX with two devices": {"engine": "jax", "devices": 2, "micro_batch": 2},
    }
    precisions = ("bf16", "fp16")
    resumes_from = ("torch",)
