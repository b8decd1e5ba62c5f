"""What Keras computes with: TensorFlow under `tf.distribute`, or JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pure function compiled once for each shape of its arguments."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, reduce_retracing=True, autograph=False)
