"""A job's model and its loss as one module."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep.train.models import FAMILIES
from jprep.train.models.electra import GENERATOR
from jprep.train.models.registry import is_plugin_model
from jprep_torch.models.custom_head import ModelWithHead
from jprep_torch.models.custom_loss import LossBatch, call_loss
from jprep_torch.models.encoder_inputs import encoder_inputs
from jprep_torch.models.heads import head_of
from jprep_torch.models.loss import class_loss, score_loss, token_loss, token_loss_xla
from jprep_torch.models.replaced_tokens import ReplacedTokenLoss
from jprep_torch.models.router_loss import router_loss
from jprep_torch.planning.xla import XLA_DEVICES


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
        labels: int64, (rows, length), `IGNORE_INDEX` where there is none; or classes or scores, (rows,) or fewer.
        lengths: int64, (rows,).
        full: whether no row has padding.
        types: token types, (rows, length); None if the model has none.
        rtd: what replaced-token detection needs besides; None for other tasks.
        next_sentence: classes of sentence pairs, int64, (rows,); None for other rows.
        pair_weights: factor of each row's next-sentence loss, (rows,): labels per row in training, 0 in validation and
            for rows that only fill the shape; None for other rows.
        documents: number of the document of each token, from 0 in each row and -1 for padding, int64, (rows, length):
            tokens see those of their own only; None if they see their whole row.
        router_factor: factor of the summed loss of a mixture of experts' routers, fp32, (); None in validation, and for
            models without experts.
        labelled: the places of tokens that have a label, counted through all rows, int64, (labels,), found before rows
            came to the device; None if they have not been looked for.
    """

    ids: Tensor
    labels: Tensor
    lengths: Tensor
    full: bool
    types: Tensor | None
    rtd: RtdInputs | None = None
    next_sentence: Tensor | None = None
    pair_weights: Tensor | None = None
    documents: Tensor | None = None
    router_factor: Tensor | None = None
    labelled: Tensor | None = None

    @property
    def labelled_tokens(self) -> Tensor:
        """The places of tokens that have a label, counted through all rows, int64, (labels,)."""
        if self.labelled is not None:
            return self.labelled
        return (self.labels.reshape(-1) != IGNORE_INDEX).nonzero().squeeze(1)

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


class ModelResult(NamedTuple):
    """What a model returns for some rows.

    Attributes:
        loss: sum of their losses, fp32, ().
        outputs: those of `classify` and `regress`, and of the next-sentence head, (rows, classes or 1); for `rtd` the
            sums named by `jprep.train.worker.rtd_figures.SUMS`, (sums,).
        hook_count: the count of a loss hook, fp32, (); None without a hook: labels are counted.
    """

    loss: Tensor
    outputs: Tensor
    hook_count: Tensor | None = None


class _Encoded(NamedTuple):
    """The outputs of a plugin's model, in the form of those of transformers' base models."""

    last_hidden_state: Tensor


class ModelWithLoss(nn.Module):
    """A model and its loss.

    Args:
        model: transformers' or a plugin's model for the job's task, or its base model with a user's head.
        job: the job.
        hooks: the job's hooks.
    """

    def __init__(self, model: nn.Module, job: Job, hooks: LoadedHooks = NO_HOOKS) -> None:
        super().__init__()
        self._loss_hook = hooks.loss
        self.model = model
        self._task, self._config, self._model_type = job.train.objective, job.model, job.model["model_type"]
        self._is_plugin = is_plugin_model(job.model)
        self._head = head_of(self._model_type)
        self._z_loss = job.train.z_loss
        self._class_weights: Tensor | None
        weights = torch.tensor(job.class_weights) if job.class_weights else None
        self.register_buffer("_class_weights", weights, persistent=False)
        self._ids = job.train.model.padded(job.model["vocab_size"])
        self._chosen_experts = job.model.get("num_experts_per_tok", 0)
        self._rtd = ReplacedTokenLoss(job.model, self._ids) if self._task == "rtd" else None

    def forward(self, inputs: ModelInputs) -> ModelResult:
        """Return the summed loss of some rows, their outputs, and the count of a loss hook."""
        if self._rtd is not None:
            return ModelResult(*self._rtd(self.model, inputs))
        if inputs.next_sentence is not None:
            return ModelResult(*self._pair_loss(inputs, inputs.next_sentence))
        if self._task in ("clm", "mlm"):
            encoded = self._encoded(inputs)
            loss, count = self._token_loss(inputs, encoded.last_hidden_state)
            if inputs.router_factor is not None:
                balance = router_loss(encoded.router_logits, inputs.token_mask, self._chosen_experts)
                loss = loss + inputs.router_factor * balance
            return ModelResult(loss, inputs.ids.new_empty(0), count)
        outputs, labels = self._outputs(inputs)[: len(inputs.labels)], inputs.labels
        if self._loss_hook:
            loss, count = call_loss(self._loss_hook, outputs.float(), labels, _loss_batch(inputs, len(labels)))
            return ModelResult(loss, outputs, count)
        if self._task == "regress":
            return ModelResult(score_loss(outputs, labels), outputs)
        weights = self._class_weights if self.training else None
        return ModelResult(class_loss(outputs, labels, weights), outputs)

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
        labels, z_loss = inputs.labels, self._z_loss if self.training else 0.0
        if labels.device.type in XLA_DEVICES:
            if self._task == "clm":
                hidden, labels = hidden[:, :-1], labels[:, 1:]
            labels = labels.reshape(-1)
            vectors, last = self._head(self.model, hidden.reshape(-1, hidden.shape[-1]))
            if self._loss_hook:
                return self._hook_loss(last(vectors), labels, inputs)
            return token_loss_xla(vectors, last.weight, last.bias, labels, padded=self._ids, z_loss=z_loss), None
        labels, labelled = labels.reshape(-1), inputs.labelled_tokens
        before = labelled - 1 if self._task == "clm" else labelled  # the token that predicts
        hidden = hidden.reshape(-1, hidden.shape[-1]).index_select(0, before)
        labels = labels.index_select(0, labelled)
        vectors, last = self._head(self.model, hidden)
        if self._loss_hook:
            return self._hook_loss(last(vectors), labels, inputs)
        return token_loss(vectors, last.weight, last.bias, labels, padded=self._ids, z_loss=z_loss), None

    def _hook_loss(self, logits: Tensor, labels: Tensor, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        assert self._loss_hook
        known = labels != IGNORE_INDEX
        batch = _loss_batch(inputs)._replace(label_mask=known)
        return call_loss(self._loss_hook, logits.float(), labels.where(known, 0), batch)

    def _encoded(self, inputs: ModelInputs) -> Any:
        """Return the outputs of the base model: hidden states of the last layer, (rows, length, width), among them."""
        if self._is_plugin:
            return _Encoded(self.base_model(inputs.ids, inputs.mask, inputs.documents))
        routers = {} if inputs.router_factor is None else {"output_router_logits": True}
        return self.base_model(**encoder_inputs(self._config, self._task, inputs), **routers)

    def _outputs(self, inputs: ModelInputs) -> Tensor:
        if isinstance(self.model, ModelWithHead):
            return self.model.outputs(self._encoded(inputs).last_hidden_state, inputs.token_mask)
        if self._is_plugin and not FAMILIES[self._model_type].causal:
            first: Tensor = self.model.score(self._encoded(inputs).last_hidden_state[:, 0])  # type: ignore[operator]
            return first
        if FAMILIES[self._model_type].causal:  # transformers would look for the last token by the id of the padding
            hidden = self._encoded(inputs).last_hidden_state
            last = hidden[torch.arange(len(hidden), device=hidden.device), (inputs.lengths - 1).clamp_min(0)]
            found: Tensor = self.model.score(last)  # type: ignore[operator]
            return found
        outputs: Tensor = self.model(**encoder_inputs(self._config, self._task, inputs)).logits
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
