"""Dropout on a CPU: rate, scale, gradient, random numbers; attention as PyTorch's; in compiled programs, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config
from jprep_torch.models import cpu_dropout
from jprep_torch.models.cpu_dropout import Dropout, attention_with_dropout, use_fast_dropout
from jprep_torch.models.transformers_models import build_model


def dropped(x: Tensor, rate: float) -> Tensor:
    """Return numbers after dropout in training."""
    found: Tensor = Dropout(rate)(x)
    return found


@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.5, 0.99, 1 - 1e-6])
def test_a_share_is_dropped_and_the_rest_scaled(rate: float) -> None:
    torch.manual_seed(1)
    found = dropped(torch.ones(700, 300), rate)
    share, expected = float((found == 0).float().mean()), float(found.mean())
    deviation = (rate * (1 - rate) / found.numel()) ** 0.5
    assert share == pytest.approx(rate, abs=5 * deviation + 2**-16)
    assert len(found.unique()) <= 2 and expected == pytest.approx(1, abs=6 * (deviation + 2**-17) * 2**16)
    if 0.01 < rate < 0.999:
        assert expected == pytest.approx(1, rel=5 * deviation / (1 - rate))


def test_the_gradient_has_the_same_mask() -> None:
    x = torch.ones(50, 3, requires_grad=True)
    found = dropped(x, 0.5)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None and torch.equal(x.grad, found.detach())


def test_masks_follow_the_generator_of_pytorch() -> None:
    def masks() -> list[Tensor]:
        torch.manual_seed(7)
        return [dropped(torch.ones(40, 40), 0.5) for _ in range(2)]

    (first, second), again = masks(), masks()
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    assert 0.4 < float((first == second).float().mean()) < 0.6


def test_modules_drop_in_training_only() -> None:
    module, x = Dropout(0.5), torch.ones(100)
    assert torch.equal(module.eval()(x), x)
    assert not torch.equal(module.train()(x), x)
    assert not dropped(x, 1.0).any() and torch.equal(dropped(x, 0.0), x)


def test_half_precision_and_empty_arrays() -> None:
    assert dropped(torch.ones(9, dtype=torch.bfloat16), 0.5).dtype == torch.bfloat16
    assert dropped(torch.ones(0, 4), 0.5).shape == (0, 4)


@pytest.mark.parametrize(("kind", "task"), [("gpt2", "clm"), ("bert", "mlm"), ("deberta-v2", "mlm")])
def test_models_have_no_other_dropout(kind: str, task: Any) -> None:
    sizes = {"n_layer": 1, "n_embd": 8, "n_head": 2} if kind == "gpt2" else {"num_hidden_layers": 1, "hidden_size": 8}
    sizes |= {} if kind == "gpt2" else {"num_attention_heads": 2, "intermediate_size": 8}
    about = TokenizerInfo(50, 16, 0, 2, 1)
    model = build_model(model_config(ModelConfig(config={"model_type": kind, **sizes}), task, about), task)
    use_fast_dropout(model)
    kinds = {type(module) for module in model.modules() if isinstance(module, nn.Dropout)}
    assert kinds == {Dropout} and ALL_ATTENTION_FUNCTIONS["sdpa"] is attention_with_dropout


MASKS = {
    "none": None,
    "bool": torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0)).gt(0.4) | torch.eye(6).bool(),
    "float": torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(1)),
}


def heads(count: int) -> Tensor:
    return torch.randn(2, count, 6, 8, requires_grad=True)


def layer(*, causal: bool) -> Any:
    return SimpleNamespace(num_key_value_groups=2, is_causal=causal)


@pytest.mark.parametrize("of_layer", [False, True])
@pytest.mark.parametrize("options", [{}, {"is_causal": False}, {"is_causal": True}, {"scaling": 0.3}])
@pytest.mark.parametrize("kind", MASKS)
def test_attention_is_that_of_transformers(
    kind: str, options: dict[str, Any], of_layer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_dropout, "keep", lambda x, rate: (x, 2.0))
    given = layer(causal=of_layer), heads(4), heads(2), heads(2), MASKS[kind]
    found, _ = attention_with_dropout(*given, dropout=0.25, **options)
    expected, _ = attention_with_dropout(*given, dropout=0.0, **options)
    assert torch.allclose(found, 2 * expected, atol=1e-6)


def test_probabilities_of_attention_are_dropped() -> None:
    query, key, value = heads(4), heads(4), heads(4)
    alone = SimpleNamespace(is_causal=False)
    torch.manual_seed(2)
    found, _ = attention_with_dropout(alone, query, key, value, None, dropout=0.5)  # type: ignore[arg-type]
    probabilities = torch.softmax(query @ key.transpose(-2, -1) / 8**0.5, -1)
    torch.manual_seed(2)
    expected = dropped(probabilities, 0.5) @ value
    assert torch.allclose(found, expected.transpose(1, 2), atol=1e-6)
    assert not torch.allclose(expected, probabilities @ value, atol=1e-2)


def test_layers_that_are_computed_again_have_the_same_masks() -> None:
    project, x = nn.Linear(8, 24), torch.randn(16, 8)

    def attend(x: Tensor) -> Tensor:
        query, key, value = (dropped(part, 0.5) for part in project(x).view(2, 8, 1, 24).transpose(1, 2).split(8, -1))
        return attention_with_dropout(project, query, key, value, None, dropout=0.5)[0]

    def gradient(*, again: bool) -> Tensor:
        project.zero_grad()
        torch.manual_seed(3)
        found = checkpoint(attend, x, use_reentrant=False) if again else attend(x)
        found.pow(2).sum().backward()
        assert project.weight.grad is not None
        return project.weight.grad.clone()

    once = gradient(again=False)
    assert once.any() and torch.equal(once, gradient(again=True))


def test_compiled_programs_draw_new_masks() -> None:
    def both(x: Tensor) -> Tensor:
        return torch.stack([dropped(x, 0.5), dropped(x, 0.5)])

    torch.manual_seed(5)
    expected = both(torch.ones(30, 30))
    torch.manual_seed(5)
    compiled = torch.compile(both, fullgraph=True)
    found = compiled(torch.ones(30, 30))
    assert torch.equal(found, expected) and not torch.equal(found[0], found[1])
    assert not torch.equal(compiled(torch.ones(30, 30)), found)
