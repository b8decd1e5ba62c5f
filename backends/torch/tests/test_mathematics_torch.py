"""The functions of the training step against the tables of docs/training.md."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.optimization.loss_scale import INITIAL_LOSS_SCALE, LOSS_SCALE_GROWTH_INTERVAL
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_torch.models.loss import (
    Noise,
    class_loss,
    score_loss,
    token_loss,
    token_loss_and_samples,
    token_loss_and_samples_xla,
    token_loss_xla,
)
from jprep_torch.models.transformers_models import build_model
from jprep_torch.worker.optimizer import LossScale, global_norm, make_optimizer, unscale_and_clip
from jprep_torch.worker.update_rules.norms import vector_norm
from jprep_torch.worker.update_rules.xla_adamw import clip as clip_gradients

LOGITS = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [2.0, 0.0, 1.0]]
LABELS = [2, 1, 0]
LOSSES = [0.407605964, 1.098612289, 0.407605964]


def weight(values: list[float], *shape: int, gradient: list[float] | None = None) -> nn.Parameter:
    made = nn.Parameter(torch.tensor(values, dtype=torch.float32).reshape(shape or (-1,)))
    made.grad = None if gradient is None else torch.tensor(gradient, dtype=torch.float32)
    return made


@pytest.mark.parametrize(
    "dimensions, decay, expected",
    [
        (2, 0.01, [0.3998322259, 0.4630443142, 0.5114293774]),
        (1, 0.01, [0.4003322259, 0.4639441464, 0.5127922539]),
        (2, 0.0, [0.4003322259, 0.4639441464, 0.5127922539]),
    ],
    ids=["matrix", "bias", "no decay"],
)
def test_three_steps_of_adamw(dimensions: int, decay: float, expected: list[float]):
    only = weight([0.5], *[1] * dimensions)
    optimizer = make_optimizer(
        {"w": only}, {"w": only.shape}, OptimizerConfig(lr=0.1, beta1=0.9, beta2=0.999, eps=0.001, weight_decay=decay)
    )
    found = []
    for gradient in (0.3, -2.0, 0.01):
        only.grad = torch.full_like(only, gradient)
        optimizer.step()
        found.append(only.item())
    assert found == pytest.approx(expected, abs=1e-7)


def test_gradients_are_clipped_to_a_global_norm():
    weights = [weight([0, 0], gradient=[3, 4]), weight([0], gradient=[12])]
    norm = global_norm(weights)
    assert norm == 13
    assert unscale_and_clip(weights, norm, 1.0, 1.0) == 13
    assert weights[0].grad.tolist() == pytest.approx([0.230769231, 0.307692308], rel=1e-6)
    assert weights[1].grad.tolist() == pytest.approx([0.923076923], rel=1e-6)


@pytest.mark.parametrize("clip", [0.0, 13.0, 20.0])
def test_a_gradient_below_the_limit_is_unchanged(clip: float):
    weights = [weight([0, 0], gradient=[3, 4]), weight([0], gradient=[12])]
    unscale_and_clip(weights, 13.0, clip, 1.0)
    assert torch.cat([one.grad for one in weights]).tolist() == [3, 4, 12]


def test_gradients_are_unscaled_before_clipping():
    weights = [weight([0, 0], gradient=[3 * 1024, 4 * 1024])]
    assert unscale_and_clip(weights, 5 * 1024, 10.0, 1024.0) == 5
    assert weights[0].grad.tolist() == [3, 4]


def test_weights_without_a_gradient_do_not_change_the_norm():
    assert global_norm([weight([1.0]), weight([0, 0], gradient=[3, 4])]) == 5


@pytest.mark.parametrize("shape", [(700_001,), (2_000, 3_000), (3, 1_000_001)])
def test_the_norm_of_many_numbers_is_exact(shape: tuple[int, ...]):
    only = weight([0])
    only.data = torch.zeros(shape)
    only.grad = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 1e-3
    exact = only.grad.double().norm().item()
    assert global_norm([only, weight([0])]).item() == pytest.approx(exact, rel=1e-6)
    assert clip_gradients([only], 0.0).item() == pytest.approx(exact, rel=1e-6)


def test_the_norm_of_half_precision_is_exact():
    many = torch.randn(200_000, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert vector_norm(many).item() == pytest.approx(many.double().norm().item(), rel=1e-6)


def test_numbers_that_are_not_finite_have_no_finite_norm():
    many = weight([0])
    many.data = torch.zeros(70_000)
    many.grad = torch.ones(70_000)
    for bad in (math.inf, math.nan):
        many.grad[69_999] = bad
        assert not global_norm([many]).isfinite()


def test_the_loss_scale_is_halved_on_overflow_and_doubled_after_good_steps():
    scale = LossScale("fp16")
    assert scale.factor == INITIAL_LOSS_SCALE == 2**16
    assert not scale.accepts(math.inf) and scale.factor == 2**15
    for _ in range(LOSS_SCALE_GROWTH_INTERVAL):
        assert scale.factor == 2**15 and scale.accepts(1.0)
        scale.grow()
    assert scale.factor == 2**16


def test_full_precision_has_no_loss_scale():
    scale = LossScale("fp32")
    assert scale.accepts(1.0) and scale.accepts(math.nan) and scale.factor == 1


@pytest.mark.parametrize("place", range(3))
def test_losses_use_the_natural_logarithm(place: int):
    row, label = torch.tensor(LOGITS[place : place + 1]), torch.tensor(LABELS[place : place + 1])
    assert class_loss(row, label).item() == pytest.approx(LOSSES[place], rel=1e-6)
    assert token_loss(row, torch.eye(3), None, label).item() == pytest.approx(LOSSES[place], rel=1e-6)


def test_the_loss_of_two_parts_is_their_sum_divided_by_all_labels():
    rows, labels = torch.tensor(LOGITS), torch.tensor(LABELS)
    shares = [class_loss(rows[part], labels[part]) for part in (slice(2), slice(2, 3))]
    assert (sum(shares) / 3).item() == pytest.approx(0.637941406, abs=1e-7)


def test_squared_errors_are_summed():
    assert score_loss(torch.tensor([[1.0], [2.0]]), torch.tensor([0.5, 4.0])).item() == 4.25


@pytest.mark.parametrize("z", [0.0, 0.1])
@pytest.mark.parametrize("padded", [0, 16])
@pytest.mark.parametrize("bias", [True, False])
def test_the_gradient_of_the_token_loss_equals_autograd(bias: bool, padded: int, z: float):
    generator = torch.Generator().manual_seed(1)
    parts = [torch.randn(shape, generator=generator) for shape in ((7, 5), (11, 5), (11,))][: 3 if bias else 2]
    labels = torch.randint(11, (7,), generator=generator)
    ours, plain = ([part.double().requires_grad_() for part in parts] for _ in range(2))
    loss = token_loss(ours[0], ours[1], ours[2] if bias else None, labels, padded=padded, z_loss=z)
    (loss / 3).backward()
    logits = nn.functional.linear(*plain)
    normalizers = logits.exp().sum(1).log()
    expected = (z * normalizers**2 + normalizers - logits[torch.arange(7), labels]).sum()
    (expected / 3).backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, other in zip(ours, plain, strict=True):
        assert torch.allclose(mine.grad, other.grad, rtol=1e-6, atol=1e-7)
    table = [*(part.detach() for part in ours), *([] if bias else [None])]
    whole = token_loss_xla(*table, labels, padded=padded, z_loss=z)
    assert whole.item() == pytest.approx(expected.item(), rel=1e-6)


def test_padding_of_the_vocabulary_is_excluded_from_softmax_and_samples():
    generator = torch.Generator().manual_seed(1)
    hidden, table = torch.randn((7, 5), generator=generator), torch.randn((11, 5), generator=generator)
    labels = torch.randint(11, (7,), generator=generator)
    noise = Noise(torch.arange(7), torch.arange(11))
    for function in (token_loss_and_samples, token_loss_and_samples_xla):
        plain, padded = (function(hidden, table, None, labels, noise=noise, padded=ids) for ids in (11, 128))
        assert torch.allclose(plain[0], padded[0], rtol=1e-6) and torch.equal(plain[1], padded[1])


def test_the_loss_of_no_tokens_is_0():
    hidden, table = torch.ones(0, 5, requires_grad=True), torch.ones(11, 5, requires_grad=True)
    loss = token_loss(hidden, table, None, torch.zeros(0, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0 and not table.grad.any()


@pytest.mark.parametrize(
    "kind, expected", [("gpt2", 0.841191991), ("bert", 0.841344746), ("roberta", 0.841344746), ("electra", 0.841344746)]
)
def test_each_model_family_has_its_activation(kind: str, expected: float):
    task = "clm" if kind == "gpt2" else "mlm"
    config = model_config(ModelConfig(preset=f"{kind}-tiny"), task, TokenizerInfo(300, 32, 0, 2, 1))
    names = {"NewGELUActivation", "GELUActivation", "GELU"}
    found = [module for module in build_model(config, task).modules() if type(module).__name__ in names]
    assert found
    assert {round(module(torch.tensor(1.0)).item(), 6) for module in found} == {round(expected, 6)}
