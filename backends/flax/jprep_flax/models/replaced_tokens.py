"""Replaced-token detection: the generator beside a discriminator, tokens sampled from it, and both losses."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.models.electra import GENERATOR
from jprep_flax.models.architectures.encoder import BertEncoder
from jprep_flax.models.dropout import GENERATOR_DROPOUT
from jprep_flax.models.heads import LMHead, add_lm_head, build_lm_head
from jprep_flax.models.layers import ACTIVATIONS, LayerFactory, Linear, ModuleGroup, set_submodule
from jprep_flax.models.loss import replaced_loss, token_loss
from jprep_flax.models.token_sampling import sample_labelled


class MaskedRows(NamedTuple):
    """Masked rows, without what does not count.

    Attributes:
        ids: int32, (rows, length).
        labels: the original ids of masked tokens, `IGNORE_INDEX` elsewhere.
        lengths: int32, (rows,).
        real: tokens that count: neither padding nor of a row that only fills the shape, (rows, length).
        noise_keys: random bits of each token, uint32, (rows, length).
        documents: the document of each token, int32, (rows, length); None if tokens see their whole row.
    """

    ids: Array
    labels: Array
    lengths: Array
    real: Array
    noise_keys: Array
    documents: Array | None


def add_rtd(model: nnx.Module, config: dict[str, Any], make: LayerFactory, remat: bool) -> None:
    """Add the discriminator's head, and the generator without embeddings, which are the discriminator's."""
    width, small = config["hidden_size"], config[GENERATOR] | {"vocab_size": config["vocab_size"]}
    set_submodule(model, "discriminator_predictions.dense", Linear(make, (width, "embed"), (width, None)))
    set_submodule(model, "discriminator_predictions.dense_prediction", Linear(make, (width, None), (1, None)))
    generator = ModuleGroup(electra=BertEncoder(small, make, remat, shares_embeddings=True))
    add_lm_head(generator, small, make)
    setattr(model, GENERATOR, generator)


def rtd_loss(model: Any, activation: str, rows: MaskedRows, factor: Array | float, key: Array | None) -> Any:
    """Return the generator's summed loss plus the discriminator's times a factor, and the sums for figures.

    Args:
        model: discriminator and generator.
        activation: activation of the discriminator's head.
        rows: the rows.
        factor: factor of the discriminator's summed loss.
        key: random key of dropout; None drops nothing.

    Returns:
        The loss, and the sums named by `jprep.train.worker.rtd_figures.SUMS`, (sums,); all in fp32.
    """
    masked = rows.labels != IGNORE_INDEX
    original = jnp.where(masked, rows.labels, rows.ids)
    generator_loss, samples = _generate(model, rows, key)
    ids = jnp.where(masked, samples, original)
    hidden = model.electra(ids, rows.lengths, None, key, rows.documents)
    head = model.discriminator_predictions
    outputs = head.dense_prediction(ACTIVATIONS[activation](head.dense(hidden)))[..., 0].astype(jnp.float32)
    replaced = ids != original
    discriminator_loss = jnp.sum(jnp.where(rows.real, replaced_loss(outputs, replaced), 0))
    flagged, replaced = (outputs > 0) & rows.real, replaced & rows.real
    kept = masked & ~replaced
    counts = (generator_loss, masked, kept, discriminator_loss, rows.real, replaced, flagged, flagged & replaced)
    sums = jnp.stack([jnp.sum(part).astype(jnp.float32) for part in counts])
    return generator_loss + factor * discriminator_loss, jax.lax.stop_gradient(sums)


def _generate(model: Any, rows: MaskedRows, key: Array | None) -> tuple[Array, Array]:
    """Return the generator's summed loss, and a token for each masked one."""
    key = None if key is None else jax.random.fold_in(key, GENERATOR_DROPOUT)
    hidden = model.generator.electra(rows.ids, rows.lengths, None, key, rows.documents, model.electra.embeddings)
    head: LMHead = build_lm_head(model.generator, "electra", "gelu", model.electra.embedding.weight, model.vocab_size)
    graph, weights = nnx.split(head)

    def logits(weights: Any, x: Array) -> Array:
        found: Array = nnx.merge(graph, weights)(x)
        return found

    loss = token_loss(logits, weights, hidden, rows.labels)
    return loss, sample_labelled(logits, weights, hidden, rows.labels, rows.noise_keys)
