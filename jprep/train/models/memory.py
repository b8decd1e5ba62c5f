"""Estimate the memory that training needs."""

from __future__ import annotations

from jprep.train.job.config import Precision
from jprep.train.models.electra import GENERATOR
from jprep.train.models.model_family import layer_count
from jprep.train.models.presets import FAMILIES, TransformersConfig
from jprep.train.models.weights import parameter_count

STATE = 16
"""Bytes per weight: weight, gradient and AdamW's two averages, in fp32."""

# Values that a layer stores for the backward pass, per token and hidden unit; measured with transformers.
_LAYER, _GATED, _TANH, _DROPPED, _ATTENTION = 20, 12, 36, 6, 5
_HEADS = 6  # for each number by which all heads together are wider than the layer
_EXPERT, _ROUTED = 4, 2  # for each expert of a token: per number of the expert's width, and of the layer's


def training_memory(
    config: TransformersConfig,
    task: str,
    rows: int,
    length: int,
    precision: Precision,
    *,
    attention: bool = False,
    fused: bool = False,
) -> int:
    """Estimate the bytes for weights, gradients, optimizer and activations on one device, for plans and warnings.

    Args:
        config: from `model_config`.
        task: the task of the job.
        rows: rows in a micro-batch.
        length: tokens per row.
        precision: the precision of the computation.
        attention: whether attention matrices are stored, as with dropout and without a fused kernel.
        fused: whether the loss never holds the logits of all tokens, and `gelu_new` is one kernel.
    """
    number, tokens = 4 if precision == "fp32" else 2, rows * length
    halves = [config, *([config[GENERATOR]] if task == "rtd" else [])]
    numbers = sum(_layer_values(half, length, attention=attention, fused=fused) for half in halves)
    tables = task in ("clm", "mlm", "rtd") and not fused
    outputs: int = tokens * config["vocab_size"] * (8 + number) if tables else 0
    parameters = parameter_count(config, task) * (STATE + (0 if precision == "fp32" else number))
    return parameters + tokens * numbers * number + outputs


def _layer_values(config: TransformersConfig, length: int, *, attention: bool, fused: bool) -> int:
    """Return the number of values that the layers of a model store for each token."""
    family = FAMILIES[config["model_type"]]
    if plugin := family.plugin:
        return plugin.stored_values(plugin.read_config(config), length)
    width: int = config[family.width]
    numbers = _LAYER * width + _feed_forward_values(config, width)
    heads: int = config[family.heads] * config.get("head_dim", 0)
    numbers += _HEADS * max(0, heads - width)
    tanh = "gelu_new" in (config.get("activation_function"), config.get("hidden_act"))
    if tanh and not fused:  # computed by many small operations
        numbers += _TANH * width
    if attention:
        numbers += _DROPPED * width + _ATTENTION * config[family.heads] * length
    return layer_count(config) * numbers


def _feed_forward_values(config: TransformersConfig, width: int) -> int:
    """Return the values that a gated feed-forward network, or the experts of a token, store besides `_LAYER`."""
    if "num_experts" in config:
        each: int = _EXPERT * config["moe_intermediate_size"] + _ROUTED * width
        return each * int(config["num_experts_per_tok"])
    return _GATED * width if FAMILIES[config["model_type"]].rotary else 0
