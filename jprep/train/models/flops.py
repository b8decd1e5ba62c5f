"""FLOPs of training, and peak FLOP/s of GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jprep.train.models.electra import GENERATOR
from jprep.train.models.presets import FAMILIES

# Dense TFLOP/s as published by NVIDIA: in bf16 with fp32 accumulation, and in fp32.
# Keys are parts of the driver's device names; the first one that matches counts.
_PEAKS = {
    "B200": (2250, 75), "H100 PCIE": (756, 51), "H100 NVL": (835, 60), "H100": (989, 67), "H200": (989, 67),
    "A100": (312, 19.5), "A800": (312, 19.5), "L40S": (362, 91.6), "L40": (181, 90.5), "L4": (121, 30.3),
    "A40": (150, 37.4), "A30": (165, 10.3), "A10G": (70, 31.2), "A10": (125, 31.2), "RTX 5090": (209, 104.8),
    "RTX 4090": (165, 82.6), "RTX 3090": (71, 35.6),
}  # fmt: skip


def peak_flops(name: str, given: str = "", *, half: bool = True) -> float | None:
    """Return the peak FLOP/s of a GPU; None if it is not in the table.

    Args:
        name: the name as reported by the driver or written by a user (`A100-40GB`, `rtx4090`).
        given: TFLOP/s for a GPU that is not in the table; "" for none.
        half: whether matrices are multiplied in 16 bits, else in fp32.
    """
    if given:
        return float(given) * 1e12
    plain = re.sub(r"RTX(?=\d)", "RTX ", re.sub(r"[\s_-]+", " ", name.upper()))
    found = (figures for part, figures in _PEAKS.items() if re.search(rf"\b{part}\b", plain))
    return next((figures[0 if half else 1] * 1e12 for figures in found), None)


def flops_per_token(model: Mapping[str, Any], parameters: int, length: int) -> int:
    """Return 6 · parameters + 12 · layers · width · length.

    Each weight is used once in the forward pass and twice in the backward pass. The two matrix products of attention
    count in full, although a causal model needs half of them. Both halves of an ELECTRA count. Gradient checkpointing
    is not included.

    Args:
        model: transformers' config.
        parameters: the number of weights, tied ones counted once.
        length: tokens per row.
    """
    halves = [model, *([model[GENERATOR]] if GENERATOR in model else [])]
    attention = sum(_layers(half) * int(half[FAMILIES[half["model_type"]].width]) for half in halves)
    return 6 * parameters + 12 * attention * length


def _layers(model: Mapping[str, Any]) -> int:
    return int(model.get("n_layer") or model["num_hidden_layers"])
