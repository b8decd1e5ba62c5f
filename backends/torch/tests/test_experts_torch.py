"""Experts: their weights in files and in the model, and the loss of routers, which is that of transformers by rows."""

from __future__ import annotations

import numpy as np
import torch
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from jprep_torch.models.expert_weights import FileTensors, model_name, read_weight
from jprep_torch.models.router_loss import router_loss

LAYER = "model.layers.0.mlp.experts"
SHAPES = {f"m.{LAYER}.gate_up_proj": (3, 8, 5), f"m.{LAYER}.down_proj": (3, 5, 4), "m.model.norm.weight": (5,)}


def test_experts_are_cut_for_files_and_joined_again() -> None:
    weights = {name: torch.rand(shape) for name, shape in SHAPES.items()}
    gathered: list[str] = []
    tensors = FileTensors(SHAPES, lambda name: gathered.append(name) or weights[name])
    files = {name: tensors[name].numpy() for name in tensors}
    assert gathered == list(SHAPES)  # each once
    assert {name: array.shape for name, array in files.items()} == tensors.shapes
    assert files[f"m.{LAYER}.1.up_proj.weight"].shape == (4, 5)
    assert {model_name(name) for name in files} == SHAPES.keys()
    for name, weight in weights.items():
        assert np.array_equal(read_weight(files, name), weight.numpy())


def test_the_loss_of_routers_is_the_sum_of_that_of_transformers_for_each_row() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = [torch.randn((4 * 7, 6), generator=generator, requires_grad=True) for _ in range(3)]
    mask = (torch.arange(7) < torch.tensor([7, 2, 5, 1])[:, None]).long()
    found = router_loss(logits, mask, 2)
    expected = sum(
        load_balancing_loss_func(tuple(one[7 * row : 7 * row + 7] for one in logits), 6, 2, mask[row : row + 1])
        * mask[row].sum()
        for row in range(4)
    )
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(loss, logits) for loss in (found, expected))
    torch.testing.assert_close(ours, theirs)
