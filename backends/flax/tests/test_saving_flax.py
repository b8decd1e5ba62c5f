"""Several processes save what their own devices hold: the files of whole tensors, without gathering any array."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from saving_process import MESHES, PROCESSES

from jprep.io.safetensors_file import Floats
from jprep.testing.backend_suite.runner import SuiteRunner, partial_folders
from jprep.train.hosts.host_launcher import free_port
from jprep.train.models import TensorSpec, parameters
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    TrainProgress,
    average_shapes,
    tensors_of_part,
    write_part,
    write_progress,
)
from jprep.train.run.commit import COMMIT
from jprep.train.run.directory import read_job
from jprep_flax.models.weights import TensorLocation
from jprep_flax.worker.checkpoint import shards_of_process

PROGRESS = TrainProgress(7, 2.0, 3)


class Saved(NamedTuple):
    """What two processes have saved on each of `MESHES`.

    Attributes:
        expected: the files of whole tensors.
        found: the files of each mesh.
        figures: figures of each process.
    """

    expected: dict[str, bytes]
    found: dict[str, dict[str, bytes]]
    figures: list[dict[str, Any]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("saved")
    bench = SuiteRunner(folder, "flax", {"device": "cpu"})
    run = bench.prepare("gpt2-muon", batch=8).run
    given, expected = write_known(run, folder / "given", 1), write_known(run, folder / "expected", PROCESSES)
    words = [str(Path(__file__).with_name("saving_process.py")), str(run), str(given), str(folder)]
    address = f"localhost:{free_port('localhost')}"
    command = [sys.executable, *words, address]
    started = [subprocess.Popen([*command, str(rank)]) for rank in range(PROCESSES)]
    assert [process.wait(600) for process in started] == [0] * PROCESSES
    found = {name: files_of(folder / name / "step-00000001") for name in MESHES}
    figures = [json.loads((folder / f"figures-{rank}.json").read_text("utf-8")) for rank in range(PROCESSES)]
    return Saved(files_of(expected), found, figures)


def write_known(run: Path, folder: Path, parts: int) -> Path:
    """Write a checkpoint with random numbers as a number of processes write it that have whole tensors."""
    job, random = read_job(run), np.random.default_rng(5)
    folder.mkdir()
    shapes = {name: tensor.shape for name, tensor in sorted(parameters(job.model, job.train.objective).items())}
    averages = average_shapes(shapes, shapes, job.train.optimizer.kind)
    numbers = {name: random.random(shape, np.float32) for name, shape in (shapes | averages).items()}

    def blocks(name: str) -> list[Floats]:
        return [numbers[name]]

    for part in range(parts):
        own = tensors_of_part(shapes, part, parts)
        write_part(folder, WEIGHTS, own, blocks, part, parts)
        write_part(folder, OPTIMIZER, average_shapes(own, own, job.train.optimizer.kind), blocks, part, parts)
    write_progress(folder, PROGRESS)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != COMMIT}


@pytest.mark.parametrize("mesh", MESHES)
def test_the_files_are_those_of_whole_tensors(mesh: str, saved: Saved) -> None:
    assert sorted(saved.found[mesh]) == sorted(saved.expected)
    assert all(saved.found[mesh][name] == data for name, data in saved.expected.items())


@pytest.mark.parametrize("mesh", MESHES)
def test_nothing_is_gathered_and_each_process_writes_about_half(mesh: str, saved: Saved) -> None:
    figures = [each[mesh] for each in saved.figures]
    assert [each["divided"] for each in figures] == [mesh != "copies"] * PROCESSES
    assert all(each["planned"] == each["divided"] for each in figures)
    assert all(each["control"] >= 1 for each in saved.figures), "a program that is compiled is counted"
    assert [each["programs"] for each in figures] == [0, 0], "moving numbers between devices takes a program"
    whole = sum(map(len, saved.expected.values()))
    assert max(each["written"] for each in figures) < 0.55 * whole


def test_processes_that_hold_the_same_shard_share_the_tensors() -> None:
    """Processes 0 and 2 have the left halves, 1 and 3 the right ones."""
    left, right = ((0, 6), (0, 4)), ((0, 6), (4, 8))
    names = [f"w{number}" for number in range(10)]
    holders = {name: {left: [0, 2], right: [1, 3]} for name in names}
    locations = {name: TensorLocation((name,), None, TensorSpec((6, 8))) for name in names}
    own = [shards_of_process(holders, locations, rank) for rank in range(4)]
    assert [len(shards) for shards in own] == [5] * 4
    for rank, shards in enumerate(own):
        assert all(indices == [right if rank % 2 else left] for indices in shards.values())
    assert own[0].keys() | own[2].keys() == own[1].keys() | own[3].keys() == set(names)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> SuiteRunner:
    return SuiteRunner(tmp_path_factory.mktemp("bench"), "flax", {"device": "cpu", "processes": 2, "fsdp": 2})


@pytest.mark.parametrize("failpoint", ["run.filled@2=die", "run.joined@2"])
def test_a_run_that_is_killed_while_it_saves_ends_with_the_same_bytes(failpoint: str, bench: SuiteRunner) -> None:
    """It is killed with pieces that are not joined, or joined and not yet deleted."""
    changes = {"steps": 6, "checkpoint": {"every_steps": 3}, "validation": {}}
    whole = bench.trained("gpt2-clm", **changes)
    killed = bench.train(bench.prepare("gpt2-clm", **changes), JPREP_FAILPOINT=failpoint)
    assert killed.code == 0, killed.messages
    assert [event.step for event in killed.events() if event.kind == "start"] == [0, 3]
    for step in ("step-00000003", "step-00000006"):
        one, other = (files_of(run.checkpoint().with_name(step)) for run in (whole, killed))
        assert one == other and len(one) == 2 * PROCESSES + 1
    assert partial_folders(killed.run) == []
