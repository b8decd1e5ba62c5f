"""Tests of jprep-flax, for an environment with JAX and Flax: `python -m pytest backends/flax/tests`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

if find_spec("flax"):
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_disable_most_optimizations", True)  # in this process only, not in workers
else:
    collect_ignore_glob = ["test_*"]


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share compiled programs among tests and workers: the same ones are needed again and again."""
    own = tmp_path_factory.getbasetemp()
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or _compiled(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        yield


def _compiled(own: Path) -> Path:
    """Return a directory that all processes of xdist share."""
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "compiled"
