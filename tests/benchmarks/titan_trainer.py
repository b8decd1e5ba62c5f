"""torchtitan's Trainer on batches that are given; prints its paces and losses as JSON.

`python titan_trainer.py ABOUT BATCHES.npz`, with torchtitan 0.3.0 (which needs triton also on a CPU). ABOUT is JSON:
`model` (a Llama), `steps`, `warm`, `init`, `rows` (that go through the model at a time), and perhaps `cuda`, `bf16` and
`compile`. A row is one sequence, as on the other sides, whereas torchtitan's default attention masks documents; so its
module for SDPA takes the place of that.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch._utils
from safetensors.torch import load_file

ABOUT: dict[str, Any] = json.loads(sys.argv[1])
CUDA = ABOUT.get("cuda", False)
IGNORED = -100
if not CUDA:  # torchtitan asks it when it is imported
    torch._utils._get_available_device_type = lambda: "cpu"  # type: ignore[assignment]

from torch.distributed.tensor import distribute_tensor  # noqa: E402
from torchtitan.components import metrics  # noqa: E402
from torchtitan.components.checkpointer import CheckpointManager  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss  # noqa: E402
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.config import CompileConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed import utils  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.models.common.rope import ComplexRoPE  # noqa: E402
from torchtitan.models.llama3 import _build_llama3_layers, model_registry  # noqa: E402
from torchtitan.protocols.model_spec import ModelSpec  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402


class NoTokenizer(BaseTokenizer):
    """Stands where the Trainer wants a tokenizer; the batches are ids already."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        """No options."""

    def __init__(self, config: Config, **_: Any) -> None:
        super().__init__()

    def encode(self, *_: Any, **__: Any) -> list[int]:
        raise NotImplementedError

    def decode(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError

    def get_vocab_size(self) -> int:
        return int(ABOUT["model"]["vocab_size"])


class GivenBatches(BaseDataLoader):
    """The given batches in order, each with the labels of the ids that come after its own."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """No options."""

    def __init__(self, config: Config, *, local_batch_size: int, **_: Any) -> None:
        batches = np.load(sys.argv[2])
        ids, labels = (torch.from_numpy(batches[name].astype(np.int64)).flatten(0, 1) for name in ("ids", "labels"))
        following = torch.full_like(labels, IGNORED)
        following[:, :-1] = labels[:, 1:]
        self._parts = list(zip(ids.split(local_batch_size), following.split(local_batch_size), strict=True))

    def __iter__(self) -> Any:
        return iter([({"input": ids}, labels) for ids, labels in self._parts])

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, _: dict[str, Any]) -> None:
        return


def specification(model: dict[str, Any]) -> ModelSpec:
    """Return torchtitan's Llama with the sizes of transformers' config."""
    dim, heads, vocabulary = (model[name] for name in ("hidden_size", "num_attention_heads", "vocab_size"))
    scaling = model.get("rope_scaling") or {}
    rope = ComplexRoPE.Config(
        dim=dim // heads,
        max_seq_len=model["max_position_embeddings"],
        theta=model["rope_theta"],
        scaling="llama" if scaling else "none",
        scaling_factor=scaling.get("factor", 1.0),
        low_freq_factor=scaling.get("low_freq_factor", 1.0),
        high_freq_factor=scaling.get("high_freq_factor", 4.0),
        original_max_position_embeddings=scaling.get("original_max_position_embeddings", 8192),
    )
    layers = _build_llama3_layers(
        n_layers=model["num_hidden_layers"],
        dim=dim,
        n_heads=heads,
        n_kv_heads=model["num_key_value_heads"],
        hidden_dim=model["intermediate_size"],
        rope=rope,
        attn_backend="varlen",
    )
    for layer in layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    spec = model_registry("1B", attn_backend="varlen")
    spec.model = replace(
        spec.model,
        dim=dim,
        vocab_size=vocabulary,
        enable_weight_tying=model["tie_word_embeddings"],
        tok_embeddings=replace(spec.model.tok_embeddings, num_embeddings=vocabulary, embedding_dim=dim),
        norm=replace(spec.model.norm, normalized_shape=dim),
        lm_head=replace(spec.model.lm_head, in_features=dim, out_features=vocabulary),
        layers=layers,
    )
    return spec


def configuration(folder: str, batch: int, length: int) -> Trainer.Config:
    """Return the Trainer's configuration: the job of the other sides, without checkpoints and recomputation."""
    warm = ABOUT["warm"]
    return Trainer.Config(
        model_spec=specification(ABOUT["model"]),
        dump_folder=folder,
        tokenizer=NoTokenizer.Config(),
        dataloader=GivenBatches.Config(),
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=ABOUT["model"]["vocab_size"])),
        optimizer=default_adamw(lr=3e-4, betas=(0.9, 0.999), weight_decay=0.01),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=0),
        training=TrainingConfig(
            local_batch_size=ABOUT["rows"],
            global_batch_size=batch,
            seq_len=length,
            steps=ABOUT["steps"],
            mixed_precision_param="bfloat16" if ABOUT.get("bf16") else "float32",
            disable_cuda_graphs=not CUDA,
        ),
        metrics=metrics.MetricsProcessor.Config(log_freq=warm),
        checkpoint=CheckpointManager.Config(enable=False),
        activation_checkpoint=None,
        compile=CompileConfig(enable=ABOUT.get("compile", False)),
    )


def set_weights(trainer: Trainer) -> None:
    """Give the model the first weights, which have transformers' names."""
    [model] = trainer.model_parts
    adapter = trainer.config.model_spec.state_dict_adapter(trainer.model_config, None)
    held = next(model.parameters())
    model.load_state_dict(
        {
            name: distribute_tensor(weight.to(trainer.device), held.device_mesh, held.placements)
            for name, weight in adapter.from_hf(load_file(ABOUT["init"])).items()
        }
    )


class Clock:
    """Takes the place of a Trainer's step: notes when steps end, and the losses that it logs."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self._step, self._log = trainer, trainer.train_step, trainer.metrics_processor.log
        self.ends, self.losses = list[float](), list[float]()
        trainer.train_step, trainer.metrics_processor.log = self.step, self.log

    def step(self, batches: Any) -> None:
        if not self.ends:
            self.ends.append(time.perf_counter())
        self._step(batches)
        at_mark = self._trainer.step in (ABOUT["warm"], ABOUT["steps"])
        if at_mark and CUDA:  # steps are handed to a GPU long before they are done
            torch.cuda.synchronize()
        if at_mark:
            self.ends.append(time.perf_counter())

    def log(self, step: int, loss: float, *more: Any, **named: Any) -> None:
        if step % ABOUT["warm"] == 0:
            self.losses.append(float(loss))
        self._log(step, loss, *more, **named)


def without_gpu() -> None:
    """Take the place of what torchtitan asks a GPU for, to try this program out on a CPU."""
    stats = metrics.DeviceMemStats(*[0.0] * 4, 0, 0)
    monitor = SimpleNamespace(device_name="CPU", get_peak_stats=lambda: stats, reset_peak_stats=lambda: None)
    metrics.build_device_memory_monitor = lambda: monitor
    utils.set_pg_timeouts = lambda **_: None


def main() -> None:
    if not CUDA:
        without_gpu()
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    torch.set_num_threads(ABOUT.get("threads", 2))
    _, batch, length = np.load(sys.argv[2])["ids"].shape
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(configuration(folder, batch, length))
        set_weights(trainer)
        clock = Clock(trainer)
        trainer.train()
        trainer.close()
    begun, warmed, ended = clock.ends
    tokens, warm, steps = batch * length, ABOUT["warm"], ABOUT["steps"]
    paces = {"whole": tokens * steps / (ended - begun), "steady": tokens * (steps - warm) / (ended - warmed)}
    torch.distributed.destroy_process_group()
    print(json.dumps({"paces": paces, "losses": clock.losses}))


if __name__ == "__main__":
    main()
