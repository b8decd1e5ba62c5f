"""The values of DeepSpeed's configuration that the job determines."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jprep.train.job.config import Job
from jprep_deepspeed.options import SECTION
from jprep_deepspeed.planning.generated_config import uses_sharded_muon
from jprep_deepspeed.planning.layout_types import Layout

_HALF = {"bf16": ("bfloat16", "bf16", "torch.bfloat16"), "fp16": ("float16", "fp16", "half", "torch.float16")}
_SCHEDULES = {"constant": "WarmupLR", "linear": "WarmupDecayLR", "cosine": "WarmupCosineLR"}
_TYPES = {"adamw": ("AdamW", "Adam", "adamw", "adam"), "muon": ("Muon", "muon")}


class ExpectedValue(NamedTuple):
    """The value that the job determines for a key of DeepSpeed's configuration.

    Attributes:
        key: the recipe's key, or what else determines the value.
        shown: its value there.
        values: values of DeepSpeed's key that mean the same.
    """

    key: str
    shown: Any
    values: tuple[Any, ...]

    def matches(self, value: Any) -> bool:
        """Return whether a value of DeepSpeed's key means the same."""
        return any(_equal(value, expected) for expected in self.values)


def expected_config(job: Job, layout: Layout) -> dict[str, ExpectedValue]:
    """Return the expected value of each key of DeepSpeed's configuration that the job determines.

    Args:
        job: the job.
        layout: its processes, ZeRO stage and micro-batch.
    """
    return {**_layout(job, layout), **_precision(job), **_optimizer(job), **_muon(job, layout), **_schedule(job)}


def _value(key: str, value: Any) -> ExpectedValue:
    return ExpectedValue(key, value, (value,))


def _layout(job: Job, layout: Layout) -> dict[str, ExpectedValue]:
    zero = "zero_optimization"
    return {
        "train_batch_size": _value("train.batch", job.train.batch),
        "train_micro_batch_size_per_gpu": _value(f"{SECTION}.micro_batch", layout.micro_batch),
        "gradient_accumulation_steps": _value("train.batch / processes / micro_batch", layout.accumulate),
        "vocabulary_size": _value("the tokenizer's vocab_size", job.model["vocab_size"]),
        f"{zero}.stage": _value(f"{SECTION}.stage", layout.stage),
        f"{zero}.offload_optimizer.device": _value(f"{SECTION}.offload_optimizer", layout.offload_optimizer),
        f"{zero}.offload_param.device": _value(f"{SECTION}.offload_param", "cpu" if layout.offload_param else "none"),
        f"{zero}.offload_optimizer.nvme_path": _value(f"{SECTION}.nvme_path", layout.nvme_path),
        f"{zero}.offload_optimizer.ratio": _value("jprep's share of the optimizer that is offloaded", 1.0),
        f"{zero}.zero_hpz_partition_size": _value("jprep's number of copies of sharded weights", 1),
        f"{zero}.compute_grad_norm": _value("the norm that jprep clips by and logs", True),
    }


def _precision(job: Job) -> dict[str, ExpectedValue]:
    precision, fp32 = job.train.precision, "fp32, which docs/training.md defines for"

    def section(name: str) -> ExpectedValue:
        return ExpectedValue("train.precision", precision, (precision == name,))

    return {
        "bf16.enabled": section("bf16"),
        "fp16.enabled": section("fp16"),
        "torch_autocast.enabled": ExpectedValue("train.precision", precision, (precision != "fp32",)),
        "torch_autocast.dtype": ExpectedValue("train.precision", precision, _HALF.get(precision, ())),
        "data_types.grad_accum_dtype": _value(f"{fp32} sums of gradients", "fp32"),
        "communication_data_type": _value(f"{fp32} sums of gradients", "fp32"),
        "data_types.param_dtype": _value(f"{fp32} weights", "fp32"),
        "bf16.bf16_master_weights_and_grads": _value(f"{fp32} weights: half precision", False),
        "bf16.bf16_optimizer_states": _value(f"{fp32} the optimizer: half precision", False),
        "fp16.fp16_master_weights_and_grads": _value(f"{fp32} weights: half precision", False),
        "fp16.loss_scale": ExpectedValue("the dynamic loss scale of docs/training.md: loss_scale", 0, (0,)),
        "gradient_predivide_factor": _value("jprep's factor of gradients", 1.0),
        "gradient_allreduce_op": _value("jprep's reduction of gradients", "mean"),
    }


def _optimizer(job: Job) -> dict[str, ExpectedValue]:
    section, params = job.train.optimizer, "optimizer.params"
    betas = [section.beta1, section.beta2]
    return {
        "gradient_clipping": _value("train.optimizer.clip", section.clip),
        "zero_force_ds_cpu_optimizer": _value("jprep's own optimizer: DeepSpeed's", False),
        "optimizer.type": ExpectedValue("train.optimizer.kind", section.kind, _TYPES[section.kind]),
        f"{params}.lr": _value("train.optimizer.lr", section.lr),
        f"{params}.betas": _value("train.optimizer.beta1 and beta2", betas),
        f"{params}.eps": _value("train.optimizer.eps", section.eps),
        f"{params}.weight_decay": _value("train.optimizer.weight_decay", section.weight_decay),
        f"{params}.max_grad_norm": _value("train.optimizer.clip", section.clip),
        f"{params}.adam_w_mode": _value("decoupled weight decay, in docs/training.md", True),
        f"{params}.bias_correction": _value("bias correction, in docs/training.md", True),
        f"{params}.amsgrad": _value("AMSGrad, in docs/training.md", False),
    }


def _muon(job: Job, layout: Layout) -> dict[str, ExpectedValue]:
    section, momentum = job.train.optimizer, "optimizer.params.momentum"
    if section.kind != "muon":
        return {momentum: ExpectedValue("train.optimizer.kind", section.kind, ())}
    expected = {momentum: _value("train.optimizer.momentum", section.momentum)}
    if uses_sharded_muon(job, layout):
        expected["zero_allow_untested_optimizer"] = _value("jprep's own Muon, for which DeepSpeed needs this key", True)
    return expected


def _schedule(job: Job) -> dict[str, ExpectedValue]:
    section, params, lr = job.train.schedule, "scheduler.params", job.train.optimizer.lr
    steps = "train.schedule.total" if section.total else "the job's steps"
    expected = {
        "scheduler.type": _schedule_type(job),
        f"{params}.warmup_num_steps": _value("train.schedule.warmup", section.warmup),
        f"{params}.warmup_max_lr": _value("train.optimizer.lr", lr),
        f"{params}.warmup_min_lr": _value("the first learning rate of docs/training.md's warm-up", 0.0),
        f"{params}.warmup_min_ratio": _value("the first ratio of docs/training.md's warm-up", 0.0),
        f"{params}.total_num_steps": _value(steps, section.total or job.steps),
        f"{params}.cos_min_ratio": _value("train.schedule.floor", section.floor),
        f"{params}.last_batch_iteration": _value("jprep's own count of steps", -1),
    }
    if section.warmup > 1:
        expected[f"{params}.warmup_type"] = _value("docs/training.md's warm-up", "linear")
    return expected


def _schedule_type(job: Job) -> ExpectedValue:
    """Return DeepSpeed's schedule; none ends linearly at a floor above 0, restarts, or is stable before its decay."""
    section = job.train.schedule
    if section.restarts:
        return ExpectedValue("train.schedule.restarts", section.restarts, ())
    if section.kind == "linear" and section.floor > 0:
        return ExpectedValue("train.schedule.floor", section.floor, ())
    own = _SCHEDULES.get(section.kind)
    return ExpectedValue("train.schedule.kind", section.kind, (own,) if own else ())


def _equal(value: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(_equal, value, expected))
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return math.isclose(value, expected, rel_tol=1e-9)
    return bool(value == expected)
