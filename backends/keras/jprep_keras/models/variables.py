"""The values of KerasHub's variables, computed from weights under transformers' names and shapes.

The training state holds the weights as transformers has them, and the step computes Keras's values of them: a
transpose, a slice, a sum. Gradients, clipping, AdamW and checkpoints are then those of `docs/training.md` for every
tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras import ops

from jprep.train.models.weights import HEAD_PREFIX, base_prefix

Weights = Mapping[str, Any]
"""Weights by transformers' names."""

Value = Callable[[Weights], Any]
"""Computes the value of a variable."""

Values = dict[str, Value]
"""Path of a variable in Keras → its value."""


def backbone_values(config: dict[str, Any]) -> Values:
    """Return the values of all variables of a backbone, except BERT's and ELECTRA's pooler."""
    model_type, prefix = config["model_type"], base_prefix(config["model_type"])
    return {"gpt2": _gpt2, "llama": _llama}.get(model_type, _encoder)(config, prefix)


def lm_head_values(config: dict[str, Any]) -> Values:
    """Return the values of the variables of `MaskedLMHead`, without the token embedding."""
    dense, norm, bias = {
        "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
        "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        "electra": ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
    }[config["model_type"]]
    values = _dense("mlm_head/intermediate_dense", dense) | _norm("mlm_head/intermediate_layer_norm", norm)
    return values | {"mlm_head/output_bias": _same(bias)}


def classifier_values(config: dict[str, Any]) -> Values:
    """Return the values of the variables of a classification head, and of BERT's pooler."""
    model_type = config["model_type"]
    if model_type == "bert":
        return _dense("pooled_dense", "bert.pooler.dense") | _dense("out", "classifier")
    if model_type in ("gpt2", "llama"):
        return {"out/kernel": _transposed("score.weight")}
    return _dense("dense", "classifier.dense") | _dense("out", "classifier.out_proj")


def next_sentence_values() -> Values:
    """Return the values of the variables of BERT's next-sentence head, and of its pooler."""
    return _dense("pooled_dense", "bert.pooler.dense") | _dense("next_sentence", "cls.seq_relationship")


def custom_head_values(names: Iterable[str]) -> Values:
    """Return the values of the variables of a user's head, whose weights have their names and shapes."""
    return {name: _same(HEAD_PREFIX + name) for name in names}


def pad_ids(values: Values, ids: int) -> Values:
    """Return values whose axis of ids is padded with zeros.

    Args:
        values: of all variables of a model.
        ids: number of ids with the padding.
    """
    axes = {"token_embedding/embeddings": 0, "token_embedding/reverse_embeddings": 1, "mlm_head/output_bias": 0}
    return {path: _padded(value, axes[path], ids) if path in axes else value for path, value in values.items()}


def _padded(value: Value, axis: int, ids: int) -> Value:
    def padded(weights: Weights) -> Any:
        found = value(weights)
        missing = ids - found.shape[axis]
        widths = [(0, missing if number == axis else 0) for number in range(len(found.shape))]
        return ops.pad(found, widths) if missing else found

    return padded


def _encoder(config: dict[str, Any], prefix: str) -> Values:
    at = prefix + "embeddings."
    values = {"token_embedding/embeddings": _same(f"{at}word_embeddings.weight")} | _positions(config, at)
    values |= _norm("embeddings_layer_norm", f"{at}LayerNorm")
    if config.get("embedding_size", config["hidden_size"]) != config["hidden_size"]:
        values |= _dense("embeddings_projection", f"{prefix}embeddings_project")
    for number in range(config["num_hidden_layers"]):
        layer, at = f"transformer_layer_{number}/", f"{prefix}encoder.layer.{number}."
        attention, heads = f"{layer}self_attention_layer/", config["num_attention_heads"]
        for part in ("query", "key", "value"):
            values |= _to_heads(f"{attention}{part}", f"{at}attention.self.{part}", heads)
        values |= _from_heads(f"{attention}attention_output", f"{at}attention.output.dense", heads)
        values |= _norm(f"{layer}self_attention_layer_norm", f"{at}attention.output.LayerNorm")
        values |= _dense(f"{layer}feedforward_intermediate_dense", f"{at}intermediate.dense")
        values |= _dense(f"{layer}feedforward_output_dense", f"{at}output.dense")
        values |= _norm(f"{layer}feedforward_layer_norm", f"{at}output.LayerNorm")
    return values


def _positions(config: dict[str, Any], at: str) -> Values:
    """Return the embeddings of positions and token types.

    RoBERTa's first position is `pad_token_id` + 1, and KerasHub's RoBERTa has no token types: the one that transformers
    has is added to every position. It is not trained.
    """
    positions, types = f"{at}position_embeddings.weight", f"{at}token_type_embeddings.weight"
    if config["model_type"] != "roberta":
        return {"position_embedding/embeddings": _same(positions), "segment_embedding/embeddings": _same(types)}
    first = config["pad_token_id"] + 1
    return {"position_embedding/embeddings": lambda weights: weights[positions][first:] + weights[types][:1]}


def _gpt2(config: dict[str, Any], prefix: str) -> Values:
    values = {"token_embedding/embeddings": _same(f"{prefix}wte.weight")}
    values |= {"position_embedding/embeddings": _same(f"{prefix}wpe.weight")} | _norm("layer_norm", f"{prefix}ln_f")
    for number in range(config["n_layer"]):
        layer, at, heads = f"transformer_layer_{number}/", f"{prefix}h.{number}.", config["n_head"]
        for index, part in enumerate(("query", "key", "value")):
            values |= _gpt2_part(f"{layer}self_attention/{part}", f"{at}attn.c_attn", index, heads)
        output = f"{layer}self_attention/attention_output"
        values |= {f"{output}/kernel": _split_rows(f"{at}attn.c_proj.weight", heads)}
        values |= {f"{output}/bias": _same(f"{at}attn.c_proj.bias")}
        values |= _norm(f"{layer}self_attention_layer_norm", f"{at}ln_1")
        values |= _conv1d(f"{layer}feedforward_intermediate_dense", f"{at}mlp.c_fc")
        values |= _conv1d(f"{layer}feedforward_output_dense", f"{at}mlp.c_proj")
        values |= _norm(f"{layer}feedforward_layer_norm", f"{at}ln_2")
    return values


def _llama(config: dict[str, Any], prefix: str) -> Values:
    values = {"token_embedding/embeddings": _same(f"{prefix}embed_tokens.weight")}
    if not config["tie_word_embeddings"]:
        values["token_embedding/reverse_embeddings"] = _transposed("lm_head.weight")
    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    for number in range(config["num_hidden_layers"]):
        layer, at = f"transformer_layer_{number}/", f"{prefix}layers.{number}."
        for part, count in (("query", heads), ("key", shared), ("value", shared)):
            kernel = _split_columns(f"{at}self_attn.{part[0]}_proj.weight", count)
            values[f"{layer}self_attention/{part}/kernel"] = kernel
        output = _split_transposed_rows(f"{at}self_attn.o_proj.weight", heads)
        values[f"{layer}self_attention/attention_output/kernel"] = output
        names = {"gate": "gate", "intermediate": "up", "output": "down"}
        for name, part in names.items():
            values[f"{layer}feedforward_{name}_dense/kernel"] = _transposed(f"{at}mlp.{part}_proj.weight")
        values[f"{layer}self_attention_layernorm/scale"] = _same(f"{at}input_layernorm.weight")
        values[f"{layer}feedforward_layernorm/scale"] = _same(f"{at}post_attention_layernorm.weight")
    return values | {"sequence_output_layernorm/scale": _same(f"{prefix}norm.weight")}


def _same(name: str) -> Value:
    return lambda weights: weights[name]


def _transposed(name: str) -> Value:
    return lambda weights: ops.transpose(weights[name])


def _dense(path: str, name: str) -> Values:
    """Return the variables of a dense layer; transformers has the outputs first."""
    return {f"{path}/kernel": _transposed(f"{name}.weight"), f"{path}/bias": _same(f"{name}.bias")}


def _norm(path: str, name: str) -> Values:
    return {f"{path}/gamma": _same(f"{name}.weight"), f"{path}/beta": _same(f"{name}.bias")}


def _conv1d(path: str, name: str) -> Values:
    """Return the variables of a dense layer; GPT-2 has the inputs first, as Keras."""
    return {f"{path}/kernel": _same(f"{name}.weight"), f"{path}/bias": _same(f"{name}.bias")}


def _to_heads(path: str, name: str, heads: int) -> Values:
    """Return the variables of a projection to heads: (width, heads, size) and (heads, size)."""
    bias = f"{name}.bias"
    kernel = _split_columns(f"{name}.weight", heads)
    return {f"{path}/kernel": kernel, f"{path}/bias": lambda weights: ops.reshape(weights[bias], (heads, -1))}


def _from_heads(path: str, name: str, heads: int) -> Values:
    """Return the variables of a projection from heads: (heads, size, width) and (width,)."""
    kernel = _split_transposed_rows(f"{name}.weight", heads)
    return {f"{path}/kernel": kernel, f"{path}/bias": _same(f"{name}.bias")}


def _gpt2_part(path: str, name: str, part: int, heads: int) -> Values:
    """Return the variables of one of query, key and value, which are one matrix in GPT-2."""

    def columns(array: Any) -> Any:
        size = array.shape[-1] // 3
        return array[..., part * size : (part + 1) * size]

    def kernel(weights: Weights) -> Any:
        whole = weights[f"{name}.weight"]
        return ops.reshape(columns(whole), (whole.shape[0], heads, -1))

    return {
        f"{path}/kernel": kernel,
        f"{path}/bias": lambda weights: ops.reshape(columns(weights[f"{name}.bias"]), (heads, -1)),
    }


def _split_columns(name: str, heads: int) -> Value:
    """Return (outputs, width) as (width, heads, size)."""
    return lambda weights: ops.reshape(ops.transpose(weights[name]), (weights[name].shape[1], heads, -1))


def _split_rows(name: str, heads: int) -> Value:
    """Return (inputs, width) as (heads, size, width)."""
    return lambda weights: ops.reshape(weights[name], (heads, -1, weights[name].shape[1]))


def _split_transposed_rows(name: str, heads: int) -> Value:
    """Return (width, inputs) as (heads, size, width)."""
    return lambda weights: ops.reshape(ops.transpose(weights[name]), (heads, -1, weights[name].shape[0]))
