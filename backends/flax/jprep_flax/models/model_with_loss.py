"""A job's model as one module: rows in, the sum of their losses out."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.train.models.weights import BASE_PREFIXES
from jprep_flax.models import build_base_model
from jprep_flax.models.heads import CAUSAL, LMHead, add_classifier, add_lm_head, build_lm_head, classify
from jprep_flax.models.layers import LayerFactory
from jprep_flax.worker.loss import NO_LABEL, class_loss, score_loss, token_loss


class ModelInputs(NamedTuple):
    """Some rows, on the device.

    Attributes:
        ids: int32, (rows, length).
        labels: int32, (rows, length), `NO_LABEL` where there is none; or classes, int32, or scores, float32, (rows,).
        lengths: int32, (rows,).
        types: token types, int32, (rows, length); None where the model has none.
        weight: float32, (rows,): 1 for a row that counts, 0 for one that only fills a shape up.
    """

    ids: Array
    labels: Array
    lengths: Array
    types: Array | None
    weight: Array


class ModelWithLoss(nnx.Module):
    """A model and its loss. Its weights' paths are transformers' names without the numbers of layers.

    Args:
        config: transformers' whole config.
        task: `clm`, `mlm`, `classify` or `regress`.
        dtype: the arithmetic's.
        remat: whether what a layer computes is computed again on the way back, and not kept.
        vocab: rows of the tables of ids, if there are to be more than ids; those take no part in the softmax.
        rngs: not used: weights are zeros until `weights.load`. Make it under `nnx.eval_shape`.
    """

    def __init__(
        self, config: dict[str, Any], task: str, *, dtype: Any, remat: bool = False, vocab: int = 0, rngs: nnx.Rngs
    ) -> None:
        make, self.task, self.kind, self.dtype = LayerFactory(dtype), task, config["model_type"], dtype
        self.ids, config = config["vocab_size"], config | {"vocab_size": vocab or config["vocab_size"]}
        self.base = BASE_PREFIXES[self.kind].rstrip(".")
        setattr(self, self.base, build_base_model(config, make, remat))
        (add_lm_head if task in ("clm", "mlm") else add_classifier)(self, config, make)
        self.activation, share = config.get("hidden_act", ""), config.get("classifier_dropout")
        self.share = config.get("hidden_dropout_prob", 0.0) if share is None else share

    def __call__(self, rows: ModelInputs, key: Array | None = None) -> tuple[Array, Array]:
        """The sum of the rows' losses, and of `classify` and `regress` the outputs, (rows, labels); both fp32.

        Args:
            rows: the rows.
            key: of dropout; without one nothing is dropped.
        """
        hidden = self.body(rows.ids, rows.lengths, rows.types, key)
        if self.task in ("clm", "mlm"):
            return self._tokens(hidden, rows), jnp.zeros(0)
        outputs = self.judged(hidden, rows.lengths, key)
        return (class_loss if self.task == "classify" else score_loss)(outputs, rows.labels, rows.weight), outputs

    @property
    def body(self) -> Any:
        """The part that all tasks share."""
        return getattr(self, self.base)

    @property
    def predictor(self) -> LMHead:
        """From vectors to logits of tokens."""
        return build_lm_head(self, self.kind, self.activation, self.body.table.weight, self.ids)

    def judged(self, hidden: Array, lengths: Array, key: Array | None = None) -> Array:
        """Outputs, (rows, labels), in fp32."""
        place = jnp.maximum(lengths - 1, 0) if self.kind in CAUSAL else jnp.zeros_like(lengths)
        chosen = jnp.take_along_axis(hidden, place[:, None, None], axis=1)[:, 0]
        return classify(self, self.kind, chosen, self.share, key).astype(jnp.float32)

    def _tokens(self, hidden: Array, rows: ModelInputs) -> Array:
        labels = jnp.where(rows.weight[:, None] > 0, rows.labels, NO_LABEL)
        if self.task == "clm":  # each token's label is the next one
            labels = jnp.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=NO_LABEL)
        graph, weights = nnx.split(self.predictor)
        return token_loss(lambda own, x: nnx.merge(graph, own)(x), weights, hidden, labels)
