"""The worker's command and environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.train.backend import WORKER_VARIABLES, large_pages
from jprep_flax.options import JAX_PLATFORMS
from jprep_flax.planning.layout import Layout


def worker_settings(layout: Layout) -> dict[str, Any]:
    """Return the part of a layout that a worker needs."""
    return msgspec.to_builtins(msgspec.structs.replace(layout, target=None, smaller=()))  # type: ignore[no-any-return]


def worker_command(layout: Layout, run: Path) -> list[str]:
    """Return the module to run and its arguments: the worker, or the launcher of several."""
    arguments = ["train", str(run), "--layout", msgspec.json.encode(worker_settings(layout)).decode()]
    if layout.processes > 1 and not layout.coordinator and not layout.per_host:
        return ["jprep_flax.worker.launcher", str(layout.processes), *arguments]
    return ["jprep_flax.worker", *arguments]


def worker_environment(layout: Layout) -> dict[str, str]:
    """Return the worker's environment variables."""
    pages = large_pages() if layout.device == "cpu" else {}
    return WORKER_VARIABLES | {"JAX_PLATFORMS": JAX_PLATFORMS[layout.device]} | pages
