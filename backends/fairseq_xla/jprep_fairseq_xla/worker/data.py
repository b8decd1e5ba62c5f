"""From rows of a batch to the inputs of fairseq's models and criteria."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jprep.dataset.sampling.masking import IGNORE_INDEX


def fairseq_sample(model_type: str, ids: Tensor, labels: Tensor, documents: Tensor | None = None) -> dict[str, Any]:
    """Return a batch in the form that fairseq's models and criteria and `JprepTask` take.

    Args:
        model_type: transformers' name of the model's kind.
        ids: (rows, length).
        labels: (rows, length), `IGNORE_INDEX` where there is none. Those of a decoder are shifted here.
        documents: the document of each token, (rows, length); None if tokens see their whole row.
    """
    inputs = {"src_tokens": ids, "src_lengths": torch.full_like(ids[:, 0], ids.shape[1])}
    if model_type == "bert":
        inputs["segment_labels"] = torch.zeros_like(ids)
    if model_type == "gpt2":
        labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], IGNORE_INDEX)], 1)
    known = (labels != IGNORE_INDEX).sum()
    counts = {"ntokens": known, "nsentences": len(ids)}
    return {"net_input": inputs, "target": labels, "documents": documents, **counts}
