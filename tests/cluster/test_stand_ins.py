"""PBS Pro and Grid Engine: stand-ins for their commands run the jobs of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import BUILD
from tests.conftest import Run, digests
from tests.fakes.batch_scheduler import install


@pytest.mark.parametrize("kind", ["pbs", "grid-engine"])
def test_a_build_in_jobs(kind: str, texts: Path, jprep: Run) -> None:
    env = install(kind, texts / "scheduler")
    options = ["--executor", kind, "--set", "executor.poll=0.2", "--set", "executor.time='1:00:00'"]
    jprep(*BUILD, "a cluster", *options, cwd=texts, env=env)
    assert digests(texts / "a cluster") == digests(texts / "local")
    assert list((texts / "scheduler/jobs").glob("*.sh"))


def test_a_build_that_goes_on_in_jobs(texts: Path, jprep: Run) -> None:
    env = install("pbs", texts / "scheduler")
    left = jprep(*BUILD, "a cluster", "--executor", "pbs", "--set", "executor.wait=false", cwd=texts, env=env)
    assert "continues after it" in left.stderr
    while not (texts / "a cluster/corpus.json").exists():
        found = jprep("status", "a cluster", "--json", cwd=texts, env=env).stdout
        assert '"failed":[]' in found or '"finished":true' in found
    shown = jprep("status", "a cluster", cwd=texts, env=env).stdout
    assert "nothing: it is finished" in shown
    assert digests(texts / "a cluster") == digests(texts / "local")
