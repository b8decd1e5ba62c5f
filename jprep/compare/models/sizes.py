"""The models' sizes, and the `[train]` section of a model of each."""

from __future__ import annotations

import re
from typing import Any

from jprep.compare.result import ModelSize
from jprep.errors import ConfigError
from jprep.train.job.config import CheckpointConfig, ModelConfig, TrainConfig
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep.train.optimization.schedule import ScheduleConfig

MINIMUM_STEPS = 20
_WARMUP = 0.1  # of all steps
_FLOOR = 0.1  # of the peak learning rate
_ONE_THREAD = 128  # below this width a second CPU thread waits more than it computes


def _size(width: int, layers: int, heads: int, inner: int, rows: int, length: int, lr: float) -> ModelSize:
    """Return a size; its parameters are those of LLaMA's blocks and its last norm."""
    parameters = layers * (4 * width * width + 3 * width * inner + 2 * width) + width
    millions = parameters / 1e6
    name = f"{millions:.1f}m" if millions < 1 else f"{millions:.0f}m"
    return ModelSize(
        name=name,
        width=width,
        layers=layers,
        heads=heads,
        inner=inner,
        parameters=parameters,
        rows=rows,
        length=length,
        lr=lr,
    )


SIZES = {
    size.name: size
    for size in (
        _size(64, 2, 2, 192, 4, 128, 4e-3),
        _size(96, 3, 3, 256, 8, 256, 4e-3),
        _size(128, 4, 4, 352, 8, 256, 3e-3),
        _size(256, 6, 8, 704, 16, 256, 2e-3),
        _size(512, 8, 8, 1376, 64, 512, 1e-3),
        _size(768, 12, 12, 2048, 128, 512, 6e-4),
    )
}
"""The dial of size, the smallest first. A name states the parameters without embeddings: 0.1m, 0.3m, 0.8m, 5m, …"""


def find_size(name: str) -> ModelSize:
    """Return a size by its name.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in SIZES:
        raise ConfigError(f"there is no size {name!r}", where="--size", fix=_nearest_sizes(name))
    return SIZES[name]


def _nearest_sizes(name: str) -> str:
    """Return the sizes next to a number of millions of parameters; for another name, all of them."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)m", name.lower())
    if not found:
        return f"available: {', '.join(SIZES)}"
    wanted = float(found[1]) * 1e6
    below = [each for each, size in SIZES.items() if size.parameters <= wanted][-1:]
    above = [each for each, size in SIZES.items() if size.parameters > wanted][:1]
    return f"nearest: {' and '.join(below + above)}; available: {', '.join(SIZES)}"


def training_steps(size: ModelSize, tokens: float) -> int:
    """Return the steps in which a model sees a number of tokens."""
    return max(MINIMUM_STEPS, round(tokens / (size.rows * size.length)))


def train_section(size: ModelSize, steps: int, seed: int, backend: str, device: str) -> TrainConfig:
    """Return the `[train]` section of a model.

    Args:
        size: its size.
        steps: its updates.
        seed: its seed.
        backend: the backend.
        device: `cpu` or `gpu`.
    """
    config = {
        "model_type": "llama",
        "hidden_size": size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads,
        "intermediate_size": size.inner,
        "max_position_embeddings": size.length,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }
    return TrainConfig(
        task="clm",
        model=ModelConfig(config=config),
        batch=size.rows,
        length=size.length,
        steps=steps,
        seed=seed,
        precision="bf16" if device == "gpu" else "fp32",
        optimizer=OptimizerConfig(lr=size.lr, beta2=0.95, weight_decay=0.1),
        schedule=ScheduleConfig(kind="cosine", warmup=max(1, round(_WARMUP * steps)), floor=_FLOOR),
        checkpoint=CheckpointConfig(every_steps=0, every_minutes=1.0, keep_last=1),
        log_every=max(1, steps // 100),
        trackers=[],
        backend={backend: _backend_options(size, device)} if backend == "torch" else {},
    )


def _backend_options(size: ModelSize, device: str) -> dict[str, Any]:
    if device == "gpu":
        return {"device": "cuda"}
    return {"device": "cpu"} | ({"threads": 1} if size.width < _ONE_THREAD else {})
