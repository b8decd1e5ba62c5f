"""The generated DeepSpeed configuration, and the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError
from jprep.pipeline.recipe import load_recipe
from jprep.train.backend import Host, Plan
from jprep.train.job.config import Job, parse_train_config
from jprep.train.run.directory import read_job
from jprep_deepspeed.backend import DeepSpeed
from jprep_deepspeed.options import Options
from tests.conftest import ROOT
from tests.fakes.trained_run import trained_run

HOST = Host("/python/bin/python", 4, 8 << 30)
SECTION = {"steps": 20, "optimizer": {"lr": 1e-3, "weight_decay": 0.1}, "schedule": {"warmup": 5}}

# As written by users of transformers' run_clm.
PUBLISHED: dict[str, Any] = {
    "fp16": {
        "enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16,
        "hysteresis": 2, "min_loss_scale": 1,
    },
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": dict.fromkeys(("lr", "betas", "eps", "weight_decay"), "auto")},
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": dict.fromkeys(("warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "total_num_steps"), "auto"),
    },
    "zero_optimization": {
        "stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "allgather_partitions": True,
        "allgather_bucket_size": 2e8, "overlap_comm": True, "reduce_scatter": True, "reduce_bucket_size": 2e8,
        "contiguous_gradients": True,
    },
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "steps_per_print": 2000,
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "wall_clock_breakdown": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(trained_run(tmp_path_factory.mktemp("run"), **SECTION))


@pytest.fixture
def planned(job: Job, tmp_path: Path) -> Any:
    def plan(config: Any, precision: str = "fp32", kind: str = "adamw", **options: Any) -> Plan:
        path = tmp_path / "ds.json"
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        chosen = msgspec.to_builtins(Options(**({"processes": 2, "ds_config": str(path)} | options)))
        optimizer = msgspec.structs.replace(job.train.optimizer, kind=kind)
        train = msgspec.structs.replace(job.train, precision=precision, optimizer=optimizer)
        return DeepSpeed().plan(msgspec.structs.replace(job, train=train, options=chosen), tmp_path, HOST)

    return plan


def worker_config(plan: Plan) -> Any:
    """Return the configuration in the worker's arguments."""
    return json.loads(plan.argv[plan.argv.index("--settings") + 1])


def test_the_worker_gets_the_configuration_of_the_plan(planned: Any) -> None:
    plan = planned({}, stage=2, micro_batch=1)
    assert worker_config(plan) == plan.settings
    batch = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    assert [plan.settings[key] for key in batch] == [4, 1, 2]
    assert plan.settings["gradient_clipping"] == 1.0 and "optimizer" not in plan.settings


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_in_stage_0_deepspeed_has_neither_clipping_nor_precision(planned: Any, precision: str) -> None:
    settings = planned({}, precision, stage=0).settings
    assert settings["gradient_clipping"] == 0  # without the key, DeepSpeed clips to a norm of 1
    assert not {"bf16", "fp16"} & set(settings)
    divided = planned({}, precision, stage=1).settings
    assert [name for name in ("bf16", "fp16") if name in divided] == ([] if precision == "fp32" else [precision])
    assert ("communication_data_type" in divided) == (precision != "fp32")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_published_configuration_is_accepted(planned: Any, precision: str) -> None:
    plan = planned(PUBLISHED, precision)
    zero = plan.settings["zero_optimization"]
    assert (zero["stage"], zero["overlap_comm"], zero["reduce_bucket_size"]) == (2, True, 2e8)
    assert zero["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert plan.settings["steps_per_print"] == 2000 and "auto" not in json.dumps(plan.settings)
    assert any("optimizer and scheduler of ds.json" in note for note in plan.notes)
    assert any("loss_scale_window" in note for note in plan.notes) == (precision == "fp16")
    assert "scheduler" not in plan.settings and plan.settings.get("fp16", {}).get("loss_scale_window") is None


def test_automatic_sizes_are_those_of_transformers(planned: Any) -> None:
    sizes = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
    zero = dict.fromkeys((*sizes, "sub_group_size"), "auto") | {"stage": 3}
    found = planned({"zero_optimization": zero}).settings["zero_optimization"]
    assert [found[name] for name in sizes] == [256, 230, 160] and "sub_group_size" not in found


def test_unset_options_are_taken_from_the_file(planned: Any) -> None:
    plan = planned({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}})
    assert (plan.micro_batch, plan.accumulate, plan.settings["zero_optimization"]["stage"]) == (1, 2, 1)
    assert planned({"gradient_accumulation_steps": 2}).micro_batch == 1


CONFLICTS: list[tuple[dict[str, Any], str, str]] = [
    ({"gradient_clipping": 0.5}, "gradient_clipping = 0.5", "train.optimizer.clip = 1.0"),
    ({"train_batch_size": 8}, "train_batch_size = 8", "train.batch = 4"),
    ({"gradient_accumulation_steps": 3}, "gradient_accumulation_steps = 3", "train.batch"),
    ({"bf16": {"enabled": True}}, "bf16.enabled = true", 'train.precision = "fp32"'),
    ({"optimizer": {"type": "Lamb"}}, 'optimizer.type = "Lamb"', "train.optimizer"),
    ({"optimizer": {"params": {"lr": 2e-3}}}, "optimizer.params.lr = 0.002", "train.optimizer.lr = 0.001"),
    ({"optimizer": {"params": {"betas": [0.9, 0.95]}}}, "betas = [0.9, 0.95]", "[0.9, 0.999]"),
    ({"optimizer": {"params": {"adam_w_mode": False}}}, "adam_w_mode = false", "docs/training.md"),
    ({"optimizer": {"params": {"momentum": 0.9}}}, "momentum = 0.9", 'train.optimizer.kind = "adamw"'),
    ({"scheduler": {"type": "WarmupLR"}}, 'scheduler.type = "WarmupLR"', 'train.schedule.kind = "linear"'),
    ({"scheduler": {"params": {"warmup_num_steps": 9}}}, "warmup_num_steps = 9", "train.schedule.warmup = 5"),
    ({"scheduler": {"params": {"total_num_steps": 9}}}, "total_num_steps = 9", "steps = 20"),
    ({"scheduler": {"params": {"warmup_type": "log"}}}, 'warmup_type = "log"', "docs/training.md"),
    ({"data_types": {"grad_accum_dtype": "bf16"}}, 'grad_accum_dtype = "bf16"', "fp32"),
]


@pytest.mark.parametrize(("config", "theirs", "ours"), CONFLICTS, ids=lambda value: str(value)[:40])
def test_a_conflict_names_both_keys(planned: Any, config: dict[str, Any], theirs: str, ours: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(config)
    said, _, job = caught.value.what.partition(" in ds.json conflicts with ")
    assert said.endswith(theirs) and ours in job and caught.value.fix


def test_muon_is_named_by_the_file_and_allowed_by_deepspeed(planned: Any) -> None:
    named = {"optimizer": {"type": "Muon", "params": {"momentum": 0.95, "lr": "auto"}}}
    allowed = "zero_allow_untested_optimizer"
    assert planned(named, kind="muon", stage=1).settings[allowed] is True
    assert allowed not in planned(named, kind="muon", stage=0).settings
    assert allowed not in planned({}, stage=1).settings
    for wrong in ({"optimizer": {"type": "AdamW"}}, {"optimizer": {"params": {"momentum": 0.9}}}, {allowed: False}):
        with pytest.raises(ConfigError, match="conflicts with"):
            planned(wrong, kind="muon", stage=1)


def test_options_and_file_may_not_differ(planned: Any) -> None:
    with pytest.raises(ConfigError, match=r"zero_optimization.stage = 2 in ds.json conflicts with train.*stage = 3"):
        planned({"zero_optimization": {"stage": 2}}, stage=3)
    with pytest.raises(ConfigError, match=r"offload_optimizer.device = .cpu. in ds.json conflicts with"):
        planned(PUBLISHED, offload_optimizer="none")


def test_values_equal_to_the_job_are_accepted(planned: Any) -> None:
    rates = {"warmup_num_steps": 5.0, "warmup_max_lr": 1e-3, "total_num_steps": 20}
    config = {
        "gradient_clipping": 1,
        "train_batch_size": 4,
        "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.9, 0.999]}},
        "scheduler": {"type": "WarmupDecayLR", "params": rates},
    }
    assert planned(config).processes == 2


def test_offloads_by_their_former_names_are_translated(planned: Any) -> None:
    plan = planned({"zero_optimization": {"stage": 3, "cpu_offload": True, "cpu_offload_params": True}})
    zero = plan.settings["zero_optimization"]
    assert not {"cpu_offload", "cpu_offload_params"} & set(zero)
    assert (zero["offload_optimizer"]["device"], zero["offload_param"]["device"]) == ("cpu", "cpu")
    assert plan.host_memory and any("cpu_offload = true of ds.json is used as" in note for note in plan.notes)
    kept = planned({"zero_optimization": {"stage": 2, "cpu_offload": True, "offload_optimizer": {"pin_memory": True}}})
    assert kept.settings["zero_optimization"]["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    for value, offload in ((1, {}), (True, {"device": "none"})):
        with pytest.raises(ConfigError, match="cpu_offload") as caught:
            planned({"zero_optimization": {"stage": 2, "cpu_offload": value, "offload_optimizer": offload}})
        assert "offload_optimizer" in (caught.value.fix or "")
    with pytest.raises(ConfigError, match=r"offload_optimizer.device = .cpu. in ds.json conflicts with"):
        planned({"zero_optimization": {"cpu_offload": True}}, offload_optimizer="none")


def test_the_plan_says_what_was_done_with_each_value(planned: Any) -> None:
    notes = "\n".join(planned(PUBLISHED, "bf16").notes)
    for filled in (
        "bf16.enabled = true",
        "optimizer.params.lr = 0.001",
        "warmup_num_steps = 5",
        "total_num_steps = 20",
    ):
        assert filled in notes
    assert "train_batch_size = 4" in notes and "reduce_bucket_size = 200000000" in notes


def test_the_published_recipe_s_configuration_is_taken_as_it_is(job: Job, tmp_path: Path) -> None:
    recipe = load_recipe(ROOT / "data_recipes" / "gpt2-xl-japanese.toml").train
    assert recipe
    options = recipe.backend["deepspeed"] | {"processes": 8, "device": "cuda", "gpu": "A100-40GB"}
    changed = msgspec.structs.replace(job, train=recipe, options=options)
    plan = DeepSpeed().plan(changed, tmp_path, HOST)
    assert (plan.processes, plan.micro_batch, plan.accumulate) == (8, 3, 22)
    zero = plan.settings["zero_optimization"]
    assert (zero["stage"], zero["reduce_bucket_size"], zero["offload_optimizer"]["device"]) == (2, 2e8, "cpu")
    assert plan.settings["bf16"] == {"enabled": True} and plan.settings["gradient_clipping"] == 1.0


@pytest.mark.parametrize(
    ("config", "what", "fix"),
    [
        ({"zero_optimisation": {}}, "no zero_optimisation", "zero_optimization"),
        ({"zero_optimization": {"overlap_com": True}}, "no zero_optimization.overlap_com", "overlap_comm"),
        ({"optimizer": {"params": {"beta": 1}}}, "no optimizer.params.beta", "betas"),
        ({"elasticity": {"enabled": True}}, "elasticity is not supported: ", "remove"),
        ({"compression_training": {"x": {"y": 1}}}, "compression_training is not supported: ", "remove"),
        ({"zero_optimization": {"zero_quantized_weights": True}}, "changes what is computed", "remove"),
        ({"zero_optimization": {"round_robin_gradients": True}}, "confuses the fp32 weights", "remove"),
        ({"optimizer": {"type": "Muon", "params": {"muon_lr": 0.02}}}, "one learning rate", "remove"),
        ({"zero_optimization": {"offload_param": {"device": "cpu", "nvme_path": "/x"}}}, "or in main memory", "remove"),
        ({"zero_optimization": {"overlap_comm": "yes"}}, "true or false", "auto"),
        ({"zero_optimization": {"reduce_bucket_size": 1.5}}, "an integer", "auto"),
        ({"zero_optimization": True}, "not an object", "zero_optimization"),
        ({"zero_optimization": {"stage": 4}}, "ds.json is not supported", "stage 0 to 3"),
        ({"train_micro_batch_size_per_gpu": -1}, "0 or more", "0"),
        ("[1]", "expected a JSON object", "{"),
        ("{'a': 1}", "not JSON", "correct it"),
        ('{"steps_per_print": 1, "steps_per_print": 2}', "duplicate key: steps_per_print", "once"),
    ],
)  # fmt: skip
def test_unsupported_configurations_are_refused(planned: Any, config: Any, what: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(config)
    assert what in caught.value.what and fix in caught.value.fix


def test_a_missing_file_is_named(planned: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json cannot be read") as caught:
        planned({}, ds_config=str(tmp_path / "nowhere.json"))
    assert caught.value.where == "train.backend.deepspeed.ds_config"


def test_disabled_features_are_accepted(planned: Any) -> None:
    off = {
        "amp": {"enabled": "auto", "opt_level": "auto"}, "prescale_gradients": False, "tensorboard": {"enabled": False},
        "activation_checkpointing": {"partition_activations": False, "number_checkpoints": None},
        "zero_optimization": {"cpu_offload": False, "offload_param": {"device": "none", "pin_memory": True}},
    }  # fmt: skip
    found = planned(off).settings
    assert not set(off) - {"zero_optimization"} & set(found) and "offload_param" not in found["zero_optimization"]


def test_speed_and_memory_settings_are_passed_on(planned: Any) -> None:
    passed = {
        "comms_logger": {"enabled": True, "verbose": False},
        "flops_profiler": {"enabled": True, "profile_step": 3},
    }
    assert planned(passed).settings.items() >= passed.items()
    zero = {"stage": 3, "stage3_max_live_parameters": 1e6, "stage3_gather_fp16_weights_on_model_save": True}
    assert planned({"zero_optimization": zero}).settings["zero_optimization"].items() >= zero.items()


def test_deepspeed_has_no_linear_schedule_with_a_floor(job: Job) -> None:
    from jprep_deepspeed.planning.expected_config import expected_config
    from jprep_deepspeed.planning.layout_types import Layout

    schedule = parse_train_config({"steps": 1, "schedule": {"floor": 0.1}}, "here").schedule
    changed = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, schedule=schedule))
    expected = expected_config(changed, Layout("cpu", 1, 4, 1, 0))["scheduler.type"]
    assert (expected.key, expected.matches("WarmupDecayLR")) == ("train.schedule.floor", False)


def test_what_is_kept_in_files(planned: Any) -> None:
    place = {"device": "nvme", "nvme_path": "/fast/swap"}
    config = {"zero_optimization": {"offload_optimizer": place | {"buffer_count": 4}}, "aio": {"queue_depth": 16}}
    settings = planned(config).settings
    zero = settings["zero_optimization"]
    assert zero["stage"] == 3 and zero["offload_optimizer"] == place | {"buffer_count": 4, "pin_memory": False}
    assert settings["aio"] == {"queue_depth": 16} and "offload_param" not in zero
    plan = planned({}, offload_optimizer="nvme", offload_param="cpu", nvme_path="/fast/swap")
    assert plan.settings["zero_optimization"]["offload_param"]["device"] == "cpu"
    assert any("GB in files below /fast/swap" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"offload_optimizer": "nvme"}, "none is given"),
        ({"offload_optimizer": "nvme", "nvme_path": "swap"}, "'swap' is relative"),
        (
            {"offload_optimizer": "nvme", "nvme_path": "/swap", "stage": 2},
            '= "nvme" is not available',
        ),
    ],
)
def test_files_need_a_place_and_stage_3(planned: Any, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        planned({}, **options)


def test_former_and_empty_keys_of_files(planned: Any) -> None:
    zero = {"stage": 2, "offload_optimizer": {"device": "cpu", "nvme_path": None}}
    plan = planned({"zero_optimization": zero, "aio": {"thread_count": 2, "queue_depth": 4}})
    assert plan.settings["aio"] == {"intra_op_parallelism": 2, "queue_depth": 4}
    assert any("thread_count of ds.json is used as intra_op_parallelism" in note for note in plan.notes)


def test_the_place_of_files_is_that_of_the_options(planned: Any) -> None:
    place = {"device": "nvme", "nvme_path": "/fast/swap"}
    with pytest.raises(ConfigError, match=r"nvme_path = ./fast/swap. in ds.json conflicts with .*nvme_path = ./other"):
        planned({"zero_optimization": {"offload_optimizer": place}}, nvme_path="/other")
