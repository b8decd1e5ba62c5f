"""jprep-deepspeed keeps what every backend owes, in each of ZeRO's stages."""

from __future__ import annotations

from typing import Any

from deepspeed.accelerator import get_accelerator

from jprep.testing.backend_suite import BackendSuite

TWO: dict[str, Any] = {"processes": 2}


class TestDeepSpeed(BackendSuite):
    backend = "deepspeed"
    options = {"device": "cpu", "threads": 1, "stage": 2}
    few_rows = {"rows": 2}
    two_processes = TWO
    ways = {
        "whole": TWO | {"stage": 0, "rows": 2},
        "stage 1": TWO | {"stage": 1, "rows": 2},
        "stage 3": TWO | {"stage": 3, "rows": 2},
        "optimizer elsewhere": TWO | {"offload_optimizer": "cpu"},
        "all elsewhere": TWO | {"stage": 3, "offload_optimizer": "cpu", "offload_param": "cpu"},
        "recomputed": TWO | {"stage": 3, "recompute": True},
        "by its own launcher": TWO | {"launcher": "deepspeed"},
    }
    half = ("bf16", "fp16") if get_accelerator().is_fp16_supported() else ("bf16",)
    others = ("torch",)
