"""Replaced-token detection: the generator's loss, tokens sampled from it, and the discriminator's loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.dataset.sampling.token_noise import id_words
from jprep_torch.models.encoder_inputs import encoder_inputs
from jprep_torch.models.heads import head_of
from jprep_torch.models.loss import Noise, replaced_loss, token_loss_and_samples, token_loss_and_samples_xla
from jprep_torch.planning.xla import XLA_DEVICES

if TYPE_CHECKING:
    from jprep_torch.models.model_with_loss import ModelInputs


class ReplacedTokenLoss:
    """The loss of an ELECTRA with both halves.

    Args:
        config: the discriminator's config, with the generator's.
        padded: number of ids that the generator's matrix product is padded to.
    """

    def __init__(self, config: dict[str, Any], padded: int = 0) -> None:
        self._config, self._padded = config, padded
        self._head = head_of(config["model_type"])
        self._words = torch.from_numpy(id_words(config["vocab_size"]).astype(np.int64))

    def __call__(self, model: Any, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        """Return the generator's summed loss plus the discriminator's times its factor, and the sums for figures.

        Args:
            model: transformers' discriminator with the generator as its `generator`.
            inputs: masked rows.
        """
        labelled = inputs.labels != IGNORE_INDEX
        original = torch.where(labelled, inputs.labels, inputs.ids)
        generator_loss, ids = self._replace(model.generator, inputs, original, labelled)
        replaced, real = ids != original, self._real(inputs)
        outputs = model.discriminator_predictions(self._hidden(model, ids, inputs))
        discriminator_loss = (replaced_loss(outputs, replaced) * real).sum()
        assert inputs.rtd is not None
        loss = generator_loss + inputs.rtd.factor * discriminator_loss
        flagged, replaced = (outputs > 0) & real, replaced & real
        kept = labelled & ~replaced
        sums = (generator_loss, labelled, kept, discriminator_loss, real, replaced, flagged, flagged & replaced)
        return loss, torch.stack([part.detach().sum().float() for part in sums])

    def _replace(
        self, generator: Any, inputs: ModelInputs, original: Tensor, labelled: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the generator's summed loss, and the rows with masked tokens replaced by samples."""
        assert inputs.rtd is not None
        hidden, labels = self._hidden(generator, inputs.ids, inputs), inputs.labels.reshape(-1)
        hidden, keys = hidden.reshape(-1, hidden.shape[-1]), inputs.rtd.noise_keys.reshape(-1)
        self._words = self._words.to(labels.device)
        if labels.device.type in XLA_DEVICES:
            vectors, last = self._head(generator, hidden)
            noise = Noise(keys, self._words)
            loss, samples = token_loss_and_samples_xla(
                vectors, last.weight, last.bias, labels, noise=noise, padded=self._padded
            )
            return loss, torch.where(labelled, samples.view_as(labelled), original)
        chosen = inputs.labelled_tokens
        vectors, last = self._head(generator, hidden.index_select(0, chosen))
        noise = Noise(keys.index_select(0, chosen), self._words)
        labels = labels.index_select(0, chosen)
        loss, samples = token_loss_and_samples(
            vectors, last.weight, last.bias, labels, noise=noise, padded=self._padded
        )
        return loss, original.reshape(-1).index_copy(0, chosen, samples).view_as(original)

    def _hidden(self, model: Any, ids: Tensor, inputs: ModelInputs) -> Tensor:
        hidden: Tensor = model.base_model(**encoder_inputs(self._config, "rtd", inputs, ids)).last_hidden_state
        return hidden

    @staticmethod
    def _real(inputs: ModelInputs) -> Tensor:
        """Return which tokens count: all but padding and the tokens of rows that only fill the batch."""
        assert inputs.rtd is not None
        columns = torch.arange(inputs.ids.shape[1], device=inputs.ids.device)
        return columns < inputs.rtd.tokens.unsqueeze(1)
