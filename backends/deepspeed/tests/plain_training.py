"""A training with DeepSpeed and transformers as users write it, without jprep: started by `test_universal_deepspeed`.

`plain_training.py CONFIG.json STAGE FOLDER OUT.npz [--load] [--steps N] [--save TAG]` makes the model of a config,
loads a universal checkpoint from FOLDER, trains, saves a checkpoint to FOLDER, and writes weights, averages and the
learning rate's position to OUT.npz.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import deepspeed
import numpy as np
import torch
import transformers
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("config", "stage", "folder", "out"):
        parser.add_argument(name)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--save", default="")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--groups", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled
    deepspeed.init_distributed("gloo", verbose=False)
    engine = make_engine(given)
    found: dict[str, Any] = {}
    if given.load:
        path, _ = engine.load_checkpoint(given.folder)
        assert path, "DeepSpeed loaded nothing"
        found |= {"global_steps": engine.global_steps, "schedule": engine.lr_scheduler.last_batch_iteration}
    losses = [train_step(engine, number) for number in range(given.steps)]
    if given.save:
        engine.save_checkpoint(given.folder, tag=given.save)
    for name, weight in engine.module.named_parameters():
        found[f"w.{name}"] = safe_get_full_fp32_param(weight)
        for mark, key in (("m", "exp_avg"), ("v", "exp_avg_sq")):
            found[f"{mark}.{name}"] = safe_get_full_optimizer_state(weight, key)
    found["lrs"] = [group["lr"] for group in engine.optimizer.param_groups]
    found["steps"] = sorted({float(state["step"]) for state in engine.optimizer.optimizer.state.values()})
    if int(os.environ["RANK"]) == 0:
        arrays = {name: np.asarray(value.float() if torch.is_tensor(value) else value) for name, value in found.items()}
        np.savez(given.out, losses=np.array(losses), **arrays)
    assert "jprep" not in sys.modules


def make_engine(given: argparse.Namespace) -> Any:
    config = transformers.AutoConfig.for_model(**json.loads(Path(given.config).read_text()))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    weights = list(model.named_parameters())
    matrices = [weight for _, weight in weights if weight.ndim > 1]
    others = [weight for _, weight in weights if weight.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    if given.groups == 1:
        groups = [{"params": matrices + others}]
    optimizer = torch.optim.AdamW(groups, lr=0.003)
    settings = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": int(given.stage)},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "checkpoint": {"load_universal": given.load},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.003, "warmup_num_steps": 4}},
    }
    if given.bf16:
        settings["bf16"] = {"enabled": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    return engine


def train_step(engine: Any, number: int) -> float:
    generator = torch.Generator().manual_seed(number)
    ids = torch.randint(0, engine.module.config.vocab_size, (2, 16), generator=generator)
    loss = engine(input_ids=ids, labels=ids).loss
    engine.backward(loss)
    engine.step()
    return float(loss)


if __name__ == "__main__":
    main()
