"""Rows of several documents, whose tokens do not see each other.

fairseq's classes take one mask for all rows, or none, and count positions from the first token of a row. Hooks on the
modules in them give masks and positions of every row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from jprep_torch.models.encoder_inputs import document_mask, document_positions


class RowDocuments:
    """The documents of the rows that a model is called with.

    Args:
        attentions: the attention modules of a model, alike.
        table: its table of positions.
        first: the first position, as fairseq counts.
        causal: whether tokens do not see later ones.
    """

    def __init__(
        self, attentions: Sequence[MultiheadAttention], table: nn.Embedding, first: int, *, causal: bool
    ) -> None:
        self._heads, self._first, self._causal = attentions[0].num_heads, first, causal
        self._mask: Tensor | None = None
        self._positions: Tensor | None = None
        for attention in attentions:
            attention.register_forward_pre_hook(self._with_mask, with_kwargs=True)
            attention.apply_sparse_mask = self._with_masked_scores
        table.register_forward_hook(self._with_positions)

    @contextlib.contextmanager
    def masking_documents(self, documents: Tensor | None) -> Iterator[None]:
        """Return a context in which tokens see those of their document only: forward and backward pass of some rows.

        Args:
            documents: the document of each token, (rows, length); None if tokens see their whole row.
        """
        if documents is not None:
            self._mask = self._added_to_scores(document_mask(documents, causal=self._causal))
            self._positions = document_positions(documents) + self._first
        try:
            yield
        finally:  # XLA would compute tensors that are kept as results of the step
            self._mask = self._positions = None

    def _added_to_scores(self, seen: Tensor) -> Tensor:
        """Return what is added to the attention scores of each head, fp32, (rows · heads, length, length)."""
        hidden = torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, -torch.inf)
        return hidden.expand(-1, self._heads, -1, -1).reshape(-1, *seen.shape[2:])

    def _with_mask(
        self, module: nn.Module, arguments: Any, keywords: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        """Replace fairseq's masks. On XLA it takes none for each row, and `_with_masked_scores` adds it."""
        if self._mask is None:
            return None
        on_xla = self._mask.device.type == "xla"
        return arguments, keywords | {"attn_mask": None if on_xla else self._mask, "key_padding_mask": None}

    def _with_masked_scores(self, scores: Tensor, *sizes: int) -> Tensor:
        """Add the mask where fairseq itself computes the scores, (rows · heads, length, length)."""
        return scores if self._mask is None else scores + self._mask.to(scores.dtype)

    def _with_positions(self, module: Any, arguments: Any, found: Tensor) -> Tensor:
        """Look positions up again: fairseq's class refuses given ones in models with padding."""
        if self._positions is None:
            return found
        return nn.functional.embedding(self._positions, module.weight, module.padding_idx)
