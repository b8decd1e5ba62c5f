"""Dropout on a CPU: rate, scale, gradient, random numbers; attention as PyTorch's; in compiled programs, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jprep_torch.models import cpu_dropout
from jprep_torch.models.cpu_dropout import Dropout, attention, dropout


@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.5, 0.99, 1 - 1e-6])
def test_a_share_is_dropped_and_the_rest_scaled(rate: float) -> None:
    torch.manual_seed(1)
    found = dropout(torch.ones(700, 300), rate)
    assert set(found.unique().tolist()) <= {0.0, float(torch.tensor(1.0) / (1 - rate))}
    deviation = (rate * (1 - rate) / found.numel()) ** 0.5
    assert float((found == 0).float().mean()) == pytest.approx(rate, abs=5 * deviation + 2**-16)


def test_the_gradient_has_the_same_mask() -> None:
    x = torch.ones(50, 3, requires_grad=True)
    found = dropout(x, 0.5)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None and torch.equal(x.grad, found.detach())


def test_masks_follow_the_generator_of_pytorch() -> None:
    def masks() -> list[Tensor]:
        torch.manual_seed(7)
        return [dropout(torch.ones(40, 40), 0.5) for _ in range(2)]

    (first, second), again = masks(), masks()
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    assert 0.4 < float((first == second).float().mean()) < 0.6


def test_modules_drop_in_training_only() -> None:
    module, x = Dropout(0.5), torch.ones(100)
    assert torch.equal(module.eval()(x), x)
    assert not torch.equal(module.train()(x), x)
    assert not Dropout(1.0)(x).any()


@pytest.mark.parametrize("size", [torch.float32, torch.bfloat16])
def test_half_precision_stays(size: torch.dtype) -> None:
    assert dropout(torch.ones(9, dtype=size), 0.5).dtype == size


def test_a_layer_that_is_computed_again_has_the_same_mask() -> None:
    layer, x = nn.Sequential(nn.Linear(8, 64), Dropout(0.5), nn.Linear(64, 8)), torch.randn(16, 8)

    def gradient(*, again: bool) -> list[Tensor | None]:
        layer.zero_grad()
        torch.manual_seed(3)
        found = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
        found.pow(2).sum().backward()  # type: ignore[no-untyped-call]
        return [weight.grad for weight in layer.parameters()]

    for once, twice in zip(gradient(again=False), gradient(again=True), strict=True):
        assert once is not None and twice is not None and torch.equal(once, twice)


MASKS = {
    "none": None,
    "bool": torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0)).gt(0.4) | torch.eye(6).bool(),
    "float": torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(1)),
}


@pytest.mark.parametrize("causal", [None, False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_attention_is_that_of_pytorch(kind: str, causal: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_dropout, "_kept", lambda x, rate: torch.ones(x.shape, dtype=torch.bool))
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    layer: Any = SimpleNamespace(num_key_value_groups=2, is_causal=True)
    options = {"scaling": 0.3, "is_causal": causal}
    found, _ = attention(layer, query, key, value, MASKS[kind], dropout=0.25, **options)
    expected, _ = attention(layer, query, key, value, MASKS[kind], dropout=0.0, **options)
    assert torch.allclose(found, expected / 0.75, atol=1e-6)


def test_compiled_programs_draw_new_masks() -> None:
    def both(x: Tensor) -> Tensor:
        return torch.stack([dropout(x, 0.5), dropout(x, 0.5)])

    torch.manual_seed(5)
    expected = both(torch.ones(30, 30))
    torch.manual_seed(5)
    compiled = torch.compile(both, fullgraph=True)
    found = compiled(torch.ones(30, 30))
    assert torch.equal(found, expected) and not torch.equal(found[0], found[1])
    assert not torch.equal(compiled(torch.ones(30, 30)), found)
