"""The worker's command and environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.train.backend import WORKER_VARIABLES, large_pages
from jprep_keras.planning.layout import Layout

_JAX_PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}


def worker_settings(layout: Layout) -> dict[str, Any]:
    """Return the part of a layout that a worker needs."""
    return msgspec.to_builtins(msgspec.structs.replace(layout, target=None, smaller=()))  # type: ignore[no-any-return]


def worker_command(layout: Layout, run: Path) -> list[str]:
    """Return the module to run and its arguments."""
    settings = msgspec.json.encode(worker_settings(layout)).decode()
    return ["jprep_keras.worker", "train", str(run), "--layout", settings]


def worker_environment(layout: Layout) -> dict[str, str]:
    """Return the worker's environment variables. TensorFlow leaves GPUs of a CPU job alone."""
    variables = engine_variables(layout.engine)
    variables |= {"JAX_PLATFORMS": _JAX_PLATFORMS[layout.device]} if layout.engine == "jax" else {}
    on_cpu = {"CUDA_VISIBLE_DEVICES": "-1", **large_pages()} if layout.device == "cpu" else {}
    return WORKER_VARIABLES | variables | on_cpu


def engine_variables(engine: str) -> dict[str, str]:
    """Return the environment variables that choose what Keras computes with. TensorFlow logs errors only."""
    return {"KERAS_BACKEND": engine, "TF_CPP_MIN_LOG_LEVEL": "2"}
