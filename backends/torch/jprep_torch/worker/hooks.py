"""Try a user's loss and head on tiny tensors, before anything is trained (`jprep.train.hooks.check`)."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from jprep.train.hooks.check import sample_labels
from jprep.train.hooks.loading import Hook, LoadedHooks
from jprep.train.models.registry import is_plugin_model
from jprep_torch.models.custom_head import build_head, call_head
from jprep_torch.models.custom_loss import LossBatch, call_loss
from jprep_torch.models.plugin_model import model_settings

_LENGTH = 4


def check_hooks(hooks: LoadedHooks, model: dict[str, Any], task: str) -> dict[str, tuple[int, ...]] | None:
    """Call the loss and the head once; see `jprep.train.hooks.check.FrameworkCheck`."""
    if hooks.loss:
        _check_loss(hooks.loss, model, task)
    return _check_head(hooks.head, model) if hooks.head else None


def _check_loss(hook: Hook, model: dict[str, Any], task: str) -> None:
    numbers, given = sample_labels(model, task)
    logits, labels = torch.from_numpy(numbers).requires_grad_(), torch.from_numpy(given)
    for rows in (len(labels), 0):  # a process can have no row of the last batch of a split
        total, count = call_loss(hook, logits[:rows], labels[:rows], _batch(rows))
        if not torch.isfinite(total) or not torch.isfinite(count):
            total = total.detach()
            raise hook.error(f"returned the loss {float(total)} and the count {float(count)} for {rows} finite logits")
    total, _ = call_loss(hook, logits, labels, _batch(len(labels)))
    [gradient] = torch.autograd.grad(total, logits)
    if not torch.isfinite(gradient).all():
        raise hook.error("has a gradient that is not finite")


def _check_head(hook: Hook, model: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    config = model_settings(model) if is_plugin_model(model) else transformers.AutoConfig.for_model(**model)
    head = build_head(hook, config).eval()
    hidden, mask = torch.ones(2, _LENGTH, config.hidden_size, requires_grad=True), torch.ones(2, _LENGTH).long()
    outputs = call_head(hook, head, hidden, mask, config.num_labels)
    weights = dict(head.named_parameters())
    if not outputs.requires_grad:
        raise hook.error("returned outputs without a gradient", fix="compute them from the hidden states")
    gradients = torch.autograd.grad(outputs.sum(), list(weights.values()), allow_unused=True)
    for name, gradient in zip(weights, gradients, strict=True):
        if gradient is None:
            raise hook.error(f"does not use its parameter {name!r}", fix="use it in forward, or remove it")
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def _batch(labels: int) -> LossBatch:
    ids = torch.zeros(max(labels, 1), _LENGTH, dtype=torch.int64)
    return LossBatch(ids, torch.ones_like(ids), None, torch.ones(labels, dtype=torch.bool))
