"""jprep-flax keeps what every backend owes: on one device, and on a mesh of eight that a CPU plays."""

from __future__ import annotations

from jprep.testing.backend_suite import BackendSuite

EIGHT = {"devices": 8}


class TestFlax(BackendSuite):
    backend = "flax"
    options = {"device": "cpu"}
    two_processes = {"processes": 2}
    few_rows = {"rows": 2}
    ways = {
        "eight devices with the same weights": EIGHT,
        "eight devices that divide the weights": {**EIGHT, "fsdp": 8},
        "four times two devices, which divide the heads": {**EIGHT, "data": 4, "tensor": 2},
        "all three": {**EIGHT, "data": 2, "fsdp": 2, "tensor": 2, "rows": 1},
        "recomputed": {"recompute": True},
    }
    half = ("bf16", "fp16")
    others = ("torch",)
