"""Training over the two nodes of a Slurm, with nodes that are killed. Each curve is compared with the golden one."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.testing.backend_suite.cases import STEPS, case_of, golden_curve
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner
from jprep.testing.backend_suite.suite import PARITY
from jprep.train.backend_loading import load_backend
from jprep.train.hosts.watch import NODE_SECONDS
from jprep.train.launcher.environments import worker_python
from jprep.train.run.directory import read_plan
from jprep.train.run.events import read_events
from tests.conftest import COMMAND, PATIENCE, environment
from tests.servers.process import free_port
from tests.servers.slurm import SlurmCluster, slurm_cluster

pytestmark = pytest.mark.backends

CASE = "gpt2-clm"
SAVED = 5
KILLED = {"validation": {"every_steps": 0}, "checkpoint": {"every_steps": SAVED}, "max_restarts": 20}
"""A case's steps take seconds: nodes are killed right after its first checkpoint."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("s"), timeout=10) as running:
        yield running


@pytest.fixture
def allocation(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """Put this process into an allocation of both nodes, which survives the loss of one of them."""
    asked = ["salloc", "--no-shell", "--no-kill", "--nodes=2"]
    done = subprocess.run(asked, env=environment(**cluster.env), capture_output=True, text=True, check=True)
    found = re.search(r"allocation (\d+)", done.stderr)
    assert found, done.stderr
    variables = {"SLURM_JOB_ID": found[1], "SLURM_JOB_NODELIST": "n[0-1]", NODE_SECONDS: "20", **cluster.env}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield cluster
    cluster.command("scancel", found[1])


@pytest.mark.soak
def test_a_run_on_two_nodes_ends_on_one_after_the_other_is_lost(allocation: SlurmCluster, tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu", "threads": 1})
    prepared = bench.prepare(CASE, hosts="slurm", **KILLED)
    assert prepared.plan.placement and prepared.plan.placement.names == ("n0", "n1")
    with in_thread(lambda: bench.train(prepared)) as ended:
        wait_for("checkpoint", prepared.run, SAVED, lambda: bool(ended))
        allocation.kill_node("n1")
    assert ended, "the run has not ended"
    assert ended[0].code == 0, ended[0].messages
    assert "lost n1" in ended[0].messages
    is_golden(prepared.run)
    last = read_plan(prepared.run)
    assert last.placement and (last.placement.names, last.processes, last.micro_batch) == (("n0",), 1, 8)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("backend", "options"), [("torch", {}), ("torch", {"shard": "yes"}), ("deepspeed", {"stage": 2}), ("flax", {})]
)
def test_a_job_that_lost_its_first_node_is_requeued_and_ends_on_the_other(
    cluster: SlurmCluster, tmp_path: Path, backend: str, options: dict[str, Any]
) -> None:
    run = tmp_path / "my run"
    submitted = submit(cluster, tmp_path, run, backend, options)
    job, logs = submitted["job"], Path(submitted["logs"])
    wait_for("checkpoint", run, SAVED)
    assert len(read_plan(run).placement.names) == 2  # type: ignore[union-attr]
    lose_first_node(cluster, job)
    log = (logs / f"{job}.log").read_text()
    off = is_golden(run, log)
    assert read_plan(run).placement.names == ("n1",)  # type: ignore[union-attr]
    print(f"{backend} {options}: off by at most {off:.2g} over {STEPS} steps")


@pytest.mark.soak
def test_flax_with_a_coordinator_loses_its_first_node_and_ends_on_the_other(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The user starts the process of each node, and one process for all on a single node."""
    run, script, log = tmp_path / "run", tmp_path / "job.sh", tmp_path / "job.log"
    train = shlex.join(training_command(tmp_path, run, "flax", {}))
    join = shlex.join([str(worker_python(load_backend("flax"))), "-m", "jprep.train.launcher.multihost", str(run), "1"])
    settings = {"processes": "2", "coordinator": f'"127.0.0.1:{free_port()}"'}
    more = shlex.join(
        word for name, value in settings.items() for word in ("--set", f"train.backend.flax.{name}={value}")
    )
    script.write_text(f"""#!/bin/bash
#SBATCH --nodes=1-2 --requeue --open-mode=append --output={log}
if [ "$SLURM_JOB_NUM_NODES" = 2 ]; then
  srun --overlap --nodes=1 --ntasks=1 --nodelist=n1 {join} &
  set -- {more}
fi
exec {train} --set train.hosts=none "$@"
""")
    env = environment(**cluster.env)
    done = subprocess.run(["sbatch", "--parsable", script], env=env, capture_output=True, text=True, check=True)
    wait_for("checkpoint", run, SAVED)
    assert read_plan(run).machines == 2
    lose_first_node(cluster, done.stdout.strip())
    off = is_golden(run, log.read_text())
    assert read_plan(run).machines == 1
    print(f"flax with coordinator: off by at most {off:.2g} over {STEPS} steps")


@pytest.mark.soak
def test_a_job_near_its_time_limit_saves_and_is_requeued(cluster: SlurmCluster, tmp_path: Path) -> None:
    run = tmp_path / "run"
    endless = {"steps": 1_000_000, "checkpoint": {"every_steps": 0}}
    submitted = submit(cluster, tmp_path, run, "torch", {}, **endless)
    job = submitted["job"]
    wait_for("log", run, 5)
    cluster.command("scancel", "--batch", "--signal=USR1", job)
    wait_until(lambda: "PENDING" in cluster.command("squeue", "-h", "-j", job, "-o", "%T"), "the job is requeued")
    saved = [event.step for event in read_events(run) if event.kind == "checkpoint"]
    assert len(saved) == 1 and saved[0] >= 5
    assert f"job {job} was requeued" in (Path(submitted["logs"]) / f"{job}.log").read_text()
    cluster.command("scontrol", "update", f"jobid={job}", "StartTime=now")
    wait_for("log", run, saved[0] + 3)
    cluster.command("scancel", job)
    assert [event.step for event in read_events(run) if event.kind == "start"] == [0, saved[0]]


def submit(
    cluster: SlurmCluster, folder: Path, run: Path, backend: str, options: dict[str, Any], **changes: Any
) -> dict[str, str]:
    """Submit a case as a user does; return what the command printed."""
    changes |= {"submit": {"nodes": 2, "min_nodes": 1}}
    command = [*training_command(folder, run, backend, options, **changes), "--executor", "slurm", "--json"]
    env = environment(**cluster.env, **{NODE_SECONDS: "20"})
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def training_command(folder: Path, run: Path, backend: str, options: dict[str, Any], **changes: Any) -> list[str]:
    """Write a case as a recipe, with its tokenizer and dataset; return the command that trains it."""
    chosen = case_of(CASE)
    section = chosen.section | KILLED | changes
    section |= {"backend": {backend: {"device": "cpu"} | options}}
    recipe = folder / "golden.toml"
    recipe.write_text(f'version = 1\nname = "golden"\ntrain = {inline(section)}\n')
    tokenizer, dataset = folder / "tokenizer", folder / "dataset"
    write_suite_tokenizer(tokenizer, chosen.special)
    write_suite_dataset(dataset, chosen.special)
    command = [COMMAND, "train", str(recipe), "--backend", backend, "--tokenizer", str(tokenizer)]
    return [*command, "--dataset", str(dataset), "-o", str(run)]


def lose_first_node(cluster: SlurmCluster, job: str) -> None:
    """Kill the first node of a job, and wait until the job has run again and ended."""
    cluster.kill_node("n0")
    wait_until(lambda: "PENDING" in cluster.command("squeue", "-h", "-j", job, "-o", "%T"), "the job is requeued")
    cluster.command("scontrol", "update", f"jobid={job}", "StartTime=now")
    wait_until(lambda: not cluster.command("squeue", "-h", "-j", job, "-o", "%T"), "the job ends")


def inline(value: Any) -> str:
    """Return plain data as a value of TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {inline(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


class in_thread:
    """Call a function in a thread during a block; yields a list that gets its result."""

    def __init__(self, call: Callable[[], FinishedRun]) -> None:
        self._ended: list[FinishedRun] = []
        self._thread = threading.Thread(target=lambda: self._ended.append(call()))

    def __enter__(self) -> list[FinishedRun]:
        self._thread.start()
        return self._ended

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE)


def is_golden(run: Path, message: str = "") -> float:
    """Assert that a run was resumed once and took the steps of the golden curve; return the largest deviation."""
    finished = FinishedRun(run, 0, message)
    first, second = (event.step for event in finished.events() if event.kind == "start")
    assert first == 0 and SAVED <= second < STEPS and second % SAVED == 0, message
    losses, wanted = finished.losses(), golden_curve(CASE).train
    assert list(losses) == list(range(1, STEPS + 1)), message
    off = max(abs(losses[step] / golden - 1) for step, golden in enumerate(wanted, 1))
    assert off <= PARITY
    return off


def wait_for(kind: str, run: Path, step: int, ended: Callable[[], bool] = lambda: False) -> None:
    """Wait until an event of a kind at a step or later, or until the run has ended."""

    def reached() -> bool:
        return ended() or any(event.kind == kind and event.step >= step for event in read_events(run))

    wait_until(reached, f"{kind} of step {step}")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 6 * PATIENCE  # importing a framework takes minutes on a busy machine
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)
