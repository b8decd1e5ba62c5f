"""A user's own head on transformers' base model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from jprep.train.hooks.calls import check_head_outputs
from jprep.train.hooks.loading import Hook
from jprep_torch.models.custom_loss import TENSORS
from jprep_torch.models.plugin_model import recompute_layers


class ModelWithHead(nn.Module):
    """transformers' base model with a user's head, in place of a model for sequence classification.

    Args:
        model: transformers' model for sequence classification, whose base model is used.
        hook: the head's class.

    Attributes:
        base_model: transformers' base model.
        config: its config.
        head: the head.
    """

    def __init__(self, model: Any, hook: Hook) -> None:
        super().__init__()
        self.config, self._base_name = model.config, model.base_model_prefix
        setattr(self, self._base_name, model.base_model)
        if getattr(self.base_model, "pooler", None) is not None:  # a part of transformers' own head
            self.base_model.pooler = None
        self._hook = hook
        self.head = build_head(hook, model.config)

    @property
    def base_model(self) -> Any:
        """transformers' base model."""
        return getattr(self, self._base_name)

    def gradient_checkpointing_enable(self, settings: dict[str, Any]) -> None:
        """Keep only the inputs of layers for the backward pass."""
        if hasattr(self.base_model, "gradient_checkpointing_enable"):
            self.base_model.gradient_checkpointing_enable(settings)
        else:
            recompute_layers(self.base_model, settings)

    def outputs(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the head's outputs, (rows, labels).

        Args:
            hidden: hidden states of the last layer, (rows, length, width).
            mask: int64, (rows, length): 0 for padding.

        Raises:
            ConfigError: the head failed, or its outputs have another shape.
        """
        return call_head(self._hook, self.head, hidden, mask, self.config.num_labels)


def build_head(hook: Hook, config: Any) -> nn.Module:
    """Return a head.

    Args:
        hook: its class.
        config: transformers' config of the model.

    Raises:
        ConfigError: it cannot be created, is not a module, or has a state that checkpoints do not hold.
    """
    head = hook(config)
    if not isinstance(head, nn.Module):
        raise hook.error(f"created {type(head).__name__}: it must be a class derived from torch.nn.Module")
    saved = head.state_dict(keep_vars=True)
    if buffers := sorted(name for name, value in saved.items() if not isinstance(value, nn.Parameter)):
        fix = "use a parameter, or register_buffer(…, persistent=False) for a constant"
        raise hook.error(f"has the buffer {buffers[0]!r}, and checkpoints hold parameters only", fix=fix)
    for name, weight in head.named_parameters():
        if not weight.requires_grad:
            raise hook.error(f"has the parameter {name!r} without a gradient", fix="use a persistent=False buffer")
        if weight.dtype != torch.float32:
            raise hook.error(f"has the parameter {name!r} in {weight.dtype}", fix="create it in float32")
    return head


def call_head(hook: Hook, head: nn.Module, hidden: Tensor, mask: Tensor, labels: int) -> Tensor:
    """Return the outputs of a head, (rows, labels).

    Args:
        hook: its class.
        head: the head.
        hidden: hidden states of the last layer, (rows, length, width).
        mask: int64, (rows, length): 0 for padding.
        labels: number of labels.

    Raises:
        ConfigError: it failed, or its outputs have another shape.
    """
    with hook.errors():
        found = head(hidden, mask)
    check_head_outputs(hook, found, (len(hidden), labels), TENSORS)
    return found
