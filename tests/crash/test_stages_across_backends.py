"""A run whose mixture and row length change is killed at each change, and resumed by another backend."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from jprep.dataset.manifest import read_dataset
from jprep.errors import JprepError
from jprep.train.backend_loading import load_backend
from jprep.train.launcher.environments import worker_python
from jprep.train.run.events import metric_curve, read_events
from tests.conftest import COMMAND, PATIENCE, environment
from tests.fakes.trained_run import trained_run
from tests.unit.dataset.test_mixtures import mixed_dataset

pytestmark = pytest.mark.backends

STEPS = 24
PARITY = 1e-4  # relative difference of losses between backends
RECIPE = f"""name = "small"

[dataset.mix]
weights = {{ wiki = 1, web = 1, books = 3 }}

[[dataset.mix.stages]]
until_step = 8
weights = {{ wiki = 3, web = 1, books = 0 }}

[[dataset.mix.stages]]
until_step = 16
weights = {{ wiki = 1, web = 4, books = 1 }}

[train]
task = "clm"
batch = 8
length = 32
steps = {STEPS}
log_every = 1
trackers = []
checkpoint = {{ every_steps = 4, keep_last = 2 }}
optimizer = {{ lr = 0.01, eps = 1e-6 }}
max_restarts = 0
stages = [{{ until_step = 8, length = 16 }}, {{ until_step = 12, length = 24 }}]

[train.model.config]
model_type = "gpt2"
n_embd = 32
n_layer = 2
n_head = 2
n_positions = 32
initializer_range = 0.1
resid_pdrop = 0.0
embd_pdrop = 0.0
attn_pdrop = 0.0

[train.backend]
torch = {{ device = "cpu", threads = 1 }}
deepspeed = {{ device = "cpu", threads = 1 }}
flax = {{ device = "cpu" }}
"""


class Part(NamedTuple):
    """What one command trains: on which backend, with how many processes, and the checkpoint at which it is killed."""

    backend: str
    processes: int
    killed_after: int = 0


PARTS = (Part("torch", 1, 8), Part("deepspeed", 2, 12), Part("flax", 1, 16), Part("torch", 2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the recipe, its tokenizer and its dataset."""
    for part in PARTS:
        try:
            worker_python(load_backend(part.backend))
        except JprepError as error:
            pytest.skip(str(error))
    work = tmp_path / "work" / "small"
    work.mkdir(parents=True)
    trained_run(work, task="clm", kind="gpt2")
    plain = read_dataset(work / "dataset")
    fields = {name: getattr(plain, name) for name in ("made_from", "vocab_size", "end", "newline")}
    mixed_dataset(work / "mixed", 200, **fields)
    (work / "dataset").rename(work / "plain")
    (work / "mixed").rename(work / "dataset")
    (tmp_path / "small.toml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def train(folder: Path, run: str, part: Part, done: int = 0) -> None:
    """Train a run, which has a checkpoint of a step; kill all of its processes at another one."""
    more = {"JPREP_FAILPOINT": f"run.renamed@{(part.killed_after - done) // 4}"} if part.killed_after else {}
    words = ["train", "small.toml", "--backend", part.backend, "-o", run]
    words += ["--set", f"train.backend.{part.backend}.processes={part.processes}"]
    process = subprocess.Popen(
        [COMMAND, *words],
        cwd=folder,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode == 0) == (not part.killed_after), said
    if part.killed_after:
        saved = sorted((folder / run / "checkpoints").glob("step-*"))
        assert saved[-1].name == f"step-{part.killed_after:08d}", said


def losses(run: Path) -> dict[int, float]:
    return dict(zip(*metric_curve(read_events(run), "log"), strict=True))


def test_a_run_killed_at_each_boundary_has_the_same_curve_on_other_backends(folder: Path) -> None:
    train(folder, "whole", Part("torch", 1))
    done = 0
    for part in PARTS:
        train(folder, "parts", part, done)
        done = part.killed_after
    wanted, found = losses(folder / "whole"), losses(folder / "parts")
    assert list(found) == list(range(1, STEPS + 1))
    assert found == pytest.approx(wanted, rel=PARITY)
    starts = [event.step for event in read_events(folder / "parts") if event.kind == "start"]
    assert starts == [0, *(part.killed_after for part in PARTS[:-1])]
