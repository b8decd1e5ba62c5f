"""AdamW, clipping and the loss scale compute the numbers of `docs/training.md`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from jprep.train.optimization.loss_scale import LOSS_SCALE_GROWTH_INTERVAL
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_keras.worker.optimizer import StateArrays, apply_update, clip_factor, global_norm

SECTION = OptimizerConfig(lr=0.1, beta1=0.9, beta2=0.999, eps=0.001, weight_decay=0.01, clip=0.0)


def state(shape: tuple[int, ...] = (1, 1), scale: float = 1.0, good: int = 0) -> StateArrays:
    zeros = {"w": tf.zeros(shape)}
    numbers = tf.constant(0), tf.constant(scale), tf.constant(good)
    return StateArrays({"w": tf.fill(shape, 0.5), "frozen": tf.ones(shape)}, zeros, zeros, *numbers)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 1), [0.3998322259, 0.4630443142, 0.5114293774]),
        ((1,), [0.4003322259, 0.4639441464, 0.5127922539]),
    ],
)
def test_three_steps_of_adamw_are_the_documented_ones(shape: tuple[int, ...], expected: list[float]) -> None:
    now, found = state(shape), []
    for number in (0.3, -2.0, 0.01):
        now, _, _ = apply_update(now, {"w": tf.fill(shape, number)}, 0.1, SECTION, dynamic_scale=False)
        found.append(float(tf.reshape(now.weights["w"], ())))
    assert found == pytest.approx(expected, abs=1e-7)
    assert int(now.updates) == 3 and float(tf.reduce_sum(now.weights["frozen"])) == 1


def test_a_gradient_is_clipped_by_its_global_norm() -> None:
    gradients = {"one": tf.constant([3.0, 4.0]), "two": tf.constant([12.0])}
    norm = global_norm(gradients)
    assert float(norm) == 13
    clipped = np.concatenate([(one * clip_factor(norm, 1.0)).numpy() for one in gradients.values()])
    assert clipped.tolist() == pytest.approx([0.230769231, 0.307692308, 0.923076923], rel=1e-6)


def test_a_gradient_that_is_not_finite_halves_the_scale_and_changes_nothing() -> None:
    before = state(scale=8.0, good=5)
    after, _, taken = apply_update(before, {"w": tf.fill((1, 1), np.inf)}, 0.1, SECTION, dynamic_scale=True)
    assert not bool(taken) and (float(after.scale), int(after.good), int(after.updates)) == (4.0, 0, 0)
    assert float(tf.reshape(after.weights["w"], ())) == 0.5


def test_the_scale_doubles_after_many_good_steps() -> None:
    before = state(scale=8.0, good=LOSS_SCALE_GROWTH_INTERVAL - 1)
    after, norm, taken = apply_update(before, {"w": tf.fill((1, 1), 8.0)}, 0.1, SECTION, dynamic_scale=True)
    assert bool(taken) and (float(after.scale), int(after.good), float(norm)) == (16.0, 0, 1.0)
