"""Settings of a user's DeepSpeed configuration that only affect speed or memory: the steps stay the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.testing.backend_suite.suite import PARITY

SHARED: dict[str, Any] = {"contiguous_gradients": False, "reduce_scatter": False, "reduce_bucket_size": 3_000}
STAGE_2: dict[str, Any] = SHARED | {
    "use_multi_rank_bucket_allreduce": False, "allgather_partitions": False, "allgather_bucket_size": 3_000,
    "parameter_alignment": True, "ignore_unused_parameters": False, "load_from_fp32_weights": False,
}  # fmt: skip
STAGE_3: dict[str, Any] = SHARED | {
    "sub_group_size": 3_000, "stage3_param_persistence_threshold": 0, "stage3_model_persistence_threshold": 0,
    "stage3_max_live_parameters": 1_000, "stage3_prefetch_bucket_size": 1_000, "stage3_max_reuse_distance": 0,
    "stage3_use_all_reduce_for_fetch_params": True, "stage3_allgather_sequential": True,
    "stage3_module_granularity_threshold": 10, "override_module_apply": False, "memory_efficient_linear": False,
    "enable_sanity_checks": True, "stage3_gather_16bit_weights_on_model_save": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "zero"),
    [("gpt2-clm", {"stage": 2} | STAGE_2), ("gpt2-clm", {"stage": 3} | STAGE_3), ("gpt2-muon", {"stage": 3} | STAGE_3)],
    ids=["stage 2", "stage 3", "stage 3 with Muon"],
)
def test_settings_for_speed_make_the_same_steps(tmp_path: Path, case: str, zero: dict[str, Any]) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"zero_optimization": zero}))
    options = {"device": "cpu", "threads": 1, "processes": 2, "ds_config": str(path)}
    trained = SuiteRunner(tmp_path, "deepspeed", options).trained(case)
    assert list(trained.losses().values()) == pytest.approx(golden_curve(case).train, rel=PARITY)
