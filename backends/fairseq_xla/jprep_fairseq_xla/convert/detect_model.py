"""Which model of transformers' a checkpoint of fairseq's is, or why it is none."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jprep.errors import ConfigError, InputError
from jprep.train.exporting.external import ExternalModel
from jprep.train.job.config import ModelConfig
from jprep_fairseq_xla.convert.pickles import FairseqCheckpoint
from jprep_fairseq_xla.planning.fairseq_options import ACTIVATIONS, TASKS

LAYER_NORM_EPSILON = 1e-5
"""Of every norm of fairseq's, which has no option for it."""

MODEL_TYPES = {"roberta": "roberta", "masked_lm": "bert", "transformer_lm": "gpt2"}
"""fairseq's name of a model → `model_type`."""

FAIRSEQ_TASKS = {"mlm": "masked_lm", "clm": "language_modeling"}
"""The job's task → fairseq's, whose dictionary and positions are known."""

_ENCODER: dict[str, Any] = {
    "encoder_learned_pos": True, "no_token_positional_embeddings": False, "encoder_layers_to_keep": None,
}  # fmt: skip
_WANTED: dict[str, dict[str, Any]] = {
    "roberta": _ENCODER | {
        "encoder_normalize_before": False, "layernorm_embedding": True, "no_scale_embedding": True,
        "untie_weights_roberta": False, "adaptive_input": False, "activation_fn": "gelu",
    },
    "bert": _ENCODER | {"encoder_normalize_before": True, "share_encoder_input_output_embed": True},
    "gpt2": {
        "decoder_learned_pos": True, "no_token_positional_embeddings": False, "decoder_layers_to_keep": None,
        "decoder_normalize_before": True, "no_decoder_final_norm": False, "adaptive_softmax_cutoff": None,
        "character_embeddings": False, "adaptive_input": False, "layernorm_embedding": False, "base_layers": 0,
        "scale_fc": False, "scale_attn": False, "scale_heads": False, "scale_resids": False,
    },
}  # fmt: skip
"""`model_type` → options that change what is computed, with the value that transformers' class has too. Its RoBERTa has
a GELU in its head whatever its layers have.
"""

LAYER_PREFIXES = {"roberta": "encoder.sentence_encoder", "bert": "encoder.sentence_encoder", "gpt2": "decoder"}
"""`model_type` → what stands before the names of fairseq's embeddings and layers."""

TIED_OUTPUTS = {"roberta": "encoder.lm_head.weight", "gpt2": "decoder.output_projection.weight"}
"""`model_type` → the name that a table of tokens has a second time, where it serves the output as well."""

SEGMENT_EMBEDDINGS = "encoder.sentence_encoder.segment_embeddings.weight"
"""BERT's, which the task `masked_lm` never adds."""


def detect_model_type(checkpoint: FairseqCheckpoint) -> str:
    """Which `model_type` it is, after a look at all that says how it computes.

    Raises:
        ConfigError: transformers has no such model; the option is named.
    """
    where, options = str(checkpoint.path), checkpoint.options
    names = import_module("fairseq.models").ARCH_MODEL_NAME_REGISTRY
    name = str(options.get("_name") or options.get("arch"))
    kind = MODEL_TYPES.get(names.get(name, name), "")
    if not kind:
        fix = "roberta, masked_lm (BERT) and transformer_lm have one"
        raise ConfigError(f"transformers' models have no match of fairseq's {name!r} here", where=where, fix=fix)
    if checkpoint.task != FAIRSEQ_TASKS[TASKS[kind]]:
        fix = f"give a checkpoint that was trained with --task {FAIRSEQ_TASKS[TASKS[kind]]}"
        raise ConfigError(f"fairseq's task {checkpoint.task!r} has ids of its own", where=where, fix=fix)
    for key, wanted in _WANTED[kind].items():
        if (found := options.get(key, wanted)) != wanted and (found or wanted):
            what = f"transformers' {kind} cannot be a model with {key} = {found!r}"
            raise ConfigError(what, where=where, fix=f"it can with {key} = {wanted!r}")
    return kind


def describe_model(checkpoint: FairseqCheckpoint, kind: str) -> ExternalModel:
    """What it is as a model of jprep's: sizes are those of its weights, the rest is what its options say.

    Raises:
        ConfigError: transformers has no such activation.
        InputError: a tensor is not there.
    """
    options, base = checkpoint.options, LAYER_PREFIXES[kind]
    _, width = matrix_shape(checkpoint, f"{base}.embed_tokens.weight")
    places, _ = matrix_shape(checkpoint, f"{base}.embed_positions.weight")
    inner, _ = matrix_shape(checkpoint, f"{base}.layers.0.fc1.weight")
    part = "decoder" if kind == "gpt2" else "encoder"
    length = places - 2  # behind the padding's id, which is 1
    sizes = (width, _layers(checkpoint, base), options.get(f"{part}_attention_heads"), inner)
    names = ("n_embd", "n_layer", "n_head", "n_inner") if kind == "gpt2" else (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    )  # fmt: skip
    config = {"model_type": kind} | dict(zip(names, sizes, strict=True)) | _choices(checkpoint, kind)
    config["n_positions" if kind == "gpt2" else "max_position_embeddings"] = places if kind == "roberta" else length
    return ExternalModel("fairseq-xla", TASKS[kind], ModelConfig(config=config), length, checkpoint.updates)


def _choices(checkpoint: FairseqCheckpoint, kind: str) -> dict[str, Any]:
    """What its weights do not tell."""
    options = checkpoint.options
    known, function = {own: name for name, own in ACTIVATIONS.items()}, str(options.get("activation_fn"))
    if function not in known:
        what, fix = f"transformers has no activation_fn of {function!r} here", f"one of {', '.join(known)}"
        raise ConfigError(what, where=str(checkpoint.path), fix=fix)
    activation = known[function]
    dropped, attention = options.get("dropout", 0.0), options.get("attention_dropout", 0.0)
    if kind == "gpt2":
        drops = {"resid_pdrop": dropped, "embd_pdrop": dropped, "attn_pdrop": attention}
        tied = bool(options.get("share_decoder_input_output_embed")) and not has_scaled_embeddings(checkpoint)
        rest = {
            "activation_function": activation,
            "layer_norm_epsilon": LAYER_NORM_EPSILON,
            "tie_word_embeddings": tied,
        }
        return drops | rest
    drops = {"hidden_dropout_prob": dropped, "attention_probs_dropout_prob": attention}
    types = 1 if kind == "roberta" else matrix_shape(checkpoint, SEGMENT_EMBEDDINGS)[0]
    return drops | {"hidden_act": activation, "layer_norm_eps": LAYER_NORM_EPSILON, "type_vocab_size": types}


def has_scaled_embeddings(checkpoint: FairseqCheckpoint) -> bool:
    """Whether a decoder multiplies what it looks up, and not what it compares its output with."""
    return not checkpoint.options.get("no_scale_embedding", False)


def _layers(checkpoint: FairseqCheckpoint, base: str) -> int:
    starts = {name.removeprefix(f"{base}.layers.").partition(".")[0] for name in checkpoint.weights
              if name.startswith(f"{base}.layers.")}  # fmt: skip
    return len(starts)


def matrix_shape(checkpoint: FairseqCheckpoint, name: str) -> tuple[int, int]:
    """The rows and columns of a table.

    Raises:
        InputError: it is not there.
    """
    tensor = checkpoint.weights.get(name)
    if tensor is None or tensor.dim() != 2:
        raise missing_tensor(checkpoint, name)
    return tensor.shape[0], tensor.shape[1]


def missing_tensor(checkpoint: FairseqCheckpoint, name: str) -> InputError:
    """Says that a tensor is not there."""
    fix = "load it with fairseq 0.12.2, which renames what older ones have saved, and save it again"
    return InputError(f"the checkpoint lacks the tensor {name}", where=str(checkpoint.path), fix=fix)
