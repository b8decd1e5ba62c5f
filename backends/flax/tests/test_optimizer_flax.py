"""AdamW, clipping and the loss scale compute the numbers of `docs/training.md`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jprep.train.optimization.loss_scale import INITIAL_LOSS_SCALE, LOSS_SCALE_GROWTH_INTERVAL
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_flax.worker.optimizer import StateArrays, UpdateKind, apply_update, clip_factor, global_norm

SECTION = OptimizerConfig(lr=0.1, beta1=0.9, beta2=0.999, eps=0.001, weight_decay=0.01, clip=0.0)


def state(*weights: float, scale: float = 1.0, good: int = 0) -> StateArrays:
    arrays = [jnp.float32(weight) for weight in weights]
    zeros = [jnp.zeros_like(array) for array in arrays]
    return StateArrays(arrays, zeros, zeros, jnp.int32(0), jnp.float32(scale), jnp.int32(good))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("decayed", [0.3998322259, 0.4630443142, 0.5114293774]),
        ("not decayed", [0.4003322259, 0.4639441464, 0.5127922539]),
        ("frozen", [0.5, 0.5, 0.5]),
    ],
)
def test_three_steps_of_adamw_are_the_documented_ones(kind: UpdateKind, expected: list[float]) -> None:
    now, found = state(0.5), []
    for gradient in (0.3, -2.0, 0.01):
        now, _, _ = apply_update(now, [jnp.float32(gradient)], jnp.float32(0.1), SECTION, [kind], dynamic_scale=False)
        found.append(float(now.weights[0]))
    assert found == pytest.approx(expected, abs=1e-7)
    assert int(now.updates) == 3


def test_bias_correction_is_exact_after_many_steps() -> None:
    now = state(0.5)._replace(updates=jnp.int32(49_999), m=[jnp.float32(0.1)], v=[jnp.float32(0.2)])
    after, _, _ = apply_update(now, [jnp.float32(0.3)], jnp.float32(0.1), SECTION, ["not decayed"], dynamic_scale=False)
    m, v = 0.9 * 0.1 + 0.1 * 0.3, 0.999 * 0.2 + 0.001 * 0.3**2
    step = m / (1 - 0.9**50_000) / (np.sqrt(v / (1 - 0.999**50_000)) + 0.001)
    assert float(after.weights[0]) == pytest.approx(0.5 - 0.1 * step, abs=1e-7)


def test_a_gradient_is_clipped_by_its_global_norm() -> None:
    gradients = [jnp.array([3.0, 4.0]), jnp.array([12.0])]
    norm = global_norm(gradients)
    assert float(norm) == 13
    clipped = np.concatenate([one * clip_factor(norm, 1.0) for one in gradients])
    assert clipped.tolist() == pytest.approx([0.230769231, 0.307692308, 0.923076923], rel=1e-6)


@pytest.mark.parametrize("clip", [0.0, 13.0, 20.0])
def test_a_gradient_below_the_limit_is_not_clipped(clip: float) -> None:
    assert float(clip_factor(jnp.float32(13), clip)) == 1


def test_frozen_weights_do_not_count_in_the_norm() -> None:
    gradients = [jnp.float32(5), jnp.float32(7)]
    _, norm, _ = apply_update(
        state(1, 1), gradients, jnp.float32(0.1), SECTION, ["decayed", "frozen"], dynamic_scale=False
    )
    assert float(norm) == 5


def test_gradients_are_unscaled() -> None:
    gradients = [jnp.float32(5 * INITIAL_LOSS_SCALE)]
    after, norm, taken = apply_update(
        state(1, scale=INITIAL_LOSS_SCALE), gradients, jnp.float32(0.1), SECTION, ["decayed"], dynamic_scale=True
    )
    assert float(norm) == 5 and bool(taken)
    assert (float(after.scale), int(after.good)) == (2**16, 1)


def test_a_step_with_too_large_a_scale_is_skipped_and_the_scale_halved() -> None:
    now = state(1, scale=INITIAL_LOSS_SCALE, good=7)
    after, _, taken = apply_update(
        now, [jnp.float32(np.inf)], jnp.float32(0.1), SECTION, ["decayed"], dynamic_scale=True
    )
    assert not taken and (float(after.scale), int(after.good), int(after.updates)) == (2**15, 0, 0)
    assert (float(after.weights[0]), float(after.m[0]), float(after.v[0])) == (1, 0, 0)


def test_the_scale_doubles_after_enough_steps() -> None:
    now = state(1, scale=INITIAL_LOSS_SCALE, good=LOSS_SCALE_GROWTH_INTERVAL - 1)
    after, _, _ = apply_update(now, [jnp.float32(1)], jnp.float32(0.1), SECTION, ["decayed"], dynamic_scale=True)
    assert (float(after.scale), int(after.good)) == (2**17, 0)
