"""The executor `slurm` with a real Slurm of two nodes on this machine."""

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
from tests.servers.slurm import NODES, SlurmCluster, slurm_cluster

pytestmark = pytest.mark.backends

ON_SLURM = ["--executor", "slurm", "--set", "executor.poll=0.5"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="jprep-slurm-") as folder, slurm_cluster(Path(folder)) as found:
        yield found


def test_a_killed_node_loses_nothing(texts: Path, cluster: SlurmCluster) -> None:
    command = [COMMAND, *BUILD, "cluster", *ON_SLURM, "--quiet"]
    process = subprocess.Popen(command, cwd=texts, env=environment(**cluster.env), stdout=subprocess.DEVNULL)
    node = _await_job(cluster)
    cluster.kill_node(node)
    cluster.report_down(node)
    cluster.start_node(node)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < deadline
        for job in cluster.command("squeue", "-h", "-t", "PENDING", "-o", "%A").split():  # not only in two minutes
            cluster.command("scontrol", "update", f"jobid={job}", "StartTime=now")
        time.sleep(1)
    assert process.returncode == 0
    assert digests(texts / "cluster") == digests(texts / "local")


def _await_job(cluster: SlurmCluster) -> str:
    """Return a node on which a job's process has begun."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if node := next(filter(cluster.processes, NODES), ""):
            return node
        time.sleep(0.2)
    raise AssertionError("no job has begun")


def test_leave_and_ask_later(texts: Path, cluster: SlurmCluster, jprep: Run) -> None:
    options = [*ON_SLURM, "--set", "executor.wait=false"]
    jprep(*BUILD, "cluster", *options, cwd=texts, env=cluster.env)
    again = jprep(*BUILD, "cluster", *options, cwd=texts, env=cluster.env, code=0)
    assert "submitted" not in again.stderr or "cluster/corpus.json" in again.stdout
    seen, deadline = set[str](), time.monotonic() + PATIENCE
    while not (texts / "cluster/corpus.json").exists():
        assert time.monotonic() < deadline
        [found] = json.loads(jprep("status", "cluster", "--json", cwd=texts, env=cluster.env).stdout)
        seen |= {job["state"] for job in found["jobs"]}
        time.sleep(0.2)
    assert seen & {"pending", "running"}
    assert digests(texts / "cluster") == digests(texts / "local")


def test_a_failed_task_is_named_with_its_log(tmp_path: Path, cluster: SlurmCluster, jprep: Run) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": \n' * 30, encoding="utf-8")
    build = ["corpus", "build", "--jsonl", "bad.jsonl", "--segmenter", "none", "-o", "cluster", *ON_SLURM]
    failed = jprep(*build, cwd=tmp_path, env=cluster.env, code=4).stderr
    log = Path(failed.partition(", log ")[2].split("\n")[0])
    assert (tmp_path / log).exists() and "where: task " in failed and "not a JSON object" in failed
    shown = jprep("status", "cluster", cwd=tmp_path, env=cluster.env).stdout
    assert "1 failed" in shown and str(log.name) in shown and "repeat the command that started it" in shown
