"""Muon: its direction on any mesh, and runs that are sharded, killed, and begun or ended by torch."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from jprep.errors import ConfigError, JprepError
from jprep.testing.backend_suite.cases import SAVED
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.backend_loading import load_backend
from jprep.train.launcher.environments import worker_python
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_flax.models.sharding import AXES, map_layers
from jprep_flax.worker.optimizer import StateArrays, apply_update
from jprep_flax.worker.update_rules.muon import orthogonal
from tests.fakes.muon_run import assert_golden_muon_run

SECTION = OptimizerConfig(kind="muon", momentum=0.9, weight_decay=0.01, clip=0.0)


def direction(matrix: np.ndarray) -> np.ndarray:
    """Return the direction of docs/training.md in fp64."""
    x = matrix.astype(np.float64) / np.linalg.norm(matrix.astype(np.float64))
    for _ in range(5):
        if x.shape[0] > x.shape[1]:
            square = x.T @ x
            x = 3.4445 * x + x @ (-4.7750 * square + 2.0315 * square @ square)
        else:
            square = x @ x.T
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return 0.2 * np.sqrt(max(x.shape)) * x


def stack_of(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(8, 8), (5, 20), (20, 5)])
def test_the_direction_is_the_documented_one(shape: tuple[int, ...]) -> None:
    matrix = stack_of(*shape)
    np.testing.assert_allclose(orthogonal(jnp.asarray(matrix)), direction(matrix), rtol=1e-4, atol=1e-5)


def test_zeros_have_no_direction() -> None:
    assert not np.any(orthogonal(jnp.zeros((3, 4))))


@pytest.mark.parametrize("layers", [1, 3, 4, 6])
@pytest.mark.parametrize("axes", [(None, None, "fsdp"), (None, "tensor", "fsdp"), ()])
def test_each_matrix_of_a_sharded_stack_is_orthogonalised_whole(layers: int, axes: tuple[str | None, ...]) -> None:
    """Matrices are sharded on any axes of the mesh, and their number need not be a multiple of the devices."""
    mesh = jax.make_mesh((1, 2, 2), AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    stack, sharding = stack_of(layers, 8, 16), NamedSharding(mesh, PartitionSpec(*axes))
    with jax.set_mesh(mesh):
        mapped = jax.jit(lambda given: map_layers(orthogonal, given), out_shardings=sharding)
        found = mapped(jax.device_put(stack, sharding))
    for matrix, own in zip(stack, found, strict=True):
        np.testing.assert_allclose(own, direction(matrix), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [(None, "tensor", "fsdp"), (None, "fsdp", "tensor")])
def test_a_sharded_stack_is_never_whole_on_a_device(axes: tuple[str | None, ...]) -> None:
    mesh = jax.make_mesh((1, 2, 2), AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    stack, sharding = stack_of(8, 16, 32), NamedSharding(mesh, PartitionSpec(*axes))
    with jax.set_mesh(mesh):
        mapped = jax.jit(lambda weights, given: weights - map_layers(orthogonal, given), out_shardings=sharding)
        program = mapped.lower(*(jax.device_put(stack, sharding) for _ in range(2))).compile().as_text()
    assert "all-to-all(" in program and "all-gather(" not in program


def test_two_steps_of_stacked_matrices_in_another_shape_than_their_files() -> None:
    """Two matrices of 6 × 4 that the model holds as 6 × 2 × 2; beside them a vector, which AdamW updates."""
    weights, gradients = stack_of(2, 6, 2, 2), np.stack([stack_of(2, 6, 2, 2) ** 2, stack_of(2, 6, 2, 2) ** 3])
    vector = jnp.ones(3)
    state = StateArrays(
        [jnp.asarray(weights), vector], [jnp.zeros_like(weights), vector * 0], [vector * 0],
        jnp.int32(0), jnp.float32(1), jnp.int32(0),
    )  # fmt: skip
    momentum, expected = np.zeros_like(weights), weights.copy()
    for gradient in gradients:
        state, _, _ = apply_update(
            state, [jnp.asarray(gradient), vector], jnp.float32(0.1), SECTION, ["decayed", "not decayed"],
            matrices=[(6, 4), None], dynamic_scale=False,
        )  # fmt: skip
        momentum = 0.9 * momentum + gradient
        change = [direction(matrix.reshape(6, 4)).reshape(6, 2, 2) for matrix in gradient + 0.9 * momentum]
        expected = expected - 0.1 * (np.stack(change) + 0.01 * expected)
    np.testing.assert_allclose(state.weights[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state.m[0], momentum, rtol=1e-5)
    np.testing.assert_allclose(state.weights[1], 0.8, rtol=1e-5)
    assert len(state.v) == 1 and int(state.updates) == 2


def test_a_step_of_fp16_that_overflows_changes_no_momentum() -> None:
    weights, vector = jnp.asarray(stack_of(2, 3, 4)), jnp.ones(3)
    scale, zeros = jnp.float32(4), [jnp.zeros_like(weights), jnp.zeros_like(vector)]
    state = StateArrays([weights, vector], zeros, zeros[1:], jnp.int32(0), scale, jnp.int32(0))
    after, _, taken = apply_update(
        state, [weights * jnp.inf, vector], jnp.float32(0.1), SECTION, ["decayed", "not decayed"],
        matrices=[(3, 4), None], dynamic_scale=True,
    )  # fmt: skip
    assert not taken and float(after.scale) == 2
    assert np.array_equal(after.weights[0], weights) and not np.any(after.m[0])


def test_frozen_matrices_do_not_change() -> None:
    weights, vector = jnp.asarray(stack_of(2, 3, 4)), jnp.ones(3)
    momentum = [weights * 2, vector * 0]
    state = StateArrays([weights, vector], momentum, momentum[1:], jnp.int32(0), jnp.float32(1), jnp.int32(0))
    after, _, _ = apply_update(
        state, [weights, vector], jnp.float32(0.1), SECTION, ["frozen", "decayed"],
        matrices=[(3, 4), None], dynamic_scale=False,
    )  # fmt: skip
    assert np.array_equal(after.weights[0], weights) and np.array_equal(after.m[0], momentum[0])
    assert not np.array_equal(after.weights[1], vector)


def test_averages_of_eight_bits_are_refused(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "flax", {"device": "cpu"})
    with pytest.raises(ConfigError, match="no averages of eight bits"):
        bench.prepare("gpt2-clm", optimizer={"kind": "adamw-8bit"})


def test_a_sharded_and_killed_run_takes_the_same_steps(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "flax", {"device": "cpu"})
    prepared = bench.prepare("gpt2-muon", {"processes": 2, "devices": 2, "fsdp": 2, "tensor": 2})
    assert_golden_muon_run(bench.train(prepared, JPREP_FAILPOINT="run.committed@2"))


@pytest.mark.parametrize(("first", "second"), [("torch", "flax"), ("flax", "torch")])
def test_a_run_resumes_on_another_backend(first: str, second: str, tmp_path: Path) -> None:
    try:
        worker_python(load_backend("torch"))
    except JprepError as error:
        pytest.skip(str(error))
    bench = SuiteRunner(tmp_path, second, {"device": "cpu"})
    assert_golden_muon_run(bench.resumed_from("gpt2-muon", first, SAVED))
