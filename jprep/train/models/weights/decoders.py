"""Tensors of causal models without a head."""

from __future__ import annotations

import math

from jprep.train.models.presets import TransformersConfig
from jprep.train.models.weights.specs import TensorSpec, TensorSpecs, linear, norm, table


def gpt2(config: TransformersConfig) -> TensorSpecs:
    """Return the tensors of GPT-2."""
    width, inner, std = config["n_embd"], config["n_inner"], config["initializer_range"]
    residual = std / math.sqrt(2 * config["n_layer"])  # each layer adds to the residual stream twice

    def conv(name: str, inputs: int, outputs: int, spread: float = std) -> TensorSpecs:
        weight = TensorSpec((inputs, outputs), std=spread)  # transformers' Conv1D: inputs first
        return {f"{name}.weight": weight, f"{name}.bias": TensorSpec((outputs,), "zeros")}

    tensors = table("wte", config["vocab_size"], width, config) | table("wpe", config["n_positions"], width, config)
    for layer in range(config["n_layer"]):
        at = f"h.{layer}."
        tensors |= norm(at + "ln_1", width) | conv(at + "attn.c_attn", width, 3 * width)
        tensors |= conv(at + "attn.c_proj", width, width, residual) | norm(at + "ln_2", width)
        tensors |= conv(at + "mlp.c_fc", width, inner) | conv(at + "mlp.c_proj", inner, width, residual)
    return tensors | norm("ln_f", width)


def llama(config: TransformersConfig) -> TensorSpecs:
    """Return the tensors of a decoder with rotary positions: Llama, or Qwen3 with or without experts."""
    width = config["hidden_size"]
    tensors = table("embed_tokens", config["vocab_size"], width, config, config["pad_token_id"])
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."
        tensors |= norm(at + "input_layernorm", width, bias=False) | _grouped_attention(at + "self_attn.", config)
        tensors |= norm(at + "post_attention_layernorm", width, bias=False)
        tensors |= _experts(at + "mlp.", config) if "num_experts" in config else _gated(at + "mlp.", config)
    return tensors | norm("norm", width, bias=False)


def _grouped_attention(at: str, config: TransformersConfig) -> TensorSpecs:
    width, size, bias = config["hidden_size"], config["head_dim"], config["attention_bias"]
    queries, shared = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    tensors: TensorSpecs = {}
    for part, outputs in (("q", queries), ("k", shared), ("v", shared)):
        tensors |= linear(f"{at}{part}_proj", width, outputs, config, bias)
    tensors |= linear(at + "o_proj", queries, width, config, bias)
    if config["model_type"] == "llama":
        return tensors
    return tensors | norm(at + "q_norm", size, bias=False) | norm(at + "k_norm", size, bias=False)


def _experts(at: str, config: TransformersConfig) -> TensorSpecs:
    tensors = linear(at + "gate", config["hidden_size"], config["num_experts"], config, bias=False)
    one = config | {"intermediate_size": config["moe_intermediate_size"]}
    for expert in range(config["num_experts"]):
        tensors |= _gated(f"{at}experts.{expert}.", one)
    return tensors


def _gated(at: str, config: TransformersConfig) -> TensorSpecs:
    width, inner, bias = config["hidden_size"], config["intermediate_size"], config.get("mlp_bias", False)
    tensors = linear(at + "gate_proj", width, inner, config, bias) | linear(at + "up_proj", width, inner, config, bias)
    return tensors | linear(at + "down_proj", inner, width, config, bias)
