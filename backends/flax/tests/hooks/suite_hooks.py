"""Hooks of the backend suite, in JAX and Flax."""

import jax
import jax.numpy as jnp
from flax import nnx


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]


def token_loss(logits, labels, batch):
    return (cross_entropy(logits, labels) * batch.label_mask).sum(), batch.label_mask.sum()


class_loss = token_loss


def weighted_loss(logits, labels, batch):
    weight = jnp.array([1.0, 2.0, 0.5])[labels] * batch.label_mask
    return (cross_entropy(logits, labels) * weight).sum(), weight.sum()


def mean_loss(logits, labels, batch):
    return cross_entropy(logits, labels).mean()


def mean_as_sum(logits, labels, batch):
    return (cross_entropy(logits, labels) * batch.label_mask).sum() / batch.label_mask.sum(), 1


def raises(logits, labels, batch):
    return logits.no_such_method()


def not_a_number(logits, labels, batch):
    return (logits - logits).sum() / 0, batch.label_mask.sum()


def ignores_the_mask(logits, labels, batch):
    return cross_entropy(logits, labels).sum(), len(labels)


class MeanPoolingHead(nnx.Module):
    def __init__(self, config, rngs):
        self.layers = nnx.List([nnx.Linear(config.hidden_size, config.hidden_size, rngs=rngs)])
        self.norm = nnx.LayerNorm(config.hidden_size, rngs=rngs)
        self.out = nnx.Linear(config.hidden_size, config.num_labels, rngs=rngs)

    def __call__(self, hidden, mask, key):
        weights = mask[..., None]
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return self.out(self.norm(jnp.tanh(self.layers[0](mean))))


def margin(predictions, labels):
    predictions.sort(axis=1)
    return (predictions[:, -1] - predictions[:, -2]).mean()
