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


def compile_gradient(function: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any, Any]]:
    """Return a compiled function for the gradient of a pure function by its first argument.

    Args:
        function: returns a number and another value; it may not depend on the argument.

    Returns:
        Returns the number, the other value and the gradient.
    """
    if keras.backend.backend() == "jax":
        import jax

        def found(*given: Any) -> tuple[Any, Any, Any]:
            (number, more), gradient = jax.value_and_grad(function, has_aux=True)(*given)
            return number, more, gradient

        return compile_function(found)
    import tensorflow as tf

    def recorded(x: Any, *given: Any) -> tuple[Any, Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            number, more = function(x, *given)
        return number, more, tape.gradient(number, x, unconnected_gradients="zero")

    return compile_function(recorded)
