"""The executor `grid-engine` with a real Grid Engine of one host on this machine."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import BUILD
from tests.conftest import COMMAND, PATIENCE, Run, digests, environment
from tests.servers.grid_engine import GridEngineCluster, grid_engine_cluster
from tests.servers.process import wait_until

pytestmark = pytest.mark.backends

ON_GRID_ENGINE = ["--executor", "grid-engine", "--set", "executor.poll=0.5"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[GridEngineCluster]:
    with tempfile.TemporaryDirectory(prefix="jprep-ge-") as folder, grid_engine_cluster(Path(folder)) as found:
        yield found


def test_a_killed_host_loses_nothing(texts: Path, cluster: GridEngineCluster) -> None:
    command = [COMMAND, *BUILD, "a cluster, $HOME", *ON_GRID_ENGINE, "--quiet"]
    process = subprocess.Popen(command, cwd=texts, env=environment(**cluster.env), stdout=subprocess.DEVNULL)
    wait_until(cluster.running, "a job begins")
    cluster.kill_host()
    cluster.start_host()
    assert process.wait(PATIENCE) == 0
    assert digests(texts / "a cluster, $HOME") == digests(texts / "local")


def test_leave_and_ask_later(texts: Path, cluster: GridEngineCluster, jprep: Run) -> None:
    options = [*ON_GRID_ENGINE, "--set", "executor.wait=false", "--set", "executor.cpus=2"]
    jprep(*BUILD, "a cluster", *options, cwd=texts, env=cluster.env)
    seen, deadline = set[tuple[str, str]](), time.monotonic() + PATIENCE
    while not (texts / "a cluster/corpus.json").exists():
        assert time.monotonic() < deadline
        [found] = json.loads(jprep("status", "a cluster", "--json", cwd=texts, env=cluster.env).stdout)
        seen |= {(job["state"], job["reason"]) for job in found["jobs"]}
        time.sleep(0.3)
    held = [reason for state, reason in seen if state == "held"]
    assert any("until another job ends" in reason for reason in held) and ("running", "") in seen
    assert digests(texts / "a cluster") == digests(texts / "local")


def test_a_failed_task_is_named_with_its_log(tmp_path: Path, cluster: GridEngineCluster, jprep: Run) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": \n' * 30, encoding="utf-8")
    build = ["corpus", "build", "--jsonl", "bad.jsonl", "--segmenter", "none", "-o", "cluster", *ON_GRID_ENGINE]
    failed = jprep(*build, cwd=tmp_path, env=cluster.env, code=4).stderr
    log = Path(failed.partition(", log ")[2].split("\n")[0])
    assert (tmp_path / log).exists() and "where: task " in failed and "not a JSON object" in failed
    refused = jprep(*build, "--set", "executor.partition='nosuch'", cwd=tmp_path, env=cluster.env, code=3).stderr
    assert 'requests unknown queue "nosuch"' in refused
