"""FLOPs of training, and peak FLOP/s of GPUs and TPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jprep.train.models.electra import GENERATOR
from jprep.train.models.model_family import layer_count
from jprep.train.models.presets import FAMILIES

# Dense TFLOP/s as published by NVIDIA: in bf16 with fp32 accumulation, and in fp32.
# Keys are parts of the driver's device names; the first one that matches counts.
_PEAKS = {
    "B200": (2250, 75), "H100 PCIE": (756, 51), "H100 NVL": (835, 60), "H100": (989, 67), "H200": (989, 67),
    "A100": (312, 19.5), "A800": (312, 19.5), "L40S": (362, 91.6), "L40": (181, 90.5), "L4": (121, 30.3),
    "A40": (150, 37.4), "A30": (165, 10.3), "A10G": (70, 31.2), "A10": (125, 31.2), "RTX 5090": (209, 104.8),
    "RTX 4090": (165, 82.6), "RTX 3090": (71, 35.6), "RTX 2080 TI": (53.8, 13.4), "V100": (125, 15.7), "T4": (65, 8.1),
}  # fmt: skip


class Tpu(NamedTuple):
    """A version of Google's TPU.

    Attributes:
        tera: peak TFLOP/s of a chip in bf16.
        gib: GiB of memory of a chip.
        devices: devices of a chip that programs see.
        cores: cores of a chip that the number in a type counts: `v3-8` are 8 cores, `v5e-8` are 8 chips.
    """

    tera: float
    gib: int
    devices: int
    cores: int


TPUS = {
    "v2": Tpu(46, 16, 2, 2), "v3": Tpu(123, 32, 2, 2), "v4": Tpu(275, 32, 1, 2),
    "v5e": Tpu(197, 16, 1, 1), "v5p": Tpu(459, 95, 1, 2), "v6e": Tpu(918, 32, 1, 1),
}  # fmt: skip
"""Figures of TPUs as published by Google Cloud."""

_TPU_PASSES = 6  # multiplications in bf16 for one of the precision of fp32


def peak_flops(name: str, given: str = "", *, half: bool = True) -> float | None:
    """Return the peak FLOP/s of a GPU or of a TPU device; None if it is not in the table.

    A TPU has no unit for fp32: each multiplication takes six in bf16.

    Args:
        name: the name as reported by the driver or written by a user (`A100-40GB`, `rtx4090`), or `TPU v3`.
        given: TFLOP/s for a GPU that is not in the table; "" for none.
        half: whether matrices are multiplied in 16 bits, else in fp32.
    """
    if given:
        return float(given) * 1e12
    if tpu := TPUS.get(name.removeprefix("TPU ")):
        return tpu.tera * 1e12 / tpu.devices / (1 if half else _TPU_PASSES)
    plain = re.sub(r"RTX(?=\d)", "RTX ", re.sub(r"[\s_-]+", " ", name.upper()))
    found = (figures for part, figures in _PEAKS.items() if re.search(rf"\b{part}\b", plain))
    return next((figures[0 if half else 1] * 1e12 for figures in found), None)


def flops_per_token(model: Mapping[str, Any], parameters: int, length: int) -> int:
    """Return 6 · active parameters + 12 · the sum over layers of the width of attention · the tokens attended to.

    Each weight is used once in the forward pass and twice in the backward pass; of a mixture of experts, those of the
    experts that a token is sent to. The two matrix products of attention count in full, although a causal model needs
    half of them; in layers of local attention, those within the window. Both halves of an ELECTRA count. Gradient
    checkpointing is not included. The family of a plugin counts by itself.

    Args:
        model: transformers' config.
        parameters: the number of weights, tied ones counted once.
        length: tokens per row.
    """
    if plugin := FAMILIES[model["model_type"]].plugin:
        return plugin.flops_per_token(plugin.read_config(model), parameters, length)
    halves = [model, *([model[GENERATOR]] if GENERATOR in model else [])]
    attention = sum(_attention_width(half) * _attended(half, length) for half in halves)
    return 6 * (parameters - idle_parameters(model)) + 12 * attention


def idle_parameters(model: Mapping[str, Any]) -> int:
    """Return the number of weights of the experts that a token is not sent to; 0 for models without experts."""
    idle = int(model.get("num_experts", 0) - model.get("num_experts_per_tok", 0))
    return 3 * idle * layer_count(model) * int(model["hidden_size"] * model["moe_intermediate_size"]) if idle else 0


def _attention_width(model: Mapping[str, Any]) -> int:
    """Return the width of all heads, which may be another than that of the model."""
    family = FAMILIES[model["model_type"]]
    heads = model.get(family.heads, 0) * (model.get("head_dim") or 0)
    return int(heads or model[family.width])


def _attended(model: Mapping[str, Any], length: int) -> int:
    """Return the number of tokens that a token attends to, summed over layers."""
    layers = layer_count(model)
    if "local_attention" not in model:
        return layers * length
    everywhere = -(-layers // int(model["global_attn_every_n_layers"]))
    return everywhere * length + (layers - everywhere) * min(length, int(model["local_attention"]) + 1)
