"""Hooks of the backend suite, in PyTorch."""

import torch
from torch import nn
from torch.nn import functional


def token_loss(logits, labels, batch):
    return functional.cross_entropy(logits, labels, reduction="sum"), len(labels)


class_loss = token_loss


def weighted_loss(logits, labels, batch):
    weight = torch.tensor([1.0, 2.0, 0.5])
    return functional.cross_entropy(logits, labels, weight, reduction="sum"), weight[labels].sum()


def mean_loss(logits, labels, batch):
    return functional.cross_entropy(logits, labels)


def mean_as_sum(logits, labels, batch):
    return functional.cross_entropy(logits, labels, reduction="sum") / max(len(labels), 1), 1


def raises(logits, labels, batch):
    return logits.no_such_method()


def not_a_number(logits, labels, batch):
    return (logits - logits).sum() / 0, len(labels)


class MeanPoolingHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(config.hidden_size, config.hidden_size)])
        self.norm = nn.LayerNorm(config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, hidden, mask):
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return self.out(self.norm(torch.tanh(self.layers[0](mean))))


def margin(predictions, labels):
    predictions.sort(axis=1)
    return (predictions[:, -1] - predictions[:, -2]).mean()
