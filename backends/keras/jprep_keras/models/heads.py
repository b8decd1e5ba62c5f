"""Output heads: from hidden states to logits of tokens, or to classes and scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import keras_hub

from jprep.train.models import FAMILIES
from jprep.train.models.next_sentence import NEXT_SENTENCE_LABELS
from jprep_keras.models.backbones import ACTIVATIONS

CAUSAL = ("gpt2", "llama")


class ClassifierHead(NamedTuple):
    """The head for `classify` and `regress`.

    Attributes:
        dense: the layer before `out`; None if the model has none, or has it in the backbone.
        out: the layer that computes the outputs.
        before, after: dropout before and after `dense`.
    """

    dense: keras.layers.Dense | None
    out: keras.layers.Dense
    before: keras.layers.Dropout
    after: keras.layers.Dropout

    def __call__(self, x: Any, training: bool) -> Any:
        """Map one hidden state for each row, (rows, width), to outputs, (rows, labels)."""
        if self.dense is not None:
            x = self.dense(self.before(x, training=training))
        return self.out(self.after(x, training=training))

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """All layers."""
        return [layer for layer in self if layer is not None]


def build_lm_head(backbone: keras.Model, config: dict[str, Any], dtype: str) -> keras.layers.Layer | None:
    """Return the layers between hidden states and the token embedding's logits; None for causal models."""
    model_type = config["model_type"]
    if model_type in CAUSAL:
        return None
    activation = config["hidden_act"] if model_type == "bert" else "gelu"
    head = keras_hub.layers.MaskedLMHead(
        vocabulary_size=config["vocab_size"],
        token_embedding=backbone.token_embedding,
        intermediate_activation=ACTIVATIONS[activation],
        layer_norm_epsilon=config["layer_norm_eps"],
        dtype=dtype,
        name="mlm_head",
    )
    head.build((None, None, config["hidden_size"]))
    return head


def build_next_sentence_head(config: dict[str, Any], dtype: str) -> keras.layers.Dense:
    """Return BERT's next-sentence head, from the pooled hidden state to the logits of both classes."""
    head = keras.layers.Dense(NEXT_SENTENCE_LABELS, dtype=dtype, name="next_sentence")
    head.build((None, config["hidden_size"]))
    return head


def build_classifier(config: dict[str, Any], dtype: str) -> ClassifierHead:
    """Return the head for `classify` and `regress`. BERT's dense layer is the pooler of its backbone."""
    model_type, width = config["model_type"], config[FAMILIES[config["model_type"]].width]
    causal, rate = model_type in CAUSAL, config.get("classifier_dropout")
    rate = config.get("hidden_dropout_prob", 0.0) if rate is None else rate
    activation = keras.ops.tanh if model_type == "roberta" else ACTIVATIONS["gelu"]
    has_dense = model_type in ("roberta", "electra")
    dense = keras.layers.Dense(width, activation, dtype=dtype, name="dense") if has_dense else None
    out = keras.layers.Dense(len(config["id2label"]), use_bias=not causal, dtype=dtype, name="out")
    rate = 0.0 if causal else rate
    before, after = (keras.layers.Dropout(rate, dtype=dtype, name=name) for name in ("before", "after"))
    head = ClassifierHead(dense, out, before, after)
    for layer in head.layers:
        layer.build((None, width))
    return head
