"""A small model's recipe with its tokenizer and dataset, trained by `jprep train` and the backend torch."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import MachineError
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from jprep.train.backend_loading import load_backend
from jprep.train.launcher.environments import worker_python
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.commit import Commit, find_checkpoint_damage, read_commit
from jprep.train.run.events import Event, metric_curve, read_events
from tests.conftest import COMMAND, PATIENCE, digests, environment

LENGTH, EVERY = 32, 5
RECIPE = """name = "small"

[train]
task = "clm"
model = {{ config = {{ model_type = "gpt2", n_embd = 32, n_layer = 2, n_head = 2, n_positions = {length} }} }}
batch = 8
length = {length}
steps = {steps}
log_every = 1
checkpoint = {{ every_steps = {every}, keep_last = {keep} }}
validation = {{ every_steps = {every}, batches = 1 }}
optimizer = {{ lr = 0.01 }}
max_restarts = 100
trackers = []

[train.backend.torch]
device = "cpu"
threads = 1
processes = {processes}
"""
FILES = ("model.safetensors", "optimizer.safetensors", "state.json")


class Ending(msgspec.Struct):
    """The result of a run: the last step, the SHA-256 of its checkpoint's files, and the loss curves."""

    step: int
    files: dict[str, str]
    losses: tuple[list[int], list[float]]
    validation: tuple[list[int], list[float]]


class Training:
    """A folder with a recipe, `work/small/{tokenizer,dataset}` beside it, and the commands that train it.

    Args:
        folder: the folder.
        output: the run directory, below it; by default where `jprep train` puts it.
    """

    def __init__(self, folder: Path, output: str = "") -> None:
        self.folder, self._output = folder, output
        self.run = folder / (output or "work/small/runs/torch")
        self._started: list[subprocess.Popen[str]] = []

    def lay_out(self, steps: int, keep: int = 2, processes: int = 1) -> Training:
        """Write everything that training needs."""
        write_suite_tokenizer(self.folder / "work" / "small" / "tokenizer", "gpt")
        write_suite_dataset(self.folder / "work" / "small" / "dataset", "gpt")
        recipe = RECIPE.format(length=LENGTH, steps=steps, every=EVERY, keep=keep, processes=processes)
        self.folder.joinpath("small.toml").write_text(recipe)
        return self

    def command(self, *more: object) -> list[str]:
        """Return the command."""
        return [COMMAND, "train", "small.toml", *(["-o", self._output] if self._output else []), *map(str, more)]

    def start(self, *more: object, **env: str) -> subprocess.Popen[str]:
        """Start it in a separate process group, as a terminal does."""
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._started.append(
            subprocess.Popen(
                self.command(*more), cwd=self.folder, env=environment(**env), text=True, process_group=0, **pipes
            )
        )
        return self._started[-1]

    def train(self, *more: object, code: int = 0, **env: str) -> str:
        """Train until the command ends with an exit code. Return its stderr."""
        process = self.start(*more, **env)
        out, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, f"it exited with code {process.returncode}:\n{out}\n{said}"
        assert "Traceback" not in said
        return said

    def events(self) -> list[Event]:
        return read_events(self.run)

    def step(self) -> int:
        """Return the last step logged since the last start; 0 if there is none."""
        logged = 0
        for event in self.events():
            logged = event.step if event.kind == "log" else 0 if event.kind == "start" else logged
        return logged

    def folders(self, mark: str = "") -> list[Path]:
        """Return the folders in the directory of checkpoints whose names begin with `mark`, in order."""
        return sorted(self.run.joinpath("checkpoints").glob(f"{mark}*"))

    def whole(self) -> list[Checkpoint]:
        """Return the checkpoints, after a check that each is valid."""
        found = []
        for folder in self.folders("step-"):
            commit = read_commit(folder)
            assert isinstance(commit, Commit), f"{folder.name}: {commit}"
            assert commit.files.keys() == set(FILES)
            assert not find_checkpoint_damage(folder, commit), (
                f"{folder.name}: {find_checkpoint_damage(folder, commit)}"
            )
            found.append(Checkpoint(folder, commit))
        return found

    def ending(self) -> Ending:
        """Return the result of the run."""
        events, last = self.events(), self.whole()[-1]
        files = {name: one.sha256 for name, one in last.commit.files.items()}
        return Ending(last.step, files, metric_curve(events), metric_curve(events, "validation"))

    def digests(self) -> dict[str, str]:
        """Return the digests of all files of the run, except those that depend on the process."""
        passing = ("LOCK", "verified.json")
        return {name: digest for name, digest in digests(self.run).items() if name not in passing}

    def processes(self, *, commands: bool = True) -> list[int]:
        """Return the processes of the run: those with its path as an argument, and commands in its folder.

        A process that a command starts looks like the command until it runs its own program.
        """
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = place.joinpath("cmdline").read_bytes().split(b"\0")
                here = COMMAND.encode() in words and place.joinpath("cwd").resolve() == self.folder.resolve()
            except OSError:  # it has ended
                continue
            if (here and commands) or str(self.run).encode() in words:
                found.append(int(place.name))
        return found

    def close(self) -> None:
        """Kill what is still running."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def need_torch() -> None:
    """Skip the test if the backend is not installed."""
    try:
        worker_python(load_backend("torch"))
    except MachineError as error:
        pytest.skip(str(error))
