"""Detect which model of transformers a checkpoint of fairseq is, or why it is none."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jprep.errors import ConfigError, InputError
from jprep.train.exporting.external import ExternalModel
from jprep.train.job.config import ModelConfig
from jprep_fairseq_xla.convert.pickles import FairseqCheckpoint
from jprep_fairseq_xla.planning.fairseq_options import ACTIVATIONS, TASKS

LAYER_NORM_EPSILON = 1e-5
"""Of all norms of fairseq, which has no option for it."""

MODEL_TYPES = {"roberta": "roberta", "masked_lm": "bert", "transformer_lm": "gpt2"}
"""fairseq's name of a model → `model_type`."""

FAIRSEQ_TASKS = {"mlm": "masked_lm", "clm": "language_modeling"}
"""The job's task → fairseq's, whose dictionary and positions are known."""

_ENCODER_OPTIONS: dict[str, Any] = {
    "encoder_learned_pos": True, "no_token_positional_embeddings": False, "encoder_layers_to_keep": None,
}  # fmt: skip
_REQUIRED_OPTIONS: dict[str, dict[str, Any]] = {
    "roberta": _ENCODER_OPTIONS | {
        "encoder_normalize_before": False, "layernorm_embedding": True, "no_scale_embedding": True,
        "untie_weights_roberta": False, "adaptive_input": False, "activation_fn": "gelu",
    },
    "bert": _ENCODER_OPTIONS | {"encoder_normalize_before": True, "share_encoder_input_output_embed": True},
    "gpt2": {
        "decoder_learned_pos": True, "no_token_positional_embeddings": False, "decoder_layers_to_keep": None,
        "decoder_normalize_before": True, "no_decoder_final_norm": False, "adaptive_softmax_cutoff": None,
        "character_embeddings": False, "adaptive_input": False, "layernorm_embedding": False, "base_layers": 0,
        "scale_fc": False, "scale_attn": False, "scale_heads": False, "scale_resids": False,
    },
}  # fmt: skip
"""`model_type` → options that change the computation, with the value that matches transformers' class. Its RoBERTa uses
GELU in the head whatever the layers use.
"""

LAYER_PREFIXES = {"roberta": "encoder.sentence_encoder", "bert": "encoder.sentence_encoder", "gpt2": "decoder"}
"""`model_type` → prefix of the names of fairseq's embeddings and layers."""

TIED_OUTPUTS = {"roberta": "encoder.lm_head.weight", "gpt2": "decoder.output_projection.weight"}
"""`model_type` → the second name of the token embedding, where it is tied to the output."""

SEGMENT_EMBEDDINGS = "encoder.sentence_encoder.segment_embeddings.weight"
"""Of BERT; the task `masked_lm` never adds them."""


def detect_model_type(checkpoint: FairseqCheckpoint) -> str:
    """Return the `model_type` of a checkpoint, after checking all options that change the computation.

    Raises:
        ConfigError: transformers has no such model; the message names the option.
    """
    path, options = str(checkpoint.path), checkpoint.options
    registry = import_module("fairseq.models").ARCH_MODEL_NAME_REGISTRY
    name = str(options.get("_name") or options.get("arch"))
    model_type = MODEL_TYPES.get(registry.get(name, name), "")
    if not model_type:
        fix = "use a checkpoint of roberta, masked_lm (BERT) or transformer_lm"
        raise ConfigError(f"fairseq's {name!r} has no counterpart in transformers here", where=path, fix=fix)
    if checkpoint.task != FAIRSEQ_TASKS[TASKS[model_type]]:
        fix = f"use a checkpoint that was trained with --task {FAIRSEQ_TASKS[TASKS[model_type]]}"
        raise ConfigError(f"the ids of fairseq's task {checkpoint.task!r} are not known", where=path, fix=fix)
    for key, required in _REQUIRED_OPTIONS[model_type].items():
        if (found := options.get(key, required)) != required and (found or required):
            what = f"transformers' {model_type} does not support {key} = {found!r}"
            raise ConfigError(what, where=path, fix=f"supported: {key} = {required!r}")
    return model_type


def describe_model(checkpoint: FairseqCheckpoint, model_type: str) -> ExternalModel:
    """Return the model for jprep: its sizes are those of its weights, the rest comes from its options.

    Raises:
        ConfigError: transformers has no such activation.
        InputError: a tensor is missing.
    """
    options, prefix = checkpoint.options, LAYER_PREFIXES[model_type]
    _, width = matrix_shape(checkpoint, f"{prefix}.embed_tokens.weight")
    positions, _ = matrix_shape(checkpoint, f"{prefix}.embed_positions.weight")
    inner, _ = matrix_shape(checkpoint, f"{prefix}.layers.0.fc1.weight")
    part = "decoder" if model_type == "gpt2" else "encoder"
    length = positions - 2  # positions start after the id of padding, 1
    sizes = (width, _layer_count(checkpoint, prefix), options.get(f"{part}_attention_heads"), inner)
    names = ("n_embd", "n_layer", "n_head", "n_inner") if model_type == "gpt2" else (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    )  # fmt: skip
    config = {"model_type": model_type} | dict(zip(names, sizes, strict=True)) | _from_options(checkpoint, model_type)
    positions_key = "n_positions" if model_type == "gpt2" else "max_position_embeddings"
    config[positions_key] = positions if model_type == "roberta" else length
    return ExternalModel("fairseq-xla", TASKS[model_type], ModelConfig(config=config), length, checkpoint.updates)


def _from_options(checkpoint: FairseqCheckpoint, model_type: str) -> dict[str, Any]:
    """Return the part of the config that the weights do not determine."""
    options = checkpoint.options
    activations = {fairseq_name: name for name, fairseq_name in ACTIVATIONS.items()}
    function = str(options.get("activation_fn"))
    if function not in activations:
        what = f"activation_fn {function!r} has no counterpart in transformers here"
        raise ConfigError(what, where=str(checkpoint.path), fix=f"supported: {', '.join(activations)}")
    activation = activations[function]
    dropout, attention_dropout = options.get("dropout", 0.0), options.get("attention_dropout", 0.0)
    if model_type == "gpt2":
        rates = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": attention_dropout}
        tied = bool(options.get("share_decoder_input_output_embed")) and not has_scaled_embeddings(checkpoint)
        rest = {"activation_function": activation, "layer_norm_epsilon": LAYER_NORM_EPSILON}
        return rates | rest | {"tie_word_embeddings": tied}
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": attention_dropout}
    types = 1 if model_type == "roberta" else matrix_shape(checkpoint, SEGMENT_EMBEDDINGS)[0]
    return rates | {"hidden_act": activation, "layer_norm_eps": LAYER_NORM_EPSILON, "type_vocab_size": types}


def has_scaled_embeddings(checkpoint: FairseqCheckpoint) -> bool:
    """Return whether a decoder scales its input embeddings, but not the output's."""
    return not checkpoint.options.get("no_scale_embedding", False)


def _layer_count(checkpoint: FairseqCheckpoint, prefix: str) -> int:
    layers = {name.removeprefix(f"{prefix}.layers.").partition(".")[0] for name in checkpoint.weights
              if name.startswith(f"{prefix}.layers.")}  # fmt: skip
    return len(layers)


def matrix_shape(checkpoint: FairseqCheckpoint, name: str) -> tuple[int, int]:
    """Return the rows and columns of a matrix.

    Raises:
        InputError: it is missing.
    """
    tensor = checkpoint.weights.get(name)
    if tensor is None or tensor.dim() != 2:
        raise missing_tensor(checkpoint, name)
    return tensor.shape[0], tensor.shape[1]


def missing_tensor(checkpoint: FairseqCheckpoint, name: str) -> InputError:
    """Return the error for a missing tensor."""
    fix = "load and save it with fairseq 0.12.2, which renames the tensors of older versions"
    return InputError(f"the checkpoint lacks the tensor {name}", where=str(checkpoint.path), fix=fix)
