"""jprep-flax passes the backend suite: on one device, and on a mesh of eight virtual CPU devices."""

from __future__ import annotations

from pathlib import Path

from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.cases import CASES, model_type_of
from jprep_flax.planning.checks import MODEL_TYPES

EIGHT = {"devices": 8}


class TestFlax(BackendSuite):
    backend = "flax"
    hooks = Path(__file__).parent / "hooks" / "suite_hooks.py"
    options = {"device": "cpu"}
    cases = tuple(name for name, case in CASES.items() if model_type_of(case) in MODEL_TYPES)
    two_processes = {"processes": 2}
    micro_batch_of_two = {"micro_batch": 2}
    equivalent_options = {
        "eight devices with the same weights": EIGHT,
        "eight devices with sharded weights": {**EIGHT, "fsdp": 8},
        "four times two devices with sharded heads": {**EIGHT, "data": 4, "tensor": 2},
        "all three axes": {**EIGHT, "data": 2, "fsdp": 2, "tensor": 2, "micro_batch": 1},
        "gradient checkpointing": {"gradient_checkpointing": True},
    }
    precisions = ("bf16", "fp16")
    resumes_from = ("torch",)
