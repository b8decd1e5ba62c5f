"""JAX: one program on all devices, which shards rows and replicates weights."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jprep.errors import MachineError
from jprep_keras.engines.base import Engine, EngineSettings, Floats, Seeds, divided_by_count
from jprep_keras.models.model_with_loss import LossPart, ModelInputs, ModelWithLoss
from jprep_keras.options import SECTION
from jprep_keras.planning.layout import Layout
from jprep_keras.worker.optimizer import StateArrays, StepResult, apply_update


class JaxEngine(Engine):
    """Computes steps in one `jax.jit`.

    Args:
        settings: how to compute.

    Raises:
        MachineError: the devices are not available.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        jax.config.update("jax_default_matmul_precision", "highest" if settings.precision == "fp32" else None)
        mesh = Mesh(np.array(_devices(settings.layout, deterministic=settings.deterministic)), ("batch",))
        self._whole = NamedSharding(mesh, PartitionSpec())
        self._by_row = NamedSharding(mesh, PartitionSpec(None, "batch"))

    @property
    def replicas(self) -> int:
        """One: random numbers belong to the global batch."""
        return 1

    def load(self, model: ModelWithLoss, state: StateArrays) -> None:
        """Take a model, and place its state, numpy arrays, on the devices."""
        self._model = model
        self._state: StateArrays = jax.tree.map(lambda array: jax.device_put(array, self._whole), state)

    def get(self) -> StateArrays:
        """Return a copy of the state as numpy arrays."""
        found: StateArrays = jax.tree.map(np.array, self._state)
        return found

    def update(self, inputs: ModelInputs, seeds: Seeds, factors: Floats, rate: float) -> StepResult:
        """Dispatch a step, and return its figures without waiting for them."""
        numbers = factors, np.float32(rate)
        self._state, result = self._update(self._state, self._rows(inputs), seeds[0], *numbers)
        return result

    def loss(self, inputs: ModelInputs) -> tuple[float, Floats, float]:
        """Return the sum of a batch's losses without dropout, its outputs, and the count of a loss hook."""
        total, outputs, count = self._loss(self._state.weights, self._rows(inputs))
        whole = np.asarray(outputs)
        return float(total), whole.reshape(whole.shape[0] * whole.shape[1], whole.shape[2]), float(count)

    @property
    def compiled(self) -> int:
        """Number of batch shapes for which the step was compiled."""
        return int(self._update._cache_size())

    def _rows(self, inputs: ModelInputs) -> ModelInputs:
        return ModelInputs(*(jax.device_put(field, self._by_row) for field in inputs))

    @cached_property
    def _update(self) -> Any:
        """The step. The old state is donated: the new one takes its memory."""
        dynamic_scale, optimizer = self._settings.precision == "fp16", self._settings.optimizer

        def update(state: StateArrays, inputs: ModelInputs, seeds: Any, factors: Any, rate: Any) -> Any:
            scale = state.scale if dynamic_scale else jnp.float32(1)
            part, gradient = self._gradient(state, inputs, seeds, factors, scale)
            loss = part.loss
            if self._model.has_loss_hook:
                loss, gradient = divided_by_count(part, gradient, factors[2])
            after, norm, taken = apply_update(state, gradient, rate, optimizer, dynamic_scale=dynamic_scale)
            return after, StepResult(loss, norm, taken, state.scale)

        return jax.jit(update, donate_argnums=0, out_shardings=self._whole)

    @cached_property
    def _loss(self) -> Any:
        def loss(weights: Any, inputs: ModelInputs) -> Any:
            totals, outputs, counts = lax.map(lambda part: self._model(weights, part), inputs)
            return totals.sum(), outputs, counts.sum()

        return jax.jit(loss, out_shardings=self._whole)

    def _gradient(self, state: StateArrays, inputs: ModelInputs, seeds: Any, factors: Any, scale: Any) -> Any:
        """Return the global batch's loss, and its gradient times the scale, accumulated over micro-batches."""
        trained = {name: state.weights[name] for name in state.m}

        def loss_of(trained: Any, part: ModelInputs, seeds: Any) -> Any:
            found = self._model.mean_loss(state.weights | trained, part, seeds, factors)
            return found.loss * scale, found

        def part_gradient(part: ModelInputs, seeds: Any) -> Any:
            (_, found), gradient = jax.value_and_grad(loss_of, has_aux=True)(trained, part, seeds)
            return found, gradient

        def add(sums: Any, given: Any) -> Any:
            return jax.tree.map(jnp.add, sums, part_gradient(*given)), None

        if self._settings.layout.accumulate == 1:  # nothing to accumulate
            return part_gradient(jax.tree.map(lambda field: field[0], inputs), seeds[0])
        zeros = LossPart(jnp.float32(0), jnp.float32(0)), jax.tree.map(jnp.zeros_like, trained)
        return lax.scan(add, zeros, (inputs, seeds))[0]


def _devices(layout: Layout, *, deterministic: bool) -> list[Any]:
    """Return the devices of a layout.

    Args:
        layout: the layout.
        deterministic: whether results on GPUs may not depend on the order of threads.

    Raises:
        MachineError: they are not available.
    """
    if layout.device == "cpu":
        jax.config.update("jax_num_cpu_devices", layout.devices)
    if layout.device == "gpu" and deterministic:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true".strip()
    try:
        found = jax.local_devices(backend=layout.device)
    except (RuntimeError, AssertionError) as error:
        found, reason = [], f": {error}" if str(error) else ""
    else:
        reason = f", but the plan uses {layout.devices}"
    if len(found) < layout.devices:
        fix = f'{SECTION}.device = "cpu", or install JAX for this device; `jprep doctor` lists what is installed'
        raise MachineError(f"JAX finds {len(found) or 'no'} {layout.device.upper()}{reason}", where=SECTION, fix=fix)
    return found[: layout.devices]
