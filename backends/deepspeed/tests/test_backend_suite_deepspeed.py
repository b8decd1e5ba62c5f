"""The conformance suite, in each ZeRO stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepspeed.accelerator import get_accelerator

from jprep.testing.backend_suite import BackendSuite

TWO: dict[str, Any] = {"processes": 2}


class TestDeepSpeed(BackendSuite):
    backend = "deepspeed"
    hooks = Path(__file__).parents[2] / "torch" / "tests" / "hooks" / "suite_hooks.py"
    options = {"device": "cpu", "threads": 1, "stage": 2}
    micro_batch_of_two = {"micro_batch": 2}
    two_processes = TWO
    equivalent_options = {
        "stage 0": TWO | {"stage": 0, "micro_batch": 2},
        "stage 1": TWO | {"stage": 1, "micro_batch": 2},
        "stage 3": TWO | {"stage": 3, "micro_batch": 2},
        "optimizer offloaded": TWO | {"offload_optimizer": "cpu"},
        "all offloaded": TWO | {"stage": 3, "offload_optimizer": "cpu", "offload_param": "cpu"},
        "gradient checkpointing": TWO | {"stage": 3, "gradient_checkpointing": True},
        "DeepSpeed's launcher": TWO | {"launcher": "deepspeed"},
    }
    precisions = ("bf16", "fp16") if get_accelerator().is_fp16_supported() else ("bf16",)
    resumes_from = ("torch",)
