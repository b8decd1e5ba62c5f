"""Tests of jprep-flax. They run in an environment that has JAX and Flax: `python -m pytest backends/flax/tests`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")

if find_spec("flax"):
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4)
else:
    collect_ignore_glob = ["test_*"]


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Workers compile the same programs again and again: they find them where an earlier one has left them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
        yield
