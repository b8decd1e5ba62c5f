"""TensorFlow: one device, several (`MirroredStrategy`), or TPUs (`TPUStrategy`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from jprep.errors import MachineError
from jprep_keras.engines.base import Engine, EngineSettings, Floats, Seeds, divided_by_count
from jprep_keras.models.model_with_loss import LossPart, ModelInputs, ModelWithLoss
from jprep_keras.options import SECTION
from jprep_keras.planning.layout import Layout
from jprep_keras.worker.optimizer import StateArrays, StepResult, Tensors, apply_update


class TensorFlowEngine(Engine):
    """Computes steps in `tf.function`s under a strategy of `tf.distribute`.

    Every replica holds all weights. It computes the gradient of its rows; gradients are summed over the replicas, and
    each makes the same update.

    Args:
        settings: how to compute.

    Raises:
        MachineError: the devices are not available.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        tf.config.experimental.enable_tensor_float_32_execution(settings.precision != "fp32")
        if settings.deterministic:
            tf.config.experimental.enable_op_determinism()
        self._strategy = make_strategy(settings.layout)
        self._update = tf.function(self._distributed_update, reduce_retracing=True, autograph=False)
        self._loss = tf.function(self._distributed_loss, reduce_retracing=True, autograph=False)
        self._part_gradient = tf.function(
            self._gradient_of_part, reduce_retracing=True, autograph=False, jit_compile=settings.jit_compile
        )

    @property
    def replicas(self) -> int:
        """Number of devices."""
        return int(self._strategy.num_replicas_in_sync)

    def load(self, model: ModelWithLoss, state: StateArrays) -> None:
        """Take a model, and place its state, numpy arrays, on the devices."""
        self._model = model
        with self._strategy.scope():
            self._state = tf.nest.map_structure(_variable, state)

    def get(self) -> StateArrays:
        """Return a copy of the state as numpy arrays."""
        found: StateArrays = tf.nest.map_structure(lambda variable: np.array(variable.numpy()), self._state)
        return found

    def update(self, inputs: ModelInputs, seeds: Seeds, factors: Floats, rate: float) -> StepResult:
        """Dispatch a step, and return its figures without waiting for them."""
        per_replica = self._distribute(lambda replica: seeds[replica].astype(np.int64))
        numbers = (tf.constant(number, tf.float32) for number in (factors, rate))
        result = self._update(self._rows(inputs), per_replica, *numbers)
        return StepResult(*(self._strategy.experimental_local_results(one)[0] for one in result))

    def loss(self, inputs: ModelInputs) -> tuple[float, Floats, float]:
        """Return the sum of a batch's losses without dropout, its outputs, and the count of a loss hook."""
        found = self._loss(self._rows(inputs))
        totals, outputs, counts = (self._strategy.experimental_local_results(one) for one in found)
        whole = np.concatenate([part.numpy() for part in outputs], axis=1)
        total, count = (sum(float(number) for number in numbers) for numbers in (totals, counts))
        return total, whole.reshape(whole.shape[0] * whole.shape[1], whole.shape[2]), count

    @property
    def compiled(self) -> int:
        """Number of batch shapes for which the step was traced."""
        return int(self._update.experimental_get_tracing_count())

    def _rows(self, inputs: ModelInputs) -> Any:
        """Give each replica its rows of every micro-batch."""
        rows = inputs.ids.shape[1] // self.replicas

        def part(replica: int) -> ModelInputs:
            return ModelInputs(*(field[:, replica * rows : (replica + 1) * rows] for field in inputs))

        return self._distribute(part)

    def _distribute(self, values: Callable[[int], Any]) -> Any:
        """Return values that differ among the replicas."""

        def value(context: Any) -> Any:
            return tf.nest.map_structure(tf.convert_to_tensor, values(context.replica_id_in_sync_group))

        return self._strategy.experimental_distribute_values_from_function(value)

    def _distributed_update(self, inputs: Any, seeds: Any, factors: Any, rate: Any) -> Any:
        return self._strategy.run(self._replica_update, args=(inputs, seeds, factors, rate))

    def _distributed_loss(self, inputs: Any) -> Any:
        return self._strategy.run(self._replica_loss, args=(inputs,))

    def _replica_update(self, inputs: ModelInputs, seeds: Any, factors: Any, rate: Any) -> StepResult:
        """Compute this replica's gradient, and make the update that all replicas make."""
        dynamic_scale = self._settings.precision == "fp16"
        state: StateArrays = tf.nest.map_structure(tf.convert_to_tensor, self._state)
        scale = state.scale if dynamic_scale else tf.constant(1.0)
        found = self._gradient(state, inputs, seeds, factors, scale)
        part, gradient = tf.distribute.get_replica_context().all_reduce("SUM", found)
        loss = part.loss
        if self._model.has_loss_hook:
            loss, gradient = divided_by_count(part, gradient, factors[2])
        after, norm, taken = apply_update(state, gradient, rate, self._settings.optimizer, dynamic_scale=dynamic_scale)
        tf.nest.map_structure(lambda variable, value: variable.assign(value), self._state, after)
        return StepResult(loss, norm, taken, state.scale)

    def _replica_loss(self, inputs: ModelInputs) -> Any:
        weights = tf.nest.map_structure(tf.convert_to_tensor, self._state.weights)
        number = tf.TensorSpec((), tf.float32)
        shape = (number, tf.TensorSpec((None, None), tf.float32), number)
        found = tf.map_fn(lambda part: self._model(weights, part), inputs, fn_output_signature=shape)
        return tf.reduce_sum(found[0]), found[1], tf.reduce_sum(found[2])

    def _gradient(self, state: StateArrays, inputs: ModelInputs, seeds: Any, factors: Any, scale: Any) -> Any:
        """Return the loss of this replica's rows, and its gradient times the scale, accumulated over micro-batches."""
        trained = {name: state.weights[name] for name in state.m}
        frozen = {name: weight for name, weight in state.weights.items() if name not in trained}

        def part_gradient(number: Any) -> Any:
            part = tf.nest.map_structure(lambda field: field[number], inputs)
            return self._part_gradient(trained, frozen, part, seeds[number], factors, scale)

        if self._settings.layout.accumulate == 1:  # nothing to accumulate
            return part_gradient(0)

        def add(number: Any, sums: Any) -> Any:
            return number + 1, tf.nest.map_structure(tf.add, sums, part_gradient(number))

        zeros = LossPart(tf.constant(0.0), tf.constant(0.0)), tf.nest.map_structure(tf.zeros_like, trained)
        count = self._settings.layout.accumulate
        return tf.while_loop(lambda number, _: number < count, add, (tf.constant(0), zeros))[1]

    def _gradient_of_part(
        self, trained: Tensors, frozen: Tensors, part: ModelInputs, seeds: Any, factors: Any, scale: Any
    ) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(trained)
            found = self._model.mean_loss(trained | frozen, part, seeds, factors)
            scaled = found.loss * scale
        gradient = tape.gradient(scaled, trained, unconnected_gradients="zero")
        return found, tf.nest.map_structure(tf.convert_to_tensor, gradient)  # lookups have sparse gradients


def make_strategy(layout: Layout) -> Any:
    """Return the strategy of `tf.distribute` for the devices of a layout.

    Raises:
        MachineError: the devices are not available.
    """
    try:
        if layout.device == "tpu":
            strategy = _tpu_strategy(layout)
            _check_cores(strategy, layout)
            return strategy
        devices = _devices(layout)
    except (RuntimeError, ValueError, tf.errors.OpError) as error:
        raise _missing(f"no {layout.device.upper()}: {error}") from error
    if len(devices) < layout.devices:
        raise _missing(f"{len(devices) or 'no'} {layout.device.upper()}, but the plan uses {layout.devices}")
    if layout.devices == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    across = tf.distribute.ReductionToOneDevice() if layout.device == "cpu" else None
    return tf.distribute.MirroredStrategy(devices[: layout.devices], cross_device_ops=across)


def _devices(layout: Layout) -> list[str]:
    if layout.device == "cpu":
        [cpu] = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * layout.devices
        tf.config.set_logical_device_configuration(cpu, parts)
    return [device.name for device in tf.config.list_logical_devices(layout.device.upper())]


def _tpu_strategy(layout: Layout) -> Any:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=layout.tpu)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _check_cores(strategy: Any, layout: Layout) -> None:
    """Raise MachineError unless a TPU has the devices of the plan: rows are divided among them."""
    count = int(strategy.num_replicas_in_sync)
    if count != layout.devices:
        what = f"TensorFlow finds {count} TPU cores, but the plan uses {layout.devices}"
        raise MachineError(what, where=SECTION, fix=f"{SECTION}.devices = {count}")


def _missing(found: str) -> MachineError:
    fix = f'{SECTION}.device = "cpu", or install TensorFlow for this device; `jprep doctor` lists what is installed'
    return MachineError(f"TensorFlow finds {found}", where=SECTION, fix=fix)


def _variable(value: npt.NDArray[Any]) -> Any:
    """Return a variable that each replica assigns by itself, to the same value."""
    return tf.Variable(
        value,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
