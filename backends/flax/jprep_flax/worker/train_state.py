"""A model, its optimizer and the functions that XLA compiles of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array, lax

from jprep.io.safetensors_file import TensorFiles
from jprep.random.counter_bits import key
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader, TrainProgress
from jprep.train.run.directory import INIT
from jprep_flax.models import weights
from jprep_flax.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_flax.planning.layout import Layout
from jprep_flax.worker.checkpoint import Snapshot, snapshot
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.loss import NO_LABEL
from jprep_flax.worker.optimizer import INITIAL_LOSS_SCALE, StateArrays, UpdateKind, apply_update
from jprep_flax.worker.sharding import BATCH_AXES

_TYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}


class StepResult(NamedTuple):
    """What a step says of itself, on the devices.

    Attributes:
        loss: of the global batch, before the update.
        norm: of the gradient, before clipping.
        taken: whether the step was taken: not where fp16's scale was too large.
        scale: of the loss.
    """

    loss: Array
    norm: Array
    taken: Array
    scale: Array


class TrainState:
    """Holds a job's weights and averages, and changes them.

    Args:
        job: the job.
        run: the run directory.
        resume: the checkpoint to go on from; None at the beginning.
        place: the mesh.
        layout: the plan's.
        recompute: whether layers are computed again on the way back.
    """

    def __init__(
        self, job: Job, run: Path, resume: Path | None, place: DistributedContext, layout: Layout, *, recompute: bool
    ) -> None:
        self._job, self._place, self._layout = job, place, layout

        def build() -> ModelWithLoss:
            how = {"dtype": _TYPES[job.train.precision], "remat": recompute, "vocab": layout.vocabulary}
            return ModelWithLoss(job.model, job.train.task, **how, rngs=nnx.Rngs(0))

        self._graph, self._abstract = nnx.split(nnx.eval_shape(build))
        saved = CheckpointReader(resume) if resume else None
        self.state = self._restored(saved) if saved else self._begun(TensorFiles([run / INIT]))

    def update(self, step: int, rows: ModelInputs, rate: float) -> StepResult:
        """Take a step. It is under way when this returns; its figures are there when it is over.

        Args:
            step: from 1.
            rows: of the global batch, each field (times, rows, …).
            rate: the learning rate.
        """
        word = key(self._job.train.seed, "dropout", step - 1)
        with jax.set_mesh(self._place.mesh):
            self.state, found = self._update(self.state, rows, word.view(np.uint32), np.float32(rate))
        return found

    def measure(self, rows: ModelInputs) -> tuple[Array, Array]:
        """The sum of a batch's losses, and its outputs, (times, rows, labels)."""
        with jax.set_mesh(self._place.mesh):
            found: tuple[Array, Array] = self._measure(self.state.weights, rows)
        return found

    def snapshot(self) -> Snapshot:
        """All that a checkpoint holds, copied to this process's memory."""
        return snapshot(self.state, self._job, self._place)

    @property
    def compiled(self) -> int:
        """How many shapes of batches the step was compiled for."""
        return int(self._update._cache_size())

    @cached_property
    def _update(self) -> Any:
        """Compiled once for each shape of a batch. The state is given away: the new one takes its memory."""
        section, moving = self._job.train.optimizer, self._job.train.precision == "fp16"
        kinds = self._kinds()

        def update(state: StateArrays, rows: ModelInputs, word: Array, rate: Array) -> tuple[StateArrays, StepResult]:
            scale = state.scale if moving else jnp.float32(1)
            loss, gradient = self._gradient(state.weights, rows, word, scale)
            after, norm, taken = apply_update(state, gradient, rate, section, kinds, moving=moving)
            return after, StepResult(loss, norm, taken, state.scale)

        where = self._shardings()
        return jax.jit(update, donate_argnums=0, out_shardings=(where, self._place.sharding()))

    @cached_property
    def _measure(self) -> Any:
        def measure(state: nnx.State, rows: ModelInputs) -> tuple[Array, Array]:
            total, outputs = lax.map(lambda some: nnx.merge(self._graph, state)(some), rows)
            return total.sum(), outputs

        divided = self._place.sharding(None, BATCH_AXES) if self._job.train.data else self._place.sharding()
        return jax.jit(measure, out_shardings=(self._place.sharding(), divided))

    def _gradient(self, state: nnx.State, rows: ModelInputs, word: Array, scale: Array) -> tuple[Array, nnx.State]:
        """The global batch's loss, and its gradient times the scale: summed over some rows at a time."""
        known = jnp.sum(rows.weight) if self._job.train.data else jnp.sum(rows.labels != NO_LABEL)
        factor = 1 / jnp.maximum(known, 1).astype(jnp.float32)
        dropout = jax.random.wrap_key_data(word, impl="threefry2x32")

        def loss_of(weights: nnx.State, some: ModelInputs, number: Array) -> tuple[Array, Array]:
            loss, _ = nnx.merge(self._graph, weights)(some, jax.random.fold_in(dropout, number))
            return loss * factor * scale, loss * factor

        def part(some: ModelInputs, number: Array) -> tuple[Array, nnx.State]:
            (_, loss), gradient = jax.value_and_grad(loss_of, has_aux=True)(state, some, number)
            return loss, lax.with_sharding_constraint(gradient, self._where)

        def add(sums: tuple[Array, nnx.State], given: tuple[ModelInputs, Array]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, part(*given)), None

        times = self._layout.accumulate
        if times == 1:  # nothing to add up
            return part(jax.tree.map(lambda field: field[0], rows), jnp.int32(0))
        nothing = jnp.float32(0), jax.tree.map(jnp.zeros_like, state)
        return lax.scan(add, nothing, (rows, jnp.arange(times)))[0]

    @cached_property
    def _where(self) -> nnx.State:
        """How each weight is divided."""
        return self._each(lambda path, one: self._place.of_weight(one))

    def _shardings(self) -> StateArrays:
        one = self._place.sharding()
        return StateArrays(self._where, self._where, self._where, one, one, one)

    def _kinds(self) -> list[UpdateKind]:
        """What becomes of each weight, in the order of the leaves."""
        found: dict[weights.Path, UpdateKind] = {}
        for spot in weights.tensor_locations(self._job.model, self._job.train.task).values():
            decays = len(spot.tensor.shape) >= 2
            found[spot.path] = "still" if not spot.tensor.trained else "decays" if decays else "stays large"
        kinds: list[UpdateKind] = jax.tree.leaves(self._each(lambda path, one: found[path]))
        return kinds

    def _each(self, about: Callable[[weights.Path, Any], Any]) -> nnx.State:
        """Something of each weight, in the weights' tree."""
        flat = nnx.to_flat_state(self._abstract)
        return nnx.from_flat_state([(path, one.replace(about(path, one))) for path, one in flat])

    def _begun(self, tensors: TensorFiles) -> StateArrays:
        """The state before the first step."""
        scale = INITIAL_LOSS_SCALE if self._job.train.precision == "fp16" else 1.0
        m, v = (self._load(lambda name: np.zeros_like(tensors[name])) for _ in range(2))
        return self._state(self._load(tensors.__getitem__), m, v, TrainProgress(0, scale))

    def _restored(self, saved: CheckpointReader) -> StateArrays:
        """The state that was saved; of what is not trained there are no averages."""

        def average(mark: str, name: str) -> Any:
            found = saved.averages.get(f"{mark}.{name}")
            return np.zeros_like(saved.weights[name]) if found is None else found

        m, v = (self._load(lambda name, mark=mark: average(mark, name)) for mark in ("m", "v"))
        return self._state(self._load(saved.weights.__getitem__), m, v, saved.progress)

    def _state(self, own: nnx.State, m: nnx.State, v: nnx.State, progress: TrainProgress) -> StateArrays:
        numbers = (np.int32(progress.updates), np.float32(progress.scale), np.int32(progress.good))
        return StateArrays(own, m, v, *(jax.device_put(number, self._place.sharding()) for number in numbers))

    def _load(self, read: Any) -> nnx.State:
        return weights.load_weights(self._abstract, self._job.model, self._job.train.task, read, self._place.put)
