"""Try a user's loss and head on tiny tensors, before anything is trained (`jprep.train.hooks.check`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from jprep.train.hooks.check import check_traced_loss, sample_labels
from jprep.train.hooks.loading import Hook, LoadedHooks
from jprep.train.models.model_family import model_width
from jprep_keras.engines import compile_function, compile_gradient
from jprep_keras.models.custom_head import SAMPLE_LENGTH, SAMPLE_ROWS, CustomHead
from jprep_keras.models.custom_loss import LossBatch, call_loss

Program = Callable[..., Any]
"""A function that was compiled, or made from one."""


def check_hooks(hooks: LoadedHooks, model: dict[str, Any], task: str) -> dict[str, tuple[int, ...]] | None:
    """Call the loss and the head once; see `jprep.train.hooks.check.FrameworkCheck`."""
    if hooks.loss:
        _check_loss(hooks.loss, model, task)
    return _check_head(hooks.head, model) if hooks.head else None


def _check_loss(hook: Hook, model: dict[str, Any], task: str) -> None:
    def loss(logits: Any, labels: Any, mask: Any) -> tuple[Any, Any]:
        ids = ops.zeros((labels.shape[0], SAMPLE_LENGTH), "int32")
        return call_loss(hook, logits, labels, LossBatch(ids, ops.ones_like(ids), None, mask))

    def with_numpy(program: Program) -> Program:
        return lambda *given: tuple(map(ops.convert_to_numpy, program(*map(ops.convert_to_tensor, given))))

    labels = sample_labels(model, task)
    if task != "regress":
        labels = labels._replace(labels=labels.labels.astype(np.int32))
    check_traced_loss(hook, labels, with_numpy(compile_function(loss)), with_numpy(compile_gradient(loss)))


class _RecordedReads(keras.StatelessScope):
    """A context that records which variables are read.

    Attributes:
        read: the ids of these variables.
    """

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()

    def get_current_value(self, variable: Any) -> Any:
        """Return None: the variable's own value is used."""
        self.read.add(id(variable))
        return None


def _check_head(hook: Hook, model: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    head = CustomHead(hook, model)
    shape = SAMPLE_ROWS, SAMPLE_LENGTH, model_width(model)
    with _RecordedReads() as reads:
        outputs = compile_function(lambda hidden, mask: head(hidden, mask, training=True))
        outputs(ops.ones(shape), ops.ones(shape[:2], "int32"))
    for name, variable in head.variables.items():
        if id(variable) not in reads.read:
            raise hook.error(f"does not use its variable {name!r}", fix="use it in call, or remove it")
    return {name: tuple(variable.shape) for name, variable in head.variables.items()}
