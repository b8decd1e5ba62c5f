"""What stands on a body: the way to logits of tokens, or to classes and scores."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep_flax.models.layers import (
    ACTIVATIONS,
    HEAD_DROPOUT,
    LayerFactory,
    LayerNorm,
    Linear,
    dropout,
    matmul_weight,
    set_submodule,
)

CAUSAL = ("gpt2", "llama")

LM_HEAD_NAMES = {
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "electra": ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
}
"""`model_type` → the names of what lies before the words' vectors, and of the bias behind."""


class ClassifierHead(NamedTuple):
    """How a family judges rows.

    Attributes:
        out: the name of what makes outputs.
        dense: of what lies before it; "" for nothing.
        activation: behind that.
        bare: whether nothing is dropped before `dense`.
    """

    out: str
    dense: str = ""
    activation: str = "tanh"
    bare: bool = False


CLASSIFIER_HEADS = {
    "gpt2": ClassifierHead("score"),
    "llama": ClassifierHead("score"),
    "bert": ClassifierHead("classifier", "bert.pooler.dense", bare=True),
    "roberta": ClassifierHead("classifier.out_proj", "classifier.dense"),
    "electra": ClassifierHead("classifier.out_proj", "classifier.dense", "gelu"),
}


class LMHead(nnx.Module):
    """From vectors to logits of tokens.

    Args:
        table: the vectors of ids, (ids or more, width).
        ids: how many there are.
        before: what a vector goes through before.
        activation: between them.
        bias: (ids or more,).
    """

    def __init__(
        self, table: Any, ids: int, before: tuple[Any, Any] = (None, None), activation: str = "", bias: Any = None
    ) -> None:
        self.dense, self.norm = before
        self.table, self.bias, self.ids, self.activation = table, bias, ids, activation

    def __call__(self, x: Array) -> Array:
        """Of (…, width), (…, ids)."""
        if self.dense is not None:
            x = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        logits = matmul_weight(x, self.table[...], 1)
        logits = logits if self.bias is None else logits + self.bias[...].astype(x.dtype)
        if self.ids == logits.shape[-1]:
            return logits
        return jnp.where(jnp.arange(logits.shape[-1]) < self.ids, logits, jnp.finfo(x.dtype).min)


def add_lm_head(model: nnx.Module, config: dict[str, Any], make: LayerFactory) -> None:
    """Give a model the weights that its logits of tokens need beside its vectors of ids."""
    kind, ids = config["model_type"], config["vocab_size"]
    if kind not in CAUSAL:
        dense, norm, bias = LM_HEAD_NAMES[kind]
        width, narrow = config["hidden_size"], config.get("embedding_size", config["hidden_size"])
        set_submodule(model, dense, Linear(make, (width, "embed"), (narrow, None)))
        set_submodule(model, norm, LayerNorm(make, narrow, config["layer_norm_eps"]))
        set_submodule(model, bias, make.weight(ids, axes=("vocab",)))
    elif not config["tie_word_embeddings"]:
        width = config.get("n_embd") or config["hidden_size"]
        set_submodule(model, "lm_head", Linear(make, (width, "embed"), (ids, "vocab"), bias=False))


def build_lm_head(model: nnx.Module, kind: str, activation: str, table: Any, ids: int) -> LMHead:
    """A model's way to logits."""
    if kind in CAUSAL:
        return LMHead(model.lm_head.weight if hasattr(model, "lm_head") else table, ids)
    dense, norm, bias = attrgetter(*LM_HEAD_NAMES[kind])(model)
    return LMHead(table, ids, (dense, norm), activation if kind == "bert" else "gelu", bias)


def add_classifier(model: nnx.Module, config: dict[str, Any], make: LayerFactory) -> None:
    """Give a model the weights that its outputs need."""
    kind = config["model_type"]
    judge, width = CLASSIFIER_HEADS[kind], config.get("n_embd") or config["hidden_size"]
    if judge.dense:
        set_submodule(model, judge.dense, Linear(make, (width, "embed"), (width, None)))
    set_submodule(
        model, judge.out, Linear(make, (width, "embed"), (len(config["id2label"]), None), bias=kind not in CAUSAL)
    )


def classify(model: nnx.Module, kind: str, x: Array, share: float, key: Array | None) -> Array:
    """Outputs, (rows, labels), of one vector for each row."""
    judge = CLASSIFIER_HEADS[kind]
    if judge.dense:
        key = None if key is None else jax.random.fold_in(key, HEAD_DROPOUT)
        x = attrgetter(judge.dense)(model)(x if judge.bare else dropout(x, share, key, 0))
        x = dropout(jnp.tanh(x) if judge.activation == "tanh" else ACTIVATIONS[judge.activation](x), share, key, 1)
    found: Array = attrgetter(judge.out)(model)(x)
    return found
