"""What a job says, under the keys by which a DeepSpeed configuration says it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jprep.train.job.config import Job
from jprep_deepspeed.options import SECTION, Layout

_HALF = {"bf16": ("bfloat16", "bf16", "torch.bfloat16"), "fp16": ("float16", "fp16", "half", "torch.float16")}
_SCHEDULES = {"constant": "WarmupLR", "linear": "WarmupDecayLR", "cosine": "WarmupCosineLR"}


class ExpectedValue(NamedTuple):
    """One thing that the job says.

    Attributes:
        key: of the recipe, or what lays it down.
        shown: its value there.
        values: those of DeepSpeed's key that say the same.
    """

    key: str
    shown: Any
    values: tuple[Any, ...]

    def agrees(self, value: Any) -> bool:
        """Whether a value of DeepSpeed's says the same."""
        return any(_same(value, mine) for mine in self.values)


def stated(job: Job, layout: Layout) -> dict[str, ExpectedValue]:
    """DeepSpeed's keys → what the job says of them."""
    return {**_layout(job, layout), **_precision(job), **_optimizer(job), **_schedule(job)}


def _one(key: str, value: Any) -> ExpectedValue:
    return ExpectedValue(key, value, (value,))


def _layout(job: Job, layout: Layout) -> dict[str, ExpectedValue]:
    zero = "zero_optimization"
    optimizer, param = ("cpu" if there else "none" for there in (layout.offload_optimizer, layout.offload_param))
    return {
        "train_batch_size": _one("train.batch", job.train.batch),
        "train_micro_batch_size_per_gpu": _one(f"{SECTION}.rows", layout.rows),
        "gradient_accumulation_steps": _one("train.batch / processes / rows", layout.accumulate),
        "vocabulary_size": _one("the tokenizer's vocab_size", job.model["vocab_size"]),
        f"{zero}.stage": _one(f"{SECTION}.stage", layout.stage),
        f"{zero}.offload_optimizer.device": _one(f"{SECTION}.offload_optimizer", optimizer),
        f"{zero}.offload_param.device": _one(f"{SECTION}.offload_param", param),
        f"{zero}.offload_optimizer.ratio": _one("jprep's share of the optimizer that is offloaded", 1.0),
        f"{zero}.zero_hpz_partition_size": _one("jprep's copies of weights that are divided", 1),
        f"{zero}.compute_grad_norm": _one("the norm that jprep clips by and logs", True),
    }


def _precision(job: Job) -> dict[str, ExpectedValue]:
    is_half, fp32 = job.train.precision != "fp32", "fp32 as docs/training.md has it for"

    def section(precision: str) -> ExpectedValue:
        return ExpectedValue("train.precision", job.train.precision, (job.train.precision == precision,))

    names = _HALF.get(job.train.precision, ())
    return {
        "bf16.enabled": section("bf16"),
        "fp16.enabled": section("fp16"),
        "torch_autocast.enabled": ExpectedValue("train.precision", job.train.precision, (is_half,)),
        "torch_autocast.dtype": ExpectedValue("train.precision", job.train.precision, names),
        "data_types.grad_accum_dtype": _one(f"{fp32} sums of gradients", "fp32"),
        "communication_data_type": _one(f"{fp32} sums of gradients", "fp32"),
        "data_types.param_dtype": _one(f"{fp32} weights", "fp32"),
        "bf16.bf16_master_weights_and_grads": _one(f"{fp32} weights: half", False),
        "bf16.bf16_optimizer_states": _one(f"{fp32} the optimizer: half", False),
        "fp16.fp16_master_weights_and_grads": _one(f"{fp32} weights: half", False),
        "fp16.loss_scale": ExpectedValue("a scale that moves, as docs/training.md has it: loss_scale", 0, (0,)),
        "gradient_predivide_factor": _one("jprep's factor of gradients", 1.0),
        "gradient_allreduce_op": _one("jprep's way from processes' gradients to one", "mean"),
    }


def _optimizer(job: Job) -> dict[str, ExpectedValue]:
    section, params = job.train.optimizer, "optimizer.params"
    return {
        "gradient_clipping": _one("train.optimizer.clip", section.clip),
        "zero_force_ds_cpu_optimizer": _one("jprep's own AdamW: DeepSpeed's", False),
        "optimizer.type": ExpectedValue("train.optimizer", "AdamW", ("AdamW", "Adam", "adamw", "adam")),
        f"{params}.lr": _one("train.optimizer.lr", section.lr),
        f"{params}.betas": ExpectedValue("train.optimizer.beta1 and beta2", [section.beta1, section.beta2],
                                  ([section.beta1, section.beta2],)),
        f"{params}.eps": _one("train.optimizer.eps", section.eps),
        f"{params}.weight_decay": _one("train.optimizer.weight_decay", section.weight_decay),
        f"{params}.max_grad_norm": _one("train.optimizer.clip", section.clip),
        f"{params}.adam_w_mode": _one("decay beside Adam's step, in docs/training.md", True),
        f"{params}.bias_correction": _one("bias correction, in docs/training.md", True),
        f"{params}.amsgrad": _one("AMSGrad, in docs/training.md", False),
    }  # fmt: skip


def _schedule(job: Job) -> dict[str, ExpectedValue]:
    section, params, lr = job.train.schedule, "scheduler.params", job.train.optimizer.lr
    kind = _one("train.schedule.kind", section.kind)
    falls_to_floor = section.kind == "linear" and section.floor > 0
    type_ = _one("train.schedule.floor", section.floor) if falls_to_floor else kind
    found = {
        "scheduler.type": type_._replace(values=() if falls_to_floor else (_SCHEDULES[section.kind],)),
        f"{params}.warmup_num_steps": _one("train.schedule.warmup", section.warmup),
        f"{params}.warmup_max_lr": _one("train.optimizer.lr", lr),
        f"{params}.warmup_min_lr": _one("the rate that docs/training.md's warm-up rises from", 0.0),
        f"{params}.warmup_min_ratio": _one("the share that docs/training.md's warm-up rises from", 0.0),
        f"{params}.total_num_steps": _one("the job's steps", job.steps),
        f"{params}.cos_min_ratio": _one("train.schedule.floor", section.floor),
        f"{params}.last_batch_iteration": _one("jprep's own count of steps", -1),
    }
    if section.warmup > 1:
        found[f"{params}.warmup_type"] = _one("docs/training.md's warm-up", "linear")
    return found


def _same(value: Any, mine: Any) -> bool:
    if isinstance(mine, list):
        return isinstance(value, list) and len(value) == len(mine) and all(map(_same, value, mine))
    if isinstance(mine, bool) or isinstance(value, bool):
        return value is mine
    if isinstance(mine, int | float) and isinstance(value, int | float):
        return math.isclose(value, mine, rel_tol=1e-9)
    return bool(value == mine)
