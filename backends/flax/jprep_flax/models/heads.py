"""Output heads: from hidden states to logits of tokens, or to classes and scores."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.train.models.model_family import model_width
from jprep.train.models.next_sentence import NEXT_SENTENCE_LABELS
from jprep_flax.models.dropout import HEAD_DROPOUT, dropout
from jprep_flax.models.layers import ACTIVATIONS, LayerFactory, LayerNorm, Linear, matmul_weight, set_submodule

LM_HEAD_NAMES = {
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    "deberta-v2": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "modernbert": ("head.dense", "head.norm", "decoder.bias"),
    "electra": ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
}
"""`model_type` → names of the dense layer and the norm before the token embedding, and of the bias after it."""


OWN_ACTIVATION = ("bert", "modernbert", "deberta-v2")
"""Models whose config determines the activation of the head; others have `gelu`."""


class ClassifierHead(NamedTuple):
    """Structure of a model's head for `classify` and `regress`.

    Attributes:
        out: name of the layer that computes the outputs.
        dense: name of the layer before it; "" for none.
        activation: activation after `dense`.
        dropout_before_dense: whether dropout is applied before `dense`, besides after it.
        norm: name of the norm after the activation; "" for none.
    """

    out: str
    dense: str = ""
    activation: str = "tanh"
    dropout_before_dense: bool = True
    norm: str = ""


SCORE = ClassifierHead("score")
"""That of the models of plugins."""

CLASSIFIER_HEADS = {
    "gpt2": ClassifierHead("score"),
    "llama": ClassifierHead("score"),
    "qwen3": ClassifierHead("score"),
    "bert": ClassifierHead("classifier", "bert.pooler.dense", dropout_before_dense=False),
    "roberta": ClassifierHead("classifier.out_proj", "classifier.dense"),
    "electra": ClassifierHead("classifier.out_proj", "classifier.dense", "gelu"),
    "modernbert": ClassifierHead("classifier", "head.dense", "", dropout_before_dense=False, norm="head.norm"),
    "deberta-v2": ClassifierHead("classifier", "pooler.dense", ""),
}


class LMHead(nnx.Module):
    """Map hidden states to logits of tokens.

    Args:
        embedding: the token embedding, (vocabulary size or more, width).
        vocab_size: number of ids; rows of the embedding beyond it get the lowest logit.
        before: dense layer and norm before the embedding; (None, None) for none.
        activation: activation between the two.
        bias: (vocabulary size or more,).
    """

    def __init__(
        self,
        embedding: Any,
        vocab_size: int,
        before: tuple[Any, Any] = (None, None),
        activation: str = "",
        bias: Any = None,
    ) -> None:
        self.dense, self.norm = before
        self.embedding, self.bias, self.vocab_size, self.activation = embedding, bias, vocab_size, activation

    def __call__(self, x: Array) -> Array:
        """Map (…, width) to (…, rows of the embedding)."""
        if self.dense is not None:
            x = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        logits = matmul_weight(x, self.embedding[...], 1)
        logits = logits if self.bias is None else logits + self.bias[...].astype(x.dtype)
        if self.vocab_size == logits.shape[-1]:
            return logits
        return jnp.where(jnp.arange(logits.shape[-1]) < self.vocab_size, logits, jnp.finfo(x.dtype).min)


def add_lm_head(model: nnx.Module, config: dict[str, Any], make: LayerFactory) -> None:
    """Add the weights that the language model head needs besides the token embedding."""
    model_type, rows = config["model_type"], config["vocab_size"]
    if model_type in LM_HEAD_NAMES:
        dense, norm, bias = LM_HEAD_NAMES[model_type]
        width, embedding_width = config["hidden_size"], config.get("embedding_size", config["hidden_size"])
        _add_dense(model, dense, norm, config, make, embedding_width)
        if config.get("decoder_bias", True):
            set_submodule(model, bias, make.weight(rows, axes=("vocab",)))
    elif not config["tie_word_embeddings"]:
        width = model_width(config)
        set_submodule(model, "lm_head", Linear(make, (width, "embed"), (rows, "vocab"), bias=False))


def _add_dense(
    model: nnx.Module, dense: str, norm: str, config: dict[str, Any], make: LayerFactory, outputs: int
) -> None:
    """Add a dense layer and, unless its name is "", the norm after it."""
    inputs, bias = (config["hidden_size"], "embed"), config.get("classifier_bias", True)
    set_submodule(model, dense, Linear(make, inputs, (outputs, None), bias=bias))
    if norm:
        epsilon = config.get("layer_norm_eps") or config["norm_eps"]
        set_submodule(model, norm, LayerNorm(make, outputs, epsilon, config.get("norm_bias", True)))


def build_lm_head(model: nnx.Module, model_type: str, activation: str, embedding: Any, vocab_size: int) -> LMHead:
    """Return a model's language model head, made of its weights."""
    if model_type not in LM_HEAD_NAMES:
        return LMHead(model.lm_head.weight if hasattr(model, "lm_head") else embedding, vocab_size)
    names = LM_HEAD_NAMES[model_type]
    dense, norm = attrgetter(*names[:2])(model)
    bias = attrgetter(names[2])(model) if hasattr(model, names[2].partition(".")[0]) else None
    return LMHead(embedding, vocab_size, (dense, norm), activation if model_type in OWN_ACTIVATION else "gelu", bias)


def add_classifier(model: nnx.Module, config: dict[str, Any], make: LayerFactory) -> None:
    """Add the weights of the head for `classify` and `regress`."""
    model_type = config["model_type"]
    head, width = CLASSIFIER_HEADS.get(model_type, SCORE), model_width(config)
    outputs, bias = len(config["id2label"]), head.out != SCORE.out
    if head.dense:
        _add_dense(model, head.dense, head.norm, config, make, width)
    set_submodule(model, head.out, Linear(make, (width, "embed"), (outputs, None), bias=bias))


def add_next_sentence_head(model: nnx.Module, config: dict[str, Any], make: LayerFactory) -> None:
    """Add the weights of BERT's next-sentence head."""
    width = config["hidden_size"]
    set_submodule(model, "bert.pooler.dense", Linear(make, (width, "embed"), (width, None)))
    set_submodule(model, "cls.seq_relationship", Linear(make, (width, "embed"), (NEXT_SENTENCE_LABELS, None)))


def next_sentence_logits(model: Any, x: Array) -> Array:
    """Return the logits of both classes, (rows, 2), from the hidden state of each row's first token, (rows, width)."""
    logits: Array = model.cls.seq_relationship(jnp.tanh(model.bert.pooler.dense(x)))
    return logits


def classify(
    model: nnx.Module,
    model_type: str,
    x: Array,
    dropout_rates: tuple[float, float],
    key: Array | None,
    activation: str = "",
) -> Array:
    """Return the outputs of one hidden state for each row, (rows, labels).

    Args:
        model: the model with its head.
        model_type: the kind of model.
        x: (rows, width).
        dropout_rates: before the layer before the outputs, and after it.
        key: random key of dropout; None drops nothing.
        activation: that of the head, where the config determines it.
    """
    head = CLASSIFIER_HEADS.get(model_type, SCORE)
    if head.dense:
        key = None if key is None else jax.random.fold_in(key, HEAD_DROPOUT)
        x = dropout(x, dropout_rates[0], key, 0) if head.dropout_before_dense else x
        x = attrgetter(head.dense)(model)(x)
        x = jnp.tanh(x) if head.activation == "tanh" else ACTIVATIONS[head.activation or activation](x)
        x = attrgetter(head.norm)(model)(x) if head.norm else x
        x = dropout(x, dropout_rates[1], key, 1)
    outputs: Array = attrgetter(head.out)(model)(x)
    return outputs
