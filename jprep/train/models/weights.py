"""Names, shapes and initialization of a model's weights, as in transformers' `state_dict`, tied ones once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from jprep.train.models.electra import GENERATOR, Half, half_config, is_shared, name_in_checkpoint
from jprep.train.models.next_sentence import NEXT_SENTENCE_LABELS, has_next_sentence_head
from jprep.train.models.presets import FAMILIES, TransformersConfig

InitKind = Literal["normal", "zeros", "ones"]


class TensorSpec(NamedTuple):
    """One tensor of a model.

    Attributes:
        shape: its shape.
        kind: its initialization.
        std: the standard deviation of `normal`.
        zero_row: a row of `normal` that is initialized with zeros; -1 for none.
        trained: whether it is trained; otherwise it has no part in clipping and decay either.
        head: whether it belongs to a classification head, which files of pretrained models lack.
    """

    shape: tuple[int, ...]
    kind: InitKind = "normal"
    std: float = 0.0
    zero_row: int = -1
    trained: bool = True
    head: bool = False

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


TensorSpecs = dict[str, TensorSpec]
Head = Callable[[TransformersConfig], TensorSpecs]

HEAD_PARAMETERS = "head_parameters"
"""The key of a job's model with the shapes of the parameters of a user's head, by name. No exported config has it."""

HEAD_PREFIX = "head."
"""The prefix of these parameters in checkpoints."""

BASE_PREFIXES = {
    "gpt2": "transformer.",
    "bert": "bert.",
    "roberta": "roberta.",
    "electra": "electra.",
    "llama": "model.",
}
"""`model_type` → the prefix of the tensors that all tasks share."""


def parameters(config: TransformersConfig, task: str) -> TensorSpecs:
    """Return the tensors of the model class for a task, in the order of the forward pass.

    Args:
        config: from `model_config`.
        task: `clm`, `mlm`, `rtd`, `classify` or `regress`. For `rtd` both halves of ELECTRA, the embeddings once.
    """
    kind = config["model_type"]
    base = {"gpt2": _gpt2, "llama": _llama}.get(kind, _encoder)(config)
    labels = len(config.get("id2label", ()))
    if HEAD_PARAMETERS in config:
        head = _hook_head(config)
    elif task in ("classify", "regress"):
        head = {name: tensor._replace(head=True) for name, tensor in _SEQUENCES[kind](config, labels).items()}
    elif task == "rtd":
        head = _discriminator(config) | _generator(config)
    else:
        head = _PREDICTIONS[kind](config)
    if has_next_sentence_head(config) and task == "mlm":
        head |= {name: tensor._replace(head=True) for name, tensor in _next_sentence(config).items()}
    return {BASE_PREFIXES[kind] + name: tensor for name, tensor in base.items()} | head


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


def _table(name: str, rows: int, width: int, config: TransformersConfig, zero_row: int | None = None) -> TensorSpecs:
    std = config["initializer_range"]
    return {f"{name}.weight": TensorSpec((rows, width), std=std, zero_row=-1 if zero_row is None else zero_row)}


def _linear(name: str, inputs: int, outputs: int, config: TransformersConfig, bias: bool = True) -> TensorSpecs:
    weight = {f"{name}.weight": TensorSpec((outputs, inputs), std=config["initializer_range"])}
    return weight | ({f"{name}.bias": TensorSpec((outputs,), "zeros")} if bias else {})


def _norm(name: str, width: int, bias: bool = True) -> TensorSpecs:
    weight = {f"{name}.weight": TensorSpec((width,), "ones")}
    return weight | ({f"{name}.bias": TensorSpec((width,), "zeros")} if bias else {})


def _gpt2(config: TransformersConfig) -> TensorSpecs:
    width, inner, std = config["n_embd"], config["n_inner"], config["initializer_range"]
    residual = std / math.sqrt(2 * config["n_layer"])  # each layer adds to the residual stream twice

    def conv(name: str, inputs: int, outputs: int, spread: float = std) -> TensorSpecs:
        weight = TensorSpec((inputs, outputs), std=spread)  # transformers' Conv1D: inputs first
        return {f"{name}.weight": weight, f"{name}.bias": TensorSpec((outputs,), "zeros")}

    tensors = _table("wte", config["vocab_size"], width, config) | _table("wpe", config["n_positions"], width, config)
    for layer in range(config["n_layer"]):
        at = f"h.{layer}."
        tensors |= _norm(at + "ln_1", width) | conv(at + "attn.c_attn", width, 3 * width)
        tensors |= conv(at + "attn.c_proj", width, width, residual) | _norm(at + "ln_2", width)
        tensors |= conv(at + "mlp.c_fc", width, inner) | conv(at + "mlp.c_proj", inner, width, residual)
    return tensors | _norm("ln_f", width)


def _encoder(config: TransformersConfig) -> TensorSpecs:
    width, inner = config["hidden_size"], config["intermediate_size"]
    tensors = _embeddings(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            tensors |= _linear(f"{at}attention.self.{part}", width, width, config)
        tensors |= _linear(at + "attention.output.dense", width, width, config)
        tensors |= _norm(at + "attention.output.LayerNorm", width)
        tensors |= _linear(at + "intermediate.dense", width, inner, config)
        tensors |= _linear(at + "output.dense", inner, width, config) | _norm(at + "output.LayerNorm", width)
    return tensors


def _embeddings(config: TransformersConfig) -> TensorSpecs:
    wide, pad = _wide(config), config["pad_token_id"]
    positions = _table(
        "embeddings.position_embeddings",
        config["max_position_embeddings"],
        wide,
        config,
        pad if config["model_type"] == "roberta" else None,
    )
    types = _table("embeddings.token_type_embeddings", config["type_vocab_size"], wide, config)
    if config["type_vocab_size"] == 1:  # the same for every token: not trained, as fairseq has none
        types = {name: TensorSpec(tensor.shape, "zeros", trained=False) for name, tensor in types.items()}
    words = _table("embeddings.word_embeddings", config["vocab_size"], wide, config, pad)
    tensors = words | positions | types | _norm("embeddings.LayerNorm", wide)
    if wide != config["hidden_size"]:
        tensors |= _linear("embeddings_project", wide, config["hidden_size"], config)
    return tensors


def _wide(config: TransformersConfig) -> int:
    """Return the embedding size, which in ELECTRA is smaller than the hidden size."""
    wide: int = config["embedding_size"] if "embedding_size" in config else config["hidden_size"]
    return wide


def _llama(config: TransformersConfig) -> TensorSpecs:
    width, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, shared = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    bias, inner_bias = config["attention_bias"], config["mlp_bias"]
    tensors = _table("embed_tokens", config["vocab_size"], width, config, config["pad_token_id"])
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."
        tensors |= _norm(at + "input_layernorm", width, bias=False)
        for part, outputs in (("q", queries), ("k", shared), ("v", shared)):
            tensors |= _linear(f"{at}self_attn.{part}_proj", width, outputs, config, bias)
        tensors |= _linear(at + "self_attn.o_proj", queries, width, config, bias)
        tensors |= _norm(at + "post_attention_layernorm", width, bias=False)
        for part in ("gate", "up"):
            tensors |= _linear(f"{at}mlp.{part}_proj", width, inner, config, inner_bias)
        tensors |= _linear(at + "mlp.down_proj", inner, width, config, inner_bias)
    return tensors | _norm("norm", width, bias=False)


def _untied(config: TransformersConfig) -> TensorSpecs:
    """Return the output projection, unless it is tied to the input embeddings."""
    width = config[FAMILIES[config["model_type"]].width]
    return {} if config["tie_word_embeddings"] else _linear("lm_head", width, config["vocab_size"], config, bias=False)


def _predictions(dense: str, norm: str, bias: str) -> Head:
    """Return a function for the tensors of a masked-language-modeling head whose projection is tied to the input."""

    def head(config: TransformersConfig) -> TensorSpecs:
        width, wide = config["hidden_size"], _wide(config)
        tensors = _linear(dense, width, wide, config) | _norm(norm, wide)
        return tensors | {bias: TensorSpec((config["vocab_size"],), "zeros")}

    return head


def _discriminator(config: TransformersConfig) -> TensorSpecs:
    width = config["hidden_size"]
    tensors = _linear("discriminator_predictions.dense", width, width, config)
    return tensors | _linear("discriminator_predictions.dense_prediction", width, 1, config)


def _generator(config: TransformersConfig) -> TensorSpecs:
    tensors = parameters(config[GENERATOR], "mlm")
    return {name_in_checkpoint(name): tensor for name, tensor in tensors.items() if not is_shared(name)}


def _scores(config: TransformersConfig, labels: int) -> TensorSpecs:
    return _linear("score", config[FAMILIES[config["model_type"]].width], labels, config, bias=False)


def _pooled(config: TransformersConfig, labels: int) -> TensorSpecs:
    width = config["hidden_size"]
    return _linear("bert.pooler.dense", width, width, config) | _linear("classifier", width, labels, config)


def _next_sentence(config: TransformersConfig) -> TensorSpecs:
    width = config["hidden_size"]
    pooler = _linear("bert.pooler.dense", width, width, config)
    return pooler | _linear("cls.seq_relationship", width, NEXT_SENTENCE_LABELS, config)


def _classifier(config: TransformersConfig, labels: int) -> TensorSpecs:
    width = config["hidden_size"]
    return _linear("classifier.dense", width, width, config) | _linear("classifier.out_proj", width, labels, config)


_PREDICTIONS: dict[str, Head] = {
    "gpt2": _untied,
    "llama": _untied,
    "bert": _predictions(
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
    ),
    "roberta": _predictions("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "electra": _predictions("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
}
_SEQUENCES = {"gpt2": _scores, "llama": _scores, "bert": _pooled, "roberta": _classifier, "electra": _classifier}
