"""A job's model and its loss as one module: inputs in, the sum of their losses out."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.models import FAMILIES
from jprep.train.models.next_sentence import has_next_sentence_head
from jprep.train.models.weights import base_prefix
from jprep_flax.models.architectures import build_base_model
from jprep_flax.models.attention import padding_mask
from jprep_flax.models.custom_head import build_head, call_head
from jprep_flax.models.custom_loss import LossBatch, call_loss
from jprep_flax.models.heads import (
    LMHead,
    add_classifier,
    add_lm_head,
    add_next_sentence_head,
    build_lm_head,
    classify,
    next_sentence_logits,
)
from jprep_flax.models.layers import LayerFactory
from jprep_flax.models.loss import class_loss, score_loss, token_loss
from jprep_flax.models.replaced_tokens import MaskedRows, add_rtd, rtd_loss


class ModelInputs(NamedTuple):
    """Rows of a batch, on the device.

    Attributes:
        ids: int32, (rows, length).
        labels: int32, (rows, length), `IGNORE_INDEX` where there is none; or classes, int32, or scores, float32,
            (rows,).
        lengths: int32, (rows,).
        types: token types, int32, (rows, length); None if the model has none.
        weight: float32, (rows,): how much a row counts: 1, or the weight of its class; 0 if it only fills the shape.
        noise_keys: random bits of each token, uint32, (rows, length), for `rtd`; else None.
        next_sentence: classes of sentence pairs, int32, (rows,); None for other rows.
        documents: the document of each token, int32, (rows, length): tokens see those of their own only; None if they
            see their whole row.
    """

    ids: Array
    labels: Array
    lengths: Array
    types: Array | None
    weight: Array
    noise_keys: Array | None = None
    next_sentence: Array | None = None
    documents: Array | None = None


class ModelWithLoss(nnx.Module):
    """A model and its loss. The paths of its weights are transformers' names without the numbers of layers.

    Args:
        config: the whole config of transformers.
        task: `clm`, `mlm`, `rtd`, `classify` or `regress`.
        dtype: type of the arithmetic.
        remat: whether to recompute the activations of each layer in the backward pass.
        vocab: rows of the token embedding, where there are more than ids; the others take no part in the softmax.
        z_loss: factor of the squared logarithm of the softmax's denominator in training; see docs/training.md.
        hooks: the job's hooks.
        rngs: only for a user's head: weights are zeros until they are loaded. Build it under `nnx.eval_shape`.
    """

    def __init__(
        self,
        config: dict[str, Any],
        task: str,
        *,
        dtype: Any,
        remat: bool = False,
        vocab: int = 0,
        z_loss: float = 0.0,
        hooks: LoadedHooks = NO_HOOKS,
        rngs: nnx.Rngs,
    ) -> None:
        self._loss_hook, self._head_hook, self.z_loss = hooks.loss, hooks.head, z_loss
        make, self.task, self.model_type, self.dtype = LayerFactory(dtype), task, config["model_type"], dtype
        self.vocab_size, config = config["vocab_size"], config | {"vocab_size": vocab or config["vocab_size"]}
        self.base_name = base_prefix(self.model_type).rstrip(".")
        setattr(self, self.base_name, build_base_model(config, make, remat))
        if hooks.head:
            self.head, self.labels = build_head(hooks.head, config, rngs), len(config["id2label"])
        elif task == "rtd":
            add_rtd(self, config, make, remat)
        else:
            (add_lm_head if task in ("clm", "mlm") else add_classifier)(self, config, make)
        if has_next_sentence_head(config):
            add_next_sentence_head(self, config, make)
        self.activation = config.get("hidden_act") or config.get("classifier_activation", "")
        self.pools_mean = config.get("classifier_pooling") == "mean"
        self.head_activation = config.get("pooler_hidden_act", self.activation)
        rate = next((config[key] for key in ("classifier_dropout", "cls_dropout") if config.get(key) is not None), None)
        after = config.get("hidden_dropout_prob", 0.0) if rate is None else rate
        self.dropout_rates = config.get("pooler_dropout", after), after

    def __call__(
        self, inputs: ModelInputs, key: Array | None = None, discriminator_factor: Array | float = 1.0
    ) -> tuple[Array, Array, Array | None]:
        """Return the sum of the losses, the outputs of rows, (rows, labels), and a loss hook's count; all fp32.

        Outputs are those of `classify` and `regress`, and of the next-sentence head, whose loss is not in the sum: it
        is divided by the number of rows, not of labels. The count is a number; None without a hook: labels are counted.

        The outputs of `rtd` are the sums named by `jprep.train.worker.rtd_figures.SUMS`, (sums,).

        Args:
            inputs: the rows.
            key: random key of dropout in training; None drops nothing and leaves the z-loss out.
            discriminator_factor: factor of the discriminator's summed loss, for `rtd`.
        """
        if self.task == "rtd":
            found: tuple[Array, Array] = rtd_loss(self, self.activation, masked_rows(inputs), discriminator_factor, key)
            return *found, None
        hidden = self.base_model(inputs.ids, inputs.lengths, inputs.types, key, inputs.documents)
        if self.task in ("clm", "mlm"):
            pairs = inputs.next_sentence is not None
            outputs = next_sentence_logits(self, hidden[:, 0]).astype(jnp.float32) if pairs else jnp.zeros(0)
            loss, count = self._token_loss(hidden, inputs, self.z_loss if key is not None else 0.0)
            return loss, outputs, count
        outputs = self.classify(hidden, inputs.lengths, key)
        if self._loss_hook:
            known = inputs.weight > 0
            loss, count = call_loss(self._loss_hook, outputs, inputs.labels, _loss_batch(inputs, known))
            return loss, outputs, count
        builtin = class_loss if self.task == "classify" else score_loss
        return builtin(outputs, inputs.labels, inputs.weight), outputs, None

    @property
    def base_model(self) -> Any:
        """The model without its head."""
        return getattr(self, self.base_name)

    @property
    def lm_logits(self) -> LMHead:
        """The language model head."""
        return build_lm_head(self, self.model_type, self.activation, self.base_model.embedding.weight, self.vocab_size)

    def classify(self, hidden: Array, lengths: Array, key: Array | None = None) -> Array:
        """Return the outputs for `classify` and `regress`, (rows, labels), in fp32.

        The first token of a row decides, or the mean of all; for causal models, which see only earlier tokens, the
        last one.
        """
        if self._head_hook:
            mask = _token_mask(hidden.shape[1], lengths)
            return call_head(self._head_hook, self.head, hidden, mask, self.labels, key)
        pooled = self._pooled(hidden, lengths)
        outputs = classify(self, self.model_type, pooled, self.dropout_rates, key, self.head_activation)
        return outputs.astype(jnp.float32)

    def _pooled(self, hidden: Array, lengths: Array) -> Array:
        """Return the hidden state that the head classifies, (rows, width)."""
        if self.pools_mean:
            real = padding_mask(lengths, hidden.shape[1])[:, 0, :, None]
            return (hidden * real).sum(1) / jnp.maximum(lengths, 1)[:, None].astype(hidden.dtype)
        position = jnp.maximum(lengths - 1, 0) if FAMILIES[self.model_type].causal else jnp.zeros_like(lengths)
        return jnp.take_along_axis(hidden, position[:, None, None], axis=1)[:, 0]

    def _token_loss(self, hidden: Array, inputs: ModelInputs, z_loss: float) -> tuple[Array, Array | None]:
        labels = counted_labels(inputs)
        if self.task == "clm":  # the label of a token is the next token
            labels = jnp.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=IGNORE_INDEX)
        if self._loss_hook:
            known, logits = labels != IGNORE_INDEX, self.lm_logits(hidden)[..., : self.vocab_size].astype(jnp.float32)
            return call_loss(self._loss_hook, logits, jnp.where(known, labels, 0), _loss_batch(inputs, known))
        graph, weights = nnx.split(self.lm_logits)
        return token_loss(lambda weights, x: nnx.merge(graph, weights)(x), weights, hidden, labels, z_loss), None


def _loss_batch(inputs: ModelInputs, known: Array) -> LossBatch:
    return LossBatch(inputs.ids, _token_mask(inputs.ids.shape[1], inputs.lengths), inputs.types, known)


def _token_mask(length: int, lengths: Array) -> Array:
    """Return 1 for tokens and 0 for padding, int32, (rows, length)."""
    return (jnp.arange(length) < lengths[:, None]).astype(jnp.int32)


def counted_labels(inputs: ModelInputs) -> Array:
    """Return the labels of tokens, without those of rows that only fill the shape."""
    return jnp.where(inputs.weight[:, None] > 0, inputs.labels, IGNORE_INDEX)


def masked_rows(inputs: ModelInputs) -> MaskedRows:
    """Return rows for replaced-token detection."""
    assert inputs.noise_keys is not None
    real = padding_mask(inputs.lengths, inputs.ids.shape[1])[:, 0] & (inputs.weight[:, None] > 0)
    return MaskedRows(inputs.ids, counted_labels(inputs), inputs.lengths, real, inputs.noise_keys, inputs.documents)
