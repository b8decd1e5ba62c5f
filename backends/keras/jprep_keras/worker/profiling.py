"""Traces of training steps by the profiler of the engine: TensorFlow's, or jax.profiler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import keras
import numpy as np

NOTE = "A step of the backend keras is one program: device is its forward and backward pass and its optimizer."


class EngineTracer(ABC):
    """An engine's profiler, which writes a profile for TensorBoard's plugin `profile` (xprof).

    Args:
        result: returns a number that the newest step computes; None before the first one.
    """

    def __init__(self, result: Callable[[], Any]) -> None:
        self._result = result

    @abstractmethod
    def start(self, folder: Path) -> None:
        """Start recording operations of the host and of the devices."""

    @abstractmethod
    def stop(self) -> None:
        """Write the trace."""

    @abstractmethod
    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context whose operations are marked with a name."""

    def wait(self) -> None:
        """Wait until the devices have computed the newest step."""
        if (result := self._result()) is not None:
            np.asarray(result)

    def device_shares(self) -> Mapping[str, float]:
        """Return nothing: the names of the operations do not show their phase."""
        return {}


class TensorFlowTracer(EngineTracer):
    """tf.profiler."""

    def start(self, folder: Path) -> None:
        """Start recording operations of the host and of the devices."""
        import tensorflow as tf

        tf.profiler.experimental.start(str(folder))

    def stop(self) -> None:
        """Write the trace."""
        import tensorflow as tf

        tf.profiler.experimental.stop()

    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context whose operations are marked with a name."""
        import tensorflow as tf

        mark: AbstractContextManager[object] = tf.profiler.experimental.Trace(name)
        return mark


class JaxTracer(EngineTracer):
    """jax.profiler, which writes a profile for Perfetto as well."""

    def start(self, folder: Path) -> None:
        """Start recording operations of the host and of the devices."""
        import jax

        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # its events would fill the trace
        jax.profiler.start_trace(folder, create_perfetto_trace=True, profiler_options=options)

    def stop(self) -> None:
        """Write the trace."""
        import jax

        jax.profiler.stop_trace()

    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context whose operations are marked with a name."""
        import jax

        mark: AbstractContextManager[object] = jax.profiler.TraceAnnotation(name)
        return mark


def create_tracer(result: Callable[[], Any]) -> EngineTracer:
    """Return the profiler of the engine that Keras was imported with.

    Args:
        result: returns a number that the newest step computes; None before the first one.
    """
    return JaxTracer(result) if keras.backend.backend() == "jax" else TensorFlowTracer(result)
