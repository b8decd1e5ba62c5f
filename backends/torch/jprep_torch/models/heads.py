"""The language model heads of transformers' models, split before the last layer.

The loss multiplies by the last layer itself, a chunk of tokens at a time (`jprep_torch.models.loss`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

Head = Callable[[Any, Tensor], tuple[Tensor, nn.Linear]]
"""Maps a model and hidden states to the inputs of the last layer, and that layer."""


def _linear(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    return hidden, model.lm_head


def _bert(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    return model.cls.predictions.transform(hidden), model.cls.predictions.decoder


def _roberta(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    head = model.lm_head
    return head.layer_norm(nn.functional.gelu(head.dense(hidden))), head.decoder


def _electra(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    return model.generator_predictions(hidden), model.generator_lm_head


def _modernbert(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    return model.head(hidden), model.decoder


_HEADS: dict[str, Head] = {
    "gpt2": _linear,
    "llama": _linear,
    "qwen3": _linear,
    "qwen3_moe": _linear,
    "bert": _bert,
    "roberta": _roberta,
    "electra": _electra,
    "modernbert": _modernbert,
    "deberta-v2": _bert,
}
"""`model_type` → the head of a built-in family."""


def head_of(model_type: str) -> Head:
    """Return the head of a model."""
    return _HEADS.get(model_type, _linear)
