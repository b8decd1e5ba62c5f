"""Tensors of bidirectional models without a head."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.train.models.presets import TransformersConfig
from jprep.train.models.weights.specs import TensorSpec, TensorSpecs, linear, norm, residual, table


def bert(config: TransformersConfig) -> TensorSpecs:
    """Return the tensors of BERT, RoBERTa or ELECTRA."""
    tensors = _embeddings(config)
    for layer in range(config["num_hidden_layers"]):
        tensors |= _layer(f"encoder.layer.{layer}.", ("query", "key", "value"), config)
    return tensors


def deberta(config: TransformersConfig) -> TensorSpecs:
    """Return the tensors of DeBERTa-v2: an embedding of distances, which all layers share, and a convolution."""
    width, kernel = config["hidden_size"], config["conv_kernel_size"]
    tensors = table("embeddings.word_embeddings", config["vocab_size"], width, config, config["pad_token_id"])
    tensors |= _token_types(config, width) if config["type_vocab_size"] else {}
    tensors |= norm("embeddings.LayerNorm", width)
    for layer in range(config["num_hidden_layers"]):
        tensors |= _layer(f"encoder.layer.{layer}.", ("query_proj", "key_proj", "value_proj"), config)
    tensors |= table("encoder.rel_embeddings", 2 * config["position_buckets"], width, config)
    tensors |= norm("encoder.LayerNorm", width)
    if not kernel:
        return tensors
    convolution = TensorSpec((width, width, kernel), std=config["initializer_range"])
    tensors |= {"encoder.conv.conv.weight": convolution, "encoder.conv.conv.bias": TensorSpec((width,), "zeros")}
    return tensors | norm("encoder.conv.LayerNorm", width)


def _layer(at: str, projections: Sequence[str], config: TransformersConfig) -> TensorSpecs:
    width, inner = config["hidden_size"], config["intermediate_size"]
    tensors: TensorSpecs = {}
    for part in projections:
        tensors |= linear(f"{at}attention.self.{part}", width, width, config)
    tensors |= linear(at + "attention.output.dense", width, width, config)
    tensors |= norm(at + "attention.output.LayerNorm", width)
    tensors |= linear(at + "intermediate.dense", width, inner, config)
    return tensors | linear(at + "output.dense", inner, width, config) | norm(at + "output.LayerNorm", width)


def _embeddings(config: TransformersConfig) -> TensorSpecs:
    wide, pad = embedding_width(config), config["pad_token_id"]
    positions = table(
        "embeddings.position_embeddings",
        config["max_position_embeddings"],
        wide,
        config,
        pad if config["model_type"] == "roberta" else None,
    )
    types = _token_types(config, wide)
    words = table("embeddings.word_embeddings", config["vocab_size"], wide, config, pad)
    tensors = words | positions | types | norm("embeddings.LayerNorm", wide)
    if wide != config["hidden_size"]:
        tensors |= linear("embeddings_project", wide, config["hidden_size"], config)
    return tensors


def _token_types(config: TransformersConfig, width: int) -> TensorSpecs:
    types = table("embeddings.token_type_embeddings", config["type_vocab_size"], width, config)
    if config["type_vocab_size"] > 1:
        return types
    # The same for every token: not trained, as fairseq has none.
    return {name: TensorSpec(tensor.shape, "zeros", trained=False) for name, tensor in types.items()}


def embedding_width(config: TransformersConfig) -> int:
    """Return the embedding size, which in ELECTRA is smaller than the hidden size."""
    wide: int = config["embedding_size"] if "embedding_size" in config else config["hidden_size"]
    return wide


def modernbert(config: TransformersConfig) -> TensorSpecs:
    """Return the tensors of ModernBERT. Its first layer has no norm before attention."""
    width, inner, bias = config["hidden_size"], config["intermediate_size"], config["norm_bias"]
    tensors = table("embeddings.tok_embeddings", config["vocab_size"], width, config)
    tensors |= norm("embeddings.norm", width, bias)
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."
        tensors |= norm(at + "attn_norm", width, bias) if layer else {}
        tensors |= linear(at + "attn.Wqkv", width, 3 * width, config, config["attention_bias"])
        tensors |= residual(linear(at + "attn.Wo", width, width, config, config["attention_bias"]), config)
        tensors |= norm(at + "mlp_norm", width, bias) | linear(
            at + "mlp.Wi", width, 2 * inner, config, config["mlp_bias"]
        )
        tensors |= residual(linear(at + "mlp.Wo", inner, width, config, config["mlp_bias"]), config)
    return tensors | norm("final_norm", width, bias)
