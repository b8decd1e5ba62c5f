"""Tensors of the heads of each task."""

from __future__ import annotations

from collections.abc import Callable

from jprep.train.models.next_sentence import NEXT_SENTENCE_LABELS
from jprep.train.models.presets import FAMILIES, TransformersConfig
from jprep.train.models.weights.encoders import embedding_width
from jprep.train.models.weights.specs import TensorSpec, TensorSpecs, linear, norm, residual

Head = Callable[[TransformersConfig], TensorSpecs]
SequenceHead = Callable[[TransformersConfig, int], TensorSpecs]


def untied(config: TransformersConfig) -> TensorSpecs:
    """Return the output projection, unless it is tied to the input embeddings."""
    width = config[FAMILIES[config["model_type"]].width]
    return {} if config["tie_word_embeddings"] else linear("lm_head", width, config["vocab_size"], config, bias=False)


def _predictions(dense: str, scale: str, bias: str) -> Head:
    """Return a function for the tensors of a masked-language-modeling head whose projection is tied to the input."""

    def head(config: TransformersConfig) -> TensorSpecs:
        width, wide = config["hidden_size"], embedding_width(config)
        tensors = linear(dense, width, wide, config) | norm(scale, wide)
        return tensors | {bias: TensorSpec((config["vocab_size"],), "zeros")}

    return head


def discriminator_head(config: TransformersConfig) -> TensorSpecs:
    """Return the head of ELECTRA's discriminator."""
    width = config["hidden_size"]
    tensors = linear("discriminator_predictions.dense", width, width, config)
    return tensors | linear("discriminator_predictions.dense_prediction", width, 1, config)


def scores(config: TransformersConfig, labels: int) -> TensorSpecs:
    """Return the layer that classifies one hidden state."""
    return linear("score", config[FAMILIES[config["model_type"]].width], labels, config, bias=False)


def _pooled(config: TransformersConfig, labels: int) -> TensorSpecs:
    width = config["hidden_size"]
    return linear("bert.pooler.dense", width, width, config) | linear("classifier", width, labels, config)


def next_sentence_head(config: TransformersConfig) -> TensorSpecs:
    """Return BERT's next-sentence head, with its pooler."""
    width = config["hidden_size"]
    pooler = linear("bert.pooler.dense", width, width, config)
    return pooler | linear("cls.seq_relationship", width, NEXT_SENTENCE_LABELS, config)


def _classifier(config: TransformersConfig, labels: int) -> TensorSpecs:
    width = config["hidden_size"]
    return linear("classifier.dense", width, width, config) | linear("classifier.out_proj", width, labels, config)


def _modernbert_dense(config: TransformersConfig) -> TensorSpecs:
    width = config["hidden_size"]
    dense = residual(linear("head.dense", width, width, config, config["classifier_bias"]), config)
    return dense | norm("head.norm", width, config["norm_bias"])


def _modernbert(config: TransformersConfig) -> TensorSpecs:
    bias = {"decoder.bias": TensorSpec((config["vocab_size"],), "zeros")} if config["decoder_bias"] else {}
    return _modernbert_dense(config) | bias


def _modernbert_classifier(config: TransformersConfig, labels: int) -> TensorSpecs:
    width = config["hidden_size"]
    last = linear("classifier", width, labels, config | {"initializer_range": width**-0.5})
    return _modernbert_dense(config) | last


def _deberta_classifier(config: TransformersConfig, labels: int) -> TensorSpecs:
    width = config["hidden_size"]
    return linear("pooler.dense", width, width, config) | linear("classifier", width, labels, config)


_BERT_PREDICTIONS = _predictions(
    "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
)

PREDICTIONS: dict[str, Head] = {
    "gpt2": untied,
    "llama": untied,
    "qwen3": untied,
    "qwen3_moe": untied,
    "bert": _BERT_PREDICTIONS,
    "deberta-v2": _BERT_PREDICTIONS,
    "roberta": _predictions("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "modernbert": _modernbert,
    "electra": _predictions("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
}
"""`model_type` → the tensors of its head for `clm` or `mlm`."""

SEQUENCES: dict[str, SequenceHead] = {
    "gpt2": scores,
    "llama": scores,
    "qwen3": scores,
    "qwen3_moe": scores,
    "bert": _pooled,
    "roberta": _classifier,
    "electra": _classifier,
    "modernbert": _modernbert_classifier,
    "deberta-v2": _deberta_classifier,
}
"""`model_type` → the tensors of its head for `classify` and `regress`, given the number of labels."""
