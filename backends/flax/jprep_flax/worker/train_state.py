"""A model, its optimizer, and the functions that XLA compiles for them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array, lax

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.io.safetensors_file import Floats, Shape, TensorFiles
from jprep.random.counter_bits import key
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep.train.optimization.layer_decay import rate_factors
from jprep.train.optimization.loss_scale import initial_loss_scale
from jprep.train.optimization.muon import uses_muon
from jprep.train.run.checkpoint_files import AVERAGES, CheckpointPart, CheckpointReader, TrainProgress
from jprep.train.worker.rtd_figures import SUMS
from jprep_flax.models import weights
from jprep_flax.models.dropout import choose_masks
from jprep_flax.models.loss import class_loss
from jprep_flax.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_flax.models.sharding import BATCH_AXES
from jprep_flax.planning.layout import Layout
from jprep_flax.worker.checkpoint import snapshot
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.optimizer import StateArrays, UpdateKind, apply_update
from jprep_flax.worker.profiling import OPTIMIZER_SCOPE

_DTYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}


class StepResult(NamedTuple):
    """Figures of a step, on the devices.

    Attributes:
        loss: loss of the global batch, before the update.
        norm: norm of the gradient, before clipping.
        taken: whether the step was taken; fp16 skips steps whose loss scale was too large.
        scale: the loss scale.
        sums: for `rtd`, the sums named by `jprep.train.worker.rtd_figures.SUMS`; else empty.
    """

    loss: Array
    norm: Array
    taken: Array
    scale: Array
    sums: Array


class _Figures(NamedTuple):
    """Sums over micro-batches.

    Attributes:
        loss: the loss, divided by the number of labels.
        sums: the sums of `rtd`; else empty.
        counted: the count of a loss hook; None without one.
    """

    loss: Array
    sums: Array
    counted: Array | None


class TrainState:
    """A job's weights and the optimizer's averages, with the compiled functions that use them.

    Args:
        job: the job.
        initial_weights: file with the weights of step 0 (`Session.initial_weights`).
        resume: the checkpoint to resume from; None to start with the initial weights.
        context: the devices.
        layout: the layout of the plan.
        gradient_checkpointing: whether to recompute the activations of each layer in the backward pass.
        hooks: the job's hooks.
    """

    def __init__(
        self,
        job: Job,
        initial_weights: Path,
        resume: Path | None,
        context: DistributedContext,
        layout: Layout,
        *,
        gradient_checkpointing: bool,
        hooks: LoadedHooks = NO_HOOKS,
    ) -> None:
        self._job, self._context, self._layout, self._hooks = job, context, layout, hooks
        choose_masks(job.dropout_masks)

        def build() -> ModelWithLoss:
            return ModelWithLoss(
                job.model,
                job.train.objective,
                dtype=_DTYPES[job.train.precision],
                remat=gradient_checkpointing,
                vocab=layout.vocabulary,
                z_loss=job.train.z_loss,
                hooks=hooks,
                rngs=nnx.Rngs(0),
            )

        self._graph, self._abstract = nnx.split(nnx.eval_shape(build))
        saved = CheckpointReader(resume) if resume else None
        self.arrays = self._restored(saved) if saved else self._initial(TensorFiles([initial_weights]))

    def update(self, step: int, inputs: ModelInputs, rate: float) -> StepResult:
        """Dispatch a step, and return its figures without waiting for them.

        Args:
            step: number of the step, from 1.
            inputs: the global batch; each field is (micro-batches, rows, …).
            rate: the learning rate.
        """
        seed = key(self._job.train.seed, "dropout", step - 1).view(np.uint32)
        self._inputs = inputs
        with jax.set_mesh(self._context.mesh):
            self.arrays, result = self._update(self.arrays, inputs, seed, np.float32(rate))
        return result

    def loss(self, inputs: ModelInputs) -> tuple[Array, Array, Array | None]:
        """Return the sum of a batch's losses without dropout, its outputs, and the count of a loss hook.

        The outputs are (micro-batches, rows, labels).
        """
        with jax.set_mesh(self._context.mesh):
            result: tuple[Array, Array, Array | None] = self._loss(self.arrays.weights, inputs)
        return result

    def program(self) -> str:
        """Compile the step for the last batch's shape once more, and return the program as text."""
        with jax.set_mesh(self._context.mesh):
            lowered = self._update.lower(self.arrays, self._inputs, np.zeros(2, np.uint32), np.float32(0))
            return str(lowered.compile().as_text())

    def snapshot(self) -> CheckpointPart:
        """Copy all that a checkpoint holds to this process's memory."""
        return snapshot(self.arrays, self._job, self._context)

    @property
    def compiled(self) -> int:
        """Number of batch shapes for which the step was compiled."""
        return int(self._update._cache_size())

    @cached_property
    def _update(self) -> Any:
        """The step, compiled once for each batch shape. The old state is donated: the new one takes its memory."""
        section, dynamic_scale = self._job.train.optimizer, self._job.train.precision == "fp16"
        kinds, factors = self._update_kinds(), self._rate_factors()
        matrices = self._matrices()

        def update(state: StateArrays, inputs: ModelInputs, seed: Array, rate: Array) -> tuple[StateArrays, StepResult]:
            scale = state.scale if dynamic_scale else jnp.float32(1)
            (loss, sums), gradient = self._gradient(state.weights, inputs, seed, scale)
            with jax.named_scope(OPTIMIZER_SCOPE):
                after, norm, taken = apply_update(
                    state, gradient, rate, section, kinds, factors, matrices, dynamic_scale=dynamic_scale
                )
            return after, StepResult(loss, norm, taken, state.scale, sums)

        shardings = self._state_shardings()
        return jax.jit(update, donate_argnums=0, out_shardings=(shardings, self._context.sharding()))

    @cached_property
    def _loss(self) -> Any:
        def loss(weights: nnx.State, inputs: ModelInputs) -> tuple[Array, Array, Array | None]:
            total, outputs, count = lax.map(lambda part: nnx.merge(self._graph, weights)(part), inputs)
            return total.sum(), outputs, None if count is None else count.sum()

        context = self._context
        has_outputs = self._job.train.has_labelled_rows or self._job.train.next_sentence
        outputs = context.sharding(None, BATCH_AXES) if has_outputs else context.sharding()
        return jax.jit(loss, out_shardings=(context.sharding(), outputs, context.sharding()))

    def _gradient(self, weights: nnx.State, inputs: ModelInputs, seed: Array, scale: Array) -> tuple[Any, nnx.State]:
        """Return the global batch's loss with the sums of `rtd`, and the gradient of the loss times the scale.

        All are accumulated over micro-batches.
        """
        labels = jnp.sum(inputs.weight) if self._job.train.has_labelled_rows else jnp.sum(inputs.labels != IGNORE_INDEX)
        labels = jnp.where(labels > 0, labels, 1)
        factor = 1 / labels.astype(jnp.float32)
        rows = jnp.maximum(jnp.sum(inputs.weight), 1)
        task, no_sums = self._job.train.task, jnp.zeros(len(SUMS) if self._job.train.task == "rtd" else 0)
        discriminator_factor = self._discriminator_weight(inputs) / factor
        dropout_key = jax.random.wrap_key_data(seed, impl="threefry2x32")

        def loss_of(weights: nnx.State, part: ModelInputs, number: Array) -> tuple[Array, _Figures]:
            model, own_key = nnx.merge(self._graph, weights), jax.random.fold_in(dropout_key, number)
            loss, outputs, count = model(part, own_key, discriminator_factor)
            mean = loss * factor
            if part.next_sentence is not None:
                mean += class_loss(outputs, part.next_sentence, part.weight) / rows
            return mean * scale, _Figures(mean, outputs if task == "rtd" else no_sums, count)

        def micro_batch_gradient(part: ModelInputs, number: Array) -> tuple[_Figures, nnx.State]:
            (_, figures), gradient = jax.value_and_grad(loss_of, has_aux=True)(weights, part, number)
            return figures, lax.with_sharding_constraint(gradient, self._weight_shardings)

        def add(sums: tuple[_Figures, nnx.State], given: tuple[ModelInputs, Array]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, micro_batch_gradient(*given)), None

        micro_batches = self._layout.accumulate
        if micro_batches == 1:  # nothing to accumulate
            figures, gradient = micro_batch_gradient(jax.tree.map(lambda field: field[0], inputs), jnp.int32(0))
        else:
            zeros = _Figures(jnp.float32(0), no_sums, jnp.float32(0) if self._hooks.loss else None)
            start = zeros, jax.tree.map(jnp.zeros_like, weights)
            figures, gradient = lax.scan(add, start, (inputs, jnp.arange(micro_batches)))[0]
        return _divided_by_count(figures, gradient, labels)

    def _discriminator_weight(self, inputs: ModelInputs) -> Array:
        """Return the weight of the discriminator's loss, divided by the number of tokens of the global batch."""
        tokens = jnp.maximum(jnp.sum(inputs.lengths * inputs.weight), 1)
        return self._job.train.rtd.discriminator_weight / tokens

    @cached_property
    def _weight_shardings(self) -> nnx.State:
        return self._map_weights(lambda path, variable: self._context.weight_sharding(variable))

    def _state_shardings(self) -> StateArrays:
        weights, number = self._weight_shardings, self._context.sharding()
        return StateArrays(weights, weights, self._without_muon(weights), number, number, number)

    def _update_kinds(self) -> list[UpdateKind]:
        """Return the kind of update of each weight, in the order of the leaves."""
        found: dict[weights.Path, UpdateKind] = {}
        for location in weights.tensor_locations(self._job.model, self._job.train.objective).values():
            decayed = self._job.train.optimizer.decay_of(len(location.tensor.shape)) > 0
            found[location.path] = "frozen" if not location.tensor.trained else "decayed" if decayed else "not decayed"
        kinds: list[UpdateKind] = jax.tree.leaves(self._map_weights(lambda path, variable: found[path]))
        return kinds

    @cached_property
    def _muon_shapes(self) -> dict[weights.Path, Shape]:
        """Shapes in transformers of the matrices that Muon updates, by the path of the array that holds them."""
        if self._job.train.optimizer.kind != "muon":
            return {}
        locations = weights.tensor_locations(self._job.model, self._job.train.objective)
        trained = {name: location for name, location in locations.items() if location.tensor.trained}
        shapes = {name: location.tensor.shape for name, location in trained.items()}
        return {trained[name].path: shape for name, shape in shapes.items() if uses_muon(name, shape)}

    def _matrices(self) -> list[Shape | None]:
        """Return the shape of the matrices of each weight that Muon updates, else None, in the order of the leaves."""
        shapes = self._map_weights(lambda path, variable: self._muon_shapes.get(path))
        leaves: list[Shape | None] = jax.tree.leaves(shapes, is_leaf=lambda one: one is None or isinstance(one, tuple))
        return leaves

    def _without_muon(self, state: nnx.State) -> nnx.State:
        """Return the part of a state that is not of weights which Muon updates."""
        return nnx.from_flat_state(
            [(path, one) for path, one in nnx.to_flat_state(state) if path not in self._muon_shapes]
        )

    def _rate_factors(self) -> list[Array] | None:
        """Return the factor of the learning rate of each weight, in the order of the leaves; None for 1 each."""
        decay = self._job.train.optimizer.layer_decay
        if decay == 1:
            return None
        locations = weights.tensor_locations(self._job.model, self._job.train.objective)
        found: dict[weights.Path, list[float]] = {}
        for name, factor in rate_factors(locations, decay).items():
            found.setdefault(locations[name].path, []).append(factor)

        def factors(path: weights.Path, variable: Any) -> Array:
            own = jnp.array(found[path], jnp.float32)
            return own.reshape(-1, *(1,) * (len(variable.shape) - 1)) if len(own) > 1 else own[0]

        leaves: list[Array] = jax.tree.leaves(self._map_weights(factors))
        return leaves

    def _map_weights(self, function: Callable[[weights.Path, Any], Any]) -> nnx.State:
        """Return a function's value for each weight, in the structure of the weights."""
        flat = nnx.to_flat_state(self._abstract)
        return nnx.from_flat_state([(path, one.replace(function(path, one))) for path, one in flat])

    def _initial(self, tensors: TensorFiles) -> StateArrays:
        progress = TrainProgress(0, initial_loss_scale(self._job.train.precision))
        m, v = (self._load_average(mark, lambda name: _zeros_like(tensors[name])) for mark in AVERAGES)
        return self._with_progress(self._load(tensors.__getitem__), m, v, progress)

    def _restored(self, saved: CheckpointReader) -> StateArrays:
        """Return the state of a checkpoint; weights that are not trained have no averages there."""

        def average(mark: str, name: str) -> Any:
            found = saved.averages.get(f"{mark}.{name}")
            return _zeros_like(saved.weights[name]) if found is None else found

        m, v = (self._load_average(mark, partial(average, mark)) for mark in AVERAGES)
        return self._with_progress(self._load(saved.weights.__getitem__), m, v, saved.progress)

    def _with_progress(self, loaded: nnx.State, m: nnx.State, v: nnx.State, progress: TrainProgress) -> StateArrays:
        numbers = (np.int32(progress.updates), np.float32(progress.scale), np.int32(progress.good))
        return StateArrays(loaded, m, v, *(jax.device_put(number, self._context.sharding()) for number in numbers))

    def _load_average(self, mark: str, read: Callable[[str], Floats]) -> nnx.State:
        """Return an average of the weights that have it."""
        return self._load(read, self._muon_shapes if mark == AVERAGES[1] else ())

    def _load(self, read: Callable[[str], Floats], without: Collection[weights.Path] = ()) -> nnx.State:
        config, task = self._job.model, self._job.train.objective
        return weights.load_weights(self._abstract, config, task, read, self._context.put, without)


def _zeros_like(tensor: Floats) -> Floats:
    """Return zeros in the shape of a tensor, which take no memory."""
    return np.broadcast_to(np.float32(0), tensor.shape)


def _divided_by_count(figures: _Figures, gradient: nnx.State, labels: Array) -> tuple[Any, nnx.State]:
    """Return loss, sums and gradient, divided by a hook's count in place of the number of labels."""
    if figures.counted is None:
        return (figures.loss, figures.sums), gradient
    factor = labels / jnp.where(figures.counted == 0, 1, figures.counted)
    return (figures.loss * factor, figures.sums), jax.tree.map(lambda one: one * factor, gradient)
