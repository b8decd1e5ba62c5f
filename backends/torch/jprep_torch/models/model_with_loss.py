"""A job's model and its loss as one module."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep.train.models.electra import GENERATOR
from jprep_torch.models.custom_head import ModelWithHead
from jprep_torch.models.custom_loss import LossBatch, call_loss
from jprep_torch.models.heads import HEADS
from jprep_torch.models.replaced_tokens import ReplacedTokenLoss
from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.loss import class_loss, score_loss, token_loss, token_loss_xla

NO_LABEL = -100
"""The label of tokens that have none."""

_CAUSAL = ("gpt2", "llama")


class RtdInputs(NamedTuple):
    """What replaced-token detection needs of some rows.

    Attributes:
        noise_keys: random bits of each token, int64 from 0 to below 2³², (rows, length).
        tokens: tokens of each row that count: its length, or 0 if it only fills the batch; int64, (rows,).
        factor: factor of the discriminator's summed loss, fp32, ().
    """

    noise_keys: Tensor
    tokens: Tensor
    factor: Tensor


class ModelInputs(NamedTuple):
    """Some rows on the device.

    Attributes:
        ids: int64, (rows, length).
        labels: int64, (rows, length), `NO_LABEL` for tokens without a label; or classes or scores, (rows,) or fewer.
        lengths: int64, (rows,).
        full: whether no row has padding.
        types: token types, (rows, length); None if the model has none.
        rtd: what replaced-token detection needs besides; None for other tasks.
        next_sentence: classes of sentence pairs, int64, (rows,); None for other rows.
        pair_weights: factor of each row's next-sentence loss, (rows,): labels per row in training, 0 in validation and
            for rows that only fill the shape; None for other rows.
    """

    ids: Tensor
    labels: Tensor
    lengths: Tensor
    full: bool
    types: Tensor | None
    rtd: RtdInputs | None = None
    next_sentence: Tensor | None = None
    pair_weights: Tensor | None = None

    @property
    def mask(self) -> Tensor | None:
        """The attention mask: 0 for padding. None without padding, for which there are faster kernels."""
        if self.full:
            return None
        return self.token_mask

    @property
    def token_mask(self) -> Tensor:
        """1 for tokens and 0 for padding, int64, (rows, length)."""
        return (torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths.unsqueeze(1)).long()


class ModelWithLoss(nn.Module):
    """A model and its loss.

    Args:
        model: transformers' model for the job's task, or its base model with a user's head.
        job: the job.
        hooks: the job's hooks.
    """

    def __init__(self, model: nn.Module, job: Job, hooks: LoadedHooks = NO_HOOKS) -> None:
        super().__init__()
        self._loss_hook = hooks.loss
        self.model = model
        self._task, self._model_type = job.train.task, job.model["model_type"]
        self._head = HEADS[self._model_type]
        self._ids = job.train.model.padded(job.model["vocab_size"])
        self._rtd = ReplacedTokenLoss(job.model, self._ids) if self._task == "rtd" else None

    def forward(self, inputs: ModelInputs) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the summed loss in fp32, the outputs of rows, (rows, classes or 1), and the count of a loss hook.

        Outputs are those of `classify` and `regress`, and of the next-sentence head. For `rtd` they are the sums named
        by `jprep.train.worker.rtd_figures.SUMS`, (sums,). The count is a number in fp32; None without a hook: labels
        are counted.
        """
        if self._rtd is not None:
            return *self._rtd(self.model, inputs), None
        if inputs.next_sentence is not None:
            return *self._pair_loss(inputs, inputs.next_sentence), None
        if self._task in ("clm", "mlm"):
            loss, count = self._token_loss(inputs, self._encoded(inputs).last_hidden_state)
            return loss, inputs.ids.new_empty(0), count
        outputs, labels = self._outputs(inputs)[: len(inputs.labels)], inputs.labels
        if self._loss_hook:
            loss, count = call_loss(self._loss_hook, outputs.float(), labels, _loss_batch(inputs, len(labels)))
            return loss, outputs, count
        return (class_loss if self._task == "classify" else score_loss)(outputs, labels), outputs, None

    @property
    def base_model(self) -> nn.Module:
        """The part that all tasks share."""
        return self.model.base_model  # type: ignore[return-value, unused-ignore]

    @property
    def base_models(self) -> tuple[nn.Module, ...]:
        """The base models: one, or with `rtd` those of discriminator and generator."""
        generator: Any = getattr(self.model, GENERATOR, None)
        return (self.base_model,) if generator is None else (self.base_model, generator.base_model)

    def _pair_loss(self, inputs: ModelInputs, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of tokens plus the weighted loss of pairs, and the logits of pairs."""
        encoded = self._encoded(inputs)
        outputs: Tensor = self.model.cls.seq_relationship(encoded.pooler_output)  # type: ignore[operator, union-attr]
        losses = nn.functional.cross_entropy(outputs.float(), labels, reduction="none")
        loss, _ = self._token_loss(inputs, encoded.last_hidden_state)
        return loss + (losses * inputs.pair_weights).sum(), outputs

    def _token_loss(self, inputs: ModelInputs, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """Apply the head to tokens that have a label: with masked language models about one in seven."""
        labels = inputs.labels
        if self._task == "clm":
            hidden, labels = hidden[:, :-1], labels[:, 1:]
        labels = labels.reshape(-1)
        if labels.device.type in XLA_DEVICES:
            vectors, last = self._head(self.model, hidden.reshape(-1, hidden.shape[-1]))
            if self._loss_hook:
                return self._hook_loss(last(vectors), labels, inputs)
            return token_loss_xla(vectors, last.weight, last.bias, labels, NO_LABEL, self._ids), None
        labelled = (labels != NO_LABEL).nonzero().squeeze(1)
        hidden = hidden.reshape(-1, hidden.shape[-1])
        if len(labelled) < len(labels):
            hidden, labels = hidden.index_select(0, labelled), labels.index_select(0, labelled)
        vectors, last = self._head(self.model, hidden)
        if self._loss_hook:
            return self._hook_loss(last(vectors), labels, inputs)
        return token_loss(vectors, last.weight, last.bias, labels, self._ids), None

    def _hook_loss(self, logits: Tensor, labels: Tensor, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        assert self._loss_hook
        known = labels != NO_LABEL
        batch = _loss_batch(inputs)._replace(label_mask=known)
        return call_loss(self._loss_hook, logits.float(), labels.where(known, 0), batch)

    def _encoded(self, inputs: ModelInputs) -> Any:
        """Return the outputs of the base model: hidden states of the last layer, (rows, length, width), among them."""
        types = {} if inputs.types is None else {"token_type_ids": inputs.types}
        # Causal attention ignores padding at the end of a row. XLA would have to read the mask's values, which
        # transformers branches on, in the middle of its program.
        mask = None if self._task == "clm" and inputs.ids.device.type in XLA_DEVICES else inputs.mask
        return self.base_model(input_ids=inputs.ids, attention_mask=mask, **types)

    def _outputs(self, inputs: ModelInputs) -> Tensor:
        if isinstance(self.model, ModelWithHead):
            return self.model.outputs(self._encoded(inputs).last_hidden_state, inputs.token_mask)
        if self._model_type in _CAUSAL:  # transformers would look for the last token by the id of the padding
            hidden = self._encoded(inputs).last_hidden_state
            last = hidden[torch.arange(len(hidden), device=hidden.device), (inputs.lengths - 1).clamp_min(0)]
            found: Tensor = self.model.score(last)  # type: ignore[operator]
            return found
        types = {} if inputs.types is None else {"token_type_ids": inputs.types}
        outputs: Tensor = self.model(input_ids=inputs.ids, attention_mask=inputs.mask, **types).logits
        return outputs


def _loss_batch(inputs: ModelInputs, rows: int | None = None) -> LossBatch:
    """Return what a loss hook gets besides logits and labels.

    Args:
        inputs: the micro-batch.
        rows: number of rows, where each has a label; None for all.
    """
    types = None if inputs.types is None else inputs.types[:rows]
    every = torch.ones(len(inputs.labels), dtype=torch.bool, device=inputs.ids.device)
    return LossBatch(inputs.ids[:rows], inputs.token_mask[:rows], types, every)
