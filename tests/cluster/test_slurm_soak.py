"""Slurm's nodes are killed during every stage: the outputs are those of the local executor."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jprep import samples
from jprep.train.run.events import metric_curve, read_events
from tests.conftest import COMMAND, PATIENCE, SHARED, digests, environment
from tests.servers.slurm import SlurmCluster, slurm_cluster

KILLS = int(os.environ.get("JPREP_KILLS", "2"))
"""Nodes that are killed in each stage."""
HOLD = """
import os, random, signal
from pathlib import Path

folder, stage = Path(os.environ.get("SOAK_KILLS", "")), os.environ.get("SLURM_JOB_NAME", "").removeprefix("jprep-")
if stage and folder.name:
    from jprep.io import failpoints

    chosen = random.choice(("output.opened", "output.written"))

    def act(name):
        kills = folder / stage
        while name == chosen and (kills.stat().st_size if kills.exists() else 0) < {}:  # scancel lets it go on
            os.kill(os.getpid(), signal.SIGSTOP)

    failpoints._ACTIVE, failpoints._act = "held", act
"""
"""What Python runs first in a job: its tasks stop while they write their first file, until the stage has had its kills,
because most take a second only."""
STAGES = {
    "corpus": ("inputs", "documents", "dedup", "near-pairs", "near-clusters", "words", "ids", "repeated_ids"),
    "tokenizer": ("counting", "summing", "merging"),
    "dataset": ("encoding", "joining", "committing"),
}

pytestmark = pytest.mark.soak


@pytest.fixture
def cluster() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="jprep-slurm-") as folder, slurm_cluster(Path(folder), timeout=5) as found:
        yield found


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe over real dumps where there are some."""
    samples.write_sample(tmp_path)
    real = sorted((SHARED / "data" / "wikitext").glob("jawiki-country-*-A.xml.bz2"))
    pages = sorted((SHARED / "data" / "web").glob("js_primer.jsonl.gz"))
    dumps = [f'paths = ["{path}"]\nshards = 3\nreader = {{ use = "wikipedia", shard_mb = 1 }}\n' for path in real]
    dumps = dumps or [f'paths = ["{samples.DUMP}"]\nreader = "wikipedia"\n']
    # Compressed files whose shards are all read are cut by a stage of its own.
    dumps += [f'paths = ["{path}"]\nreader = "jsonl"\n' for path in pages or [_compressed(tmp_path / "pages.jsonl.gz")]]
    text = "".join(f'[[corpus.sources]]\nname = "s{number}"\n{each}' for number, each in enumerate(dumps))
    sections = "[corpus.dedup]\nlines = true\nnear = {}\n[dataset]\nvalidation = 0.1\n[tokenizer]\n"
    sections += f"vocab_size = {4000 if real else 1000}\n"
    path = tmp_path / "soak.toml"
    path.write_text(f'name = "soak"\n{text}{sections}', encoding="utf-8")
    return path


def _compressed(path: Path) -> Path:
    lines = "".join(json.dumps({"text": f"これは{number}番目の文書です。" * 9}) + "\n" for number in range(2000))
    path.write_bytes(gzip.compress(lines.encode()))
    return path


class Vandal:
    """Kills nodes while a command runs, and cancels and requeues its jobs."""

    def __init__(self, cluster: SlurmCluster, seed: int, folder: Path) -> None:
        self._cluster, self._random, self._folder = cluster, random.Random(seed), folder
        self.kills: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()
        self._down: dict[str, float] = {}

    def disturb(self) -> None:
        """Do something to a job whose tasks are held."""
        self._restart_nodes()
        self._release()
        running = [line.split("|") for line in self._squeue("RUNNING") if "after" not in line]
        held = [(job, name, node) for job, name, node in running if self._held(node)]
        if held and not self._down:
            job, name, node = self._random.choice(held)
            self._act(job, name.removeprefix("jprep-"), node)

    def _held(self, node: str) -> list[int]:
        """Return the processes of a node that wait to be killed."""
        return [process for process in self._cluster.processes(node) if _state(process) == "T"]

    def _act(self, job: str, stage: str, node: str) -> None:
        left = KILLS - self.kills[stage]
        # The last kill leaves the node's processes alone: they go on, and the job runs again on the other node.
        action = "daemon" if left == 1 else self._random.choice(("power", "power", "power", "cancel", "requeue"))
        if action in ("power", "daemon"):
            held = self._held(node)
            self._cluster.kill_node(node, whole=action == "power")
            self.kills[stage] += 1
            with (self._folder / stage).open("ab") as file:
                file.write(b"k")
            for process in held if action == "daemon" else []:
                os.kill(process, signal.SIGCONT)
            if action == "power":  # Slurm would notice a daemon that comes back without its jobs after minutes only
                self._cluster.report_down(node)
            self._down[node] = time.monotonic() + (1 if action == "power" else 9)
        elif action == "cancel":
            self._cluster.command("scancel", job)
        else:
            self._cluster.command("scontrol", "requeue", job)
        self.actions[action] += 1

    def _restart_nodes(self) -> None:
        for node, when in list(self._down.items()):
            if time.monotonic() > when:
                self._cluster.start_node(node)
                del self._down[node]

    def _release(self) -> None:
        """Start requeued jobs now: Slurm would wait two minutes."""
        for line in self._squeue("PENDING", "%A|%r"):
            job, reason = line.split("|")
            if reason == "BeginTime":
                self._cluster.command("scontrol", "update", f"jobid={job}", "StartTime=now")

    def _squeue(self, state: str, form: str = "%A|%j|%N") -> list[str]:
        return self._cluster.command("squeue", "-h", "-t", state, "-o", form).splitlines()


def _state(process: int) -> str:
    """Return the state of a process, "" if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_nodes_killed_in_every_stage(recipe: Path, cluster: SlurmCluster) -> None:
    run = [COMMAND, "run", recipe, "--until", "dataset", "--work"]
    subprocess.run([*run, "local"], cwd=recipe.parent, env=environment(), check=True, capture_output=True)
    options = {"poll": 1, "tasks_per_job": 2, "attempts": 1000, "jobs": 4}
    settings = [word for name, value in options.items() for word in ("--set", f"executor.{name}={value}")]
    hold, kills = recipe.parent / "hold", recipe.parent / "kills"
    hold.mkdir()
    kills.mkdir()
    (hold / "sitecustomize.py").write_text(HOLD.format(KILLS))
    env = environment(**cluster.env, PYTHONPATH=str(hold), SOAK_KILLS=str(kills))
    vandal, begun = Vandal(cluster, 28, kills), time.monotonic()
    with (recipe.parent / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [*run, "cluster", "--executor", "slurm", *settings], cwd=recipe.parent, env=env, stderr=said, stdout=said
        )
        try:
            while process.poll() is None:
                assert time.monotonic() < begun + 5 * (1 + KILLS) * PATIENCE
                vandal.disturb()
                time.sleep(0.3)
        finally:
            process.kill()
    told = f"{vandal.kills} {vandal.actions} {time.monotonic() - begun:.0f} s"
    print(told)
    assert process.returncode == 0, (recipe.parent / "said.txt").read_text()[-3000:]
    local, made = recipe.parent / "local/soak", recipe.parent / "cluster/soak"
    while cluster.command("squeue", "-h").strip():  # stragglers end, and leave nothing behind
        vandal.disturb()
        time.sleep(0.5)
    for name in STAGES:
        assert digests(made / name) == digests(local / name)
        left, expected = ({path.name for path in (each / name / ".state").iterdir()} for each in (made, local))
        assert left == expected
    assert vandal.kills == {stage: KILLS for stages in STAGES.values() for stage in stages}, told


@pytest.mark.backends
def test_a_whole_run_whose_command_is_killed_while_it_trains(tmp_path: Path, cluster: SlurmCluster) -> None:
    """The training is a job of its own: the next command waits for it, and submits no second one."""
    recipe = samples.write_sample(tmp_path)
    few = ["--set", "train.steps=40", "--set", "train.checkpoint.every_steps=20"]
    run = [COMMAND, "run", recipe, *few, "--backend", "torch", "--work"]
    subprocess.run([*run, "local"], cwd=tmp_path, env=environment(), check=True, capture_output=True)
    on_slurm, env = [*run, "cluster", "--executor", "slurm", "--set", "executor.poll=1"], environment(**cluster.env)
    trained = Path("quickstart/runs/torch")
    with (tmp_path / "killed.txt").open("w") as said:
        killed = subprocess.Popen(on_slurm, cwd=tmp_path, env=env, stderr=said, stdout=said)
        deadline = time.monotonic() + PATIENCE
        while not list((tmp_path / "cluster" / trained / "checkpoints").glob("step-*")):
            assert killed.poll() is None and time.monotonic() < deadline, (tmp_path / "killed.txt").read_text()
            time.sleep(0.1)
        killed.kill()
        killed.wait()
    again = subprocess.run(on_slurm, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "it was submitted already, as job" in again.stderr and "      submitted as job" not in again.stderr
    for work in ("local", "cluster"):
        assert [event.step for event in read_events(tmp_path / work / trained) if event.kind == "start"] == [0]
    losses, wanted = (metric_curve(read_events(tmp_path / work / trained)) for work in ("cluster", "local"))
    assert losses == wanted
    for name in STAGES:
        assert digests(tmp_path / "cluster/quickstart" / name) == digests(tmp_path / "local/quickstart" / name)
