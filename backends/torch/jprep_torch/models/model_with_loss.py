"""A job's model as one module: rows in, the sum of their losses out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from jprep.train.job.config import Job
from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.loss import class_loss, score_loss, token_loss, token_loss_xla

NO_LABEL = -100


class ModelInputs(NamedTuple):
    """Some rows, on the device.

    Attributes:
        ids: int64, (rows, length).
        labels: int64, (rows, length), `NO_LABEL` where there is none; or classes or scores, (rows,) or fewer.
        lengths: int64, (rows,).
        full: whether no row has padding.
        types: token types, (rows, length); None where the model has none.
    """

    ids: Tensor
    labels: Tensor
    lengths: Tensor
    full: bool
    types: Tensor | None

    @property
    def mask(self) -> Tensor | None:
        """1 at what is not padding; None where nothing is, for which there are faster kernels."""
        if self.full:
            return None
        return (torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths.unsqueeze(1)).long()


Head = Callable[[Any, Tensor], tuple[Tensor, nn.Linear]]


def _plain(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    return hidden, model.lm_head


def _bert(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    return model.cls.predictions.transform(hidden), model.cls.predictions.decoder


def _roberta(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    head = model.lm_head
    return head.layer_norm(nn.functional.gelu(head.dense(hidden))), head.decoder


def _electra(model: Any, hidden: Tensor) -> tuple[Tensor, nn.Linear]:
    return model.generator_predictions(hidden), model.generator_lm_head


HEADS: dict[str, Head] = {"gpt2": _plain, "llama": _plain, "bert": _bert, "roberta": _roberta, "electra": _electra}
"""`model_type` → what is left to do for the logits of tokens: a vector, and the layer that makes logits of it."""

CAUSAL = ("gpt2", "llama")


class ModelWithLoss(nn.Module):
    """A model and its loss.

    Args:
        model: transformers' model for the job's task.
        job: the job.
    """

    def __init__(self, model: nn.Module, job: Job) -> None:
        super().__init__()
        self.model = model
        self._task, self._kind = job.train.task, job.model["model_type"]
        self._head = HEADS[self._kind]

    def forward(self, rows: ModelInputs) -> tuple[Tensor, Tensor]:
        """The sum of the rows' losses in fp32, and of `classify` and `regress` the outputs, (rows, labels)."""
        if self._task in ("clm", "mlm"):
            return self._tokens(rows), rows.ids.new_empty(0)
        outputs = self._judged(rows)[: len(rows.labels)]
        return (class_loss if self._task == "classify" else score_loss)(outputs, rows.labels), outputs

    @property
    def body(self) -> nn.Module:
        """The part that all tasks share."""
        return self.model.base_model  # type: ignore[return-value, unused-ignore]

    def _tokens(self, rows: ModelInputs) -> Tensor:
        """Only tokens with a label go through the head: of masked rows that is every seventh or so."""
        hidden, labels = self._hidden(rows), rows.labels
        if self._task == "clm":
            hidden, labels = hidden[:, :-1], labels[:, 1:]
        labels = labels.reshape(-1)
        if labels.device.type in XLA_DEVICES:
            vectors, last = self._head(self.model, hidden.reshape(-1, hidden.shape[-1]))
            return token_loss_xla(vectors, last.weight, last.bias, labels, NO_LABEL)
        chosen = (labels != NO_LABEL).nonzero().squeeze(1)
        hidden = hidden.reshape(-1, hidden.shape[-1])
        if len(chosen) < len(labels):
            hidden, labels = hidden.index_select(0, chosen), labels.index_select(0, chosen)
        vectors, last = self._head(self.model, hidden)
        return token_loss(vectors, last.weight, last.bias, labels)

    def _hidden(self, rows: ModelInputs) -> Tensor:
        """What the last layer gives, (rows, length, width)."""
        more = {} if rows.types is None else {"token_type_ids": rows.types}
        # Nothing before a row's end sees what is behind it; transformers would look into the mask to choose a program.
        mask = None if self._task == "clm" and rows.ids.device.type in XLA_DEVICES else rows.mask
        found: Tensor = self.body(input_ids=rows.ids, attention_mask=mask, **more).last_hidden_state
        return found

    def _judged(self, rows: ModelInputs) -> Tensor:
        if self._kind in CAUSAL:  # the last token that is not padding
            hidden = self._hidden(rows)
            last = hidden[torch.arange(len(hidden), device=hidden.device), (rows.lengths - 1).clamp_min(0)]
            found: Tensor = self.model.score(last)  # type: ignore[operator]
            return found
        more = {} if rows.types is None else {"token_type_ids": rows.types}
        outputs: Tensor = self.model(input_ids=rows.ids, attention_mask=rows.mask, **more).logits
        return outputs
