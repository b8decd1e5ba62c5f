"""Names, shapes and initialization of a model's weights, as in transformers' `state_dict`, tied ones once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jprep.errors import ConfigError
from jprep.train.models.electra import GENERATOR, Half, half_config, is_shared, name_in_checkpoint
from jprep.train.models.next_sentence import has_next_sentence_head
from jprep.train.models.presets import FAMILIES, TransformersConfig
from jprep.train.models.registry import unknown_family
from jprep.train.models.weights import decoders, encoders
from jprep.train.models.weights.heads import (
    PREDICTIONS,
    SEQUENCES,
    discriminator_head,
    next_sentence_head,
    scores,
    untied,
)
from jprep.train.models.weights.specs import InitKind, TensorSpec, TensorSpecs

HEAD_PARAMETERS = "head_parameters"
"""The key of a job's model with the shapes of the parameters of a user's head, by name. No exported config has it."""

HEAD_PREFIX = "head."
"""The prefix of these parameters in checkpoints."""

_BASE_PREFIXES = {
    "gpt2": "transformer.",
    "bert": "bert.",
    "roberta": "roberta.",
    "electra": "electra.",
    "modernbert": "model.",
    "deberta-v2": "deberta.",
    "llama": "model.",
    "qwen3": "model.",
    "qwen3_moe": "model.",
}
"""`model_type` → the prefix of the tensors that all tasks share, of built-in families."""

_BASES: dict[str, Callable[[TransformersConfig], TensorSpecs]] = {
    "gpt2": decoders.gpt2,
    "llama": decoders.llama,
    "qwen3": decoders.llama,
    "qwen3_moe": decoders.llama,
    "bert": encoders.bert,
    "roberta": encoders.bert,
    "electra": encoders.bert,
    "modernbert": encoders.modernbert,
    "deberta-v2": encoders.deberta,
}


def base_prefix(model_type: str) -> str:
    """Return the prefix of the tensors that all tasks share."""
    return _BASE_PREFIXES.get(model_type, "model.")


def parameters(config: TransformersConfig, task: str) -> TensorSpecs:
    """Return the tensors of the model class for a task, in the order of the forward pass.

    Args:
        config: from `model_config`.
        task: `clm`, `mlm`, `rtd`, `classify` or `regress`. For `rtd` both halves of ELECTRA, the embeddings once.

    Raises:
        ConfigError: the plugin that has the model's family is not installed.
    """
    kind = config["model_type"]
    base = _base(config)
    labels = len(config.get("id2label", ()))
    if HEAD_PARAMETERS in config:
        head = _hook_head(config)
    elif task in ("classify", "regress"):
        head = {
            name: tensor._replace(head=True) for name, tensor in SEQUENCES.get(kind, scores)(config, labels).items()
        }
    elif task == "rtd":
        head = discriminator_head(config) | _generator(config)
    else:
        head = PREDICTIONS.get(kind, untied)(config)
    if has_next_sentence_head(config) and task == "mlm":
        head |= {name: tensor._replace(head=True) for name, tensor in next_sentence_head(config).items()}
    return {base_prefix(kind) + name: tensor for name, tensor in base.items()} | head


def _base(config: TransformersConfig) -> TensorSpecs:
    kind = config["model_type"]
    if kind not in FAMILIES:
        fix = unknown_family(kind, config, FAMILIES)
        raise ConfigError(f"jprep has no model family {kind!r}", where="model_type", fix=fix)
    if plugin := FAMILIES[kind].plugin:
        return plugin.weights(plugin.read_config(config), config["vocab_size"])
    return _BASES[kind](config)


def _hook_head(config: TransformersConfig) -> TensorSpecs:
    """Return the tensors of a user's head: matrices normal, scales of norms one, the rest zero."""
    return {
        HEAD_PREFIX + name: TensorSpec(tuple(shape), _hook_init(name, shape), config["initializer_range"], head=True)
        for name, shape in config[HEAD_PARAMETERS].items()
    }


def _hook_init(name: str, shape: Sequence[int]) -> InitKind:
    if len(shape) >= 2:
        return "normal"
    return "ones" if name.rpartition(".")[2] in ("weight", "scale", "gamma") else "zeros"


def half_names(config: TransformersConfig, half: Half) -> dict[str, str]:
    """Return the tensors of one half of an ELECTRA: its name in transformers → its name in a checkpoint.

    Args:
        config: the config of a job for `rtd`.
        half: which half.
    """
    if half == GENERATOR:
        return {name: name_in_checkpoint(name) for name in parameters(half_config(config, half), "mlm")}
    return {name: name for name in parameters(config, "rtd") if not name.startswith(f"{GENERATOR}.")}


def parameter_count(config: TransformersConfig, task: str) -> int:
    """Return the number of weights of a model."""
    return sum(tensor.size for tensor in parameters(config, task).values())


def _generator(config: TransformersConfig) -> TensorSpecs:
    tensors = parameters(config[GENERATOR], "mlm")
    return {name_in_checkpoint(name): tensor for name, tensor in tensors.items() if not is_shared(name)}
