"""What Keras computes with: TensorFlow under `tf.distribute`, or JAX."""

from __future__ import annotations

import keras

from jprep_keras.engines.base import Engine, EngineSettings


def create_engine(settings: EngineSettings) -> Engine:
    """Return the engine that Keras was imported with (`KERAS_BACKEND`).

    Raises:
        MachineError: the devices of the layout are not available.
    """
    if keras.backend.backend() == "jax":
        from jprep_keras.engines.jax_engine import JaxEngine

        return JaxEngine(settings)
    from jprep_keras.engines.tensorflow_engine import TensorFlowEngine

    return TensorFlowEngine(settings)
