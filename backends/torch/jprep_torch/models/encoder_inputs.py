"""What the base models of transformers are called with: ids, attention mask, positions and token types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jprep_torch.models.model_with_loss import ModelInputs


def encoder_inputs(config: dict[str, Any], task: str, inputs: ModelInputs, ids: Tensor | None = None) -> dict[str, Any]:
    """Return the arguments for a base model.

    Args:
        config: transformers' config.
        task: the job's task.
        inputs: rows on the device.
        ids: other ids of the same rows, (rows, length); None takes those of the rows.
    """
    found = {"input_ids": inputs.ids if ids is None else ids, "attention_mask": inputs.mask}
    if inputs.types is not None:
        found["token_type_ids"] = inputs.types
    if inputs.documents is not None:
        mask = document_mask(inputs.documents, causal=task == "clm")
        window = config.get("local_attention")
        found["attention_mask"] = mask if window is None else _masks_by_layer(mask, window // 2)
        # RoBERTa's positions begin after that of the padding.
        behind = config["pad_token_id"] + 1 if config["model_type"] == "roberta" else 0
        found["position_ids"] = document_positions(inputs.documents) + behind
    elif task == "clm":
        # Causal attention ignores padding, which is at the end of a row, and has faster kernels without a mask.
        found["attention_mask"] = None
    return found


def _masks_by_layer(mask: Tensor, reach: int) -> dict[str, Tensor]:
    """Return the masks of ModernBERT's layers: local ones see a number of tokens to each side."""
    columns = torch.arange(mask.shape[-1], device=mask.device)
    near = (columns - columns.unsqueeze(1)).abs() <= reach
    return {"full_attention": mask, "sliding_attention": mask & near}


def document_positions(documents: Tensor) -> Tensor:
    """Return the place of each token in its document, int64, (rows, length): its column from the document's first one.

    torch_xla 2.9 fails in `cummax`, and a count of earlier tokens would need memory that grows with the square of rows.

    Args:
        documents: numbers of the documents, contiguous and from 0 in each row, -1 for padding, (rows, length).
    """
    length = documents.shape[1]
    columns = torch.arange(length, device=documents.device).expand_as(documents)
    numbers = documents % length  # a row with padding has fewer documents, so that padding's number is free
    first = torch.full_like(documents, length).scatter_reduce(1, numbers, columns, "amin")
    return columns - first.gather(1, numbers)


def document_mask(documents: Tensor, *, causal: bool) -> Tensor:
    """Return which tokens each token sees: those of its document, in causal models only earlier ones and itself.

    Padding is a document of its own, so that no row of the mask is empty.

    Args:
        documents: (rows, length).
        causal: whether tokens do not see later ones.

    Returns:
        Booleans, (rows, 1, length, length).
    """
    seen = documents.unsqueeze(2) == documents.unsqueeze(1)
    if causal:
        columns = torch.arange(documents.shape[1], device=documents.device)
        seen &= columns <= columns.unsqueeze(1)
    return seen.unsqueeze(1)
