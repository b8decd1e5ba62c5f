"""Corpus, tokenizer and dataset in jobs of Grid Engine that are deleted, requeued and killed with their host."""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jprep import samples
from tests.conftest import COMMAND, PATIENCE, SHARED, Run, digests, environment
from tests.servers.grid_engine import QUEUE, GridEngineCluster, grid_engine_cluster

OUTPUTS = ("corpus", "tokenizer", "dataset")
DISTURBANCES = 8
DUMP = SHARED / "data/wikitext/jawiki-country-2015-A.xml.bz2"
_JOB = re.compile(r"^ *(\d+) .* R?r +\d", re.MULTILINE)
_SENT = re.compile(r"^ *(\d+) .* R?t +\d", re.MULTILINE)

SLOW = """\
import time
from jprep.corpus.document import KEEP
from jprep.corpus.step import Filter

class Slow(Filter):
    \"\"\"Take a second for each document.\"\"\"

    def judge(self, doc):
        time.sleep(1)
        return KEEP
"""

pytestmark = pytest.mark.soak


@pytest.fixture
def cluster() -> Iterator[GridEngineCluster]:
    with tempfile.TemporaryDirectory(prefix="jprep-ge-") as folder, grid_engine_cluster(Path(folder), 3) as found:
        yield found


def sample_recipe(folder: Path) -> Path:
    return samples.write_sample(folder)


def dump_recipe(folder: Path) -> Path:
    if not DUMP.exists():
        pytest.skip("the shared dumps are not here")
    path = folder / "dump.toml"
    source = f'paths = ["{DUMP}"]\nshards = 4\nreader = {{ use = "wikipedia", shard_mb = 1 }}\n'
    sections = "[corpus.dedup]\nlines = true\n[tokenizer]\nvocab_size = 4000\n[dataset]\nvalidation = 0.1\n"
    path.write_text(f'name = "dump"\n[[corpus.sources]]\nname = "wiki"\n{source}{sections}', encoding="utf-8")
    return path


@pytest.mark.parametrize("write", [sample_recipe, dump_recipe])
def test_disturbed_jobs(write, tmp_path: Path, cluster: GridEngineCluster) -> None:  # type: ignore[no-untyped-def]
    run = [COMMAND, "run", write(tmp_path), "--until", "dataset", "--work"]
    subprocess.run([*run, "local"], cwd=tmp_path, env=environment(), check=True, capture_output=True)
    options = {"poll": 1, "tasks_per_job": 1, "attempts": 1000, "time": '"2:00:00"', "memory": '"64G"'}
    settings = [word for name, value in options.items() for word in ("--set", f"executor.{name}={value}")]
    command = [*run, "in jobs", "--executor", "grid-engine", *settings]
    chance, done = random.Random(28), Counter[str]()
    with (tmp_path / "said.txt").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(**cluster.env), stderr=said, stdout=said)
        begun = time.monotonic()
        while process.poll() is None:
            assert time.monotonic() < begun + 5 * PATIENCE
            if done.total() < DISTURBANCES and cluster.running():
                time.sleep(chance.random() * 2)
                done[_disturb(cluster, chance)] += 1
            time.sleep(2)
            _repair(cluster)
    assert process.returncode == 0, (tmp_path / "said.txt").read_text()[-3000:]
    print(done)
    [local], [made] = (tmp_path / "local").iterdir(), (tmp_path / "in jobs").iterdir()
    for name in OUTPUTS:
        assert digests(made / name) == digests(local / name)


def _repair(cluster: GridEngineCluster) -> None:
    """Do what an administrator does when a host has failed: open its queue, send again what it never received."""
    cluster.command("qmod", "-cq", QUEUE)
    for job in _SENT.findall(cluster.command("qstat")):
        time.sleep(2)
        if job in _SENT.findall(cluster.command("qstat")):
            cluster.command("qmod", "-rj", job)


def _disturb(cluster: GridEngineCluster, chance: random.Random) -> str:
    jobs = _JOB.findall(cluster.command("qstat"))
    what = chance.choice(("qdel", "qmod", "kill"))
    if what == "kill" or not jobs:
        cluster.kill_host()
        cluster.start_host()
        return "kill"
    cluster.command(what, *(["-rj"] if what == "qmod" else []), jobs[0])
    return what


def test_time_limits(tmp_path: Path, cluster: GridEngineCluster, jprep: Run) -> None:
    """A share that the soft limit ends is submitted again; nothing is killed at the hard limit."""
    (tmp_path / "slow.py").write_text(SLOW)
    for number in range(4):
        lines = (json.dumps({"text": f"これは{number}の{each}番目の文書です。"}) for each in range(4))
        (tmp_path / f"{number}.jsonl").write_text("\n".join(lines))
    sources = (
        f'[[corpus.sources]]\nname = "s{each}"\npaths = ["{each}.jsonl"]\nreader = "jsonl"\n' for each in range(4)
    )
    steps = '[corpus]\nsegmenter = "none"\nfilters = [{ use = "./slow.py:Slow" }]\n'
    (tmp_path / "slow.toml").write_text(f'name = "slow"\n{"".join(sources)}{steps}')
    jprep("corpus", "build", "slow.toml", "-o", "local", "--workers", 4, cwd=tmp_path)
    options = {"poll": 1, "tasks_per_job": 4, "time": '"0:05:00"', "warn": 290}
    settings = [word for name, value in options.items() for word in ("--set", f"executor.{name}={value}")]
    build = ["corpus", "build", "slow.toml", "-o", "jobs", "--executor", "grid-engine", *settings]
    said = jprep(*build, cwd=tmp_path, env=cluster.env).stderr
    assert said.count("documents: submitted") > 1 and "still missing after job" in said
    assert digests(tmp_path / "jobs") == digests(tmp_path / "local")
