"""Tests of jprep-flax. They run in an environment that has JAX and Flax: `python -m pytest backends/flax/tests`."""

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
    jax.config.update("jax_disable_most_optimizations", True)  # of this process; workers are compiled as ever
else:
    collect_ignore_glob = ["test_*"]


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same programs are compiled again and again: they are found where an earlier test or worker has left them."""
    own = tmp_path_factory.getbasetemp()
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or _compiled(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        yield


def _compiled(own: Path) -> Path:
    """A folder that all of xdist's processes share."""
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "compiled"
