"""What the benchmarks of training share: one job on both sides, in turns, and the lines that tell their paces.

Two paces each: `whole` counts from the first batch to the last update, the first step (and compilation) among them;
`steady` leaves the first `warm` steps out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jprep.train.run.directory import INIT, read_job
from jprep.train.run.events import metric_curve, read_events
from jprep.train.worker.batches import Batches
from tests.benchmarks.measure import JPREP
from tests.benchmarks.tokenizers import corpus, train

PEER = Path(__file__).with_name("hf_trainer.py")
ROUNDS = int(os.environ.get("JPREP_BENCH_ROUNDS", "3"))
PACES = ("whole", "steady")
_TOLD = 20_000  # characters of an error
_ERROR = re.compile(r"jprep: |(\[rank\d+\]: )?[\w.]*[eE]rror\b")

RECIPE = """
name = "bench"
[train]
task = "{task}"
batch = {batch}
length = {length}
steps = {steps}
precision = "{precision}"
log_every = {warm}
trackers = []
[train.model]
{model}
[train.checkpoint]
every_steps = 0
[train.backend.{backend}]
{options}
"""


class Trial(NamedTuple):
    """One training.

    Attributes:
        task: the job's.
        model: lines of the recipe's `[train.model]`.
        backend: of jprep.
        options: lines of its options.
        batch: rows of a step, of all processes.
        length: tokens of a row.
        precision: the job's.
        steps: how many; a multiple of `warm`.
        warm: those that `steady` leaves out.
    """

    task: str
    model: str
    backend: str
    options: str = ""
    batch: int = 8
    length: int = 256
    precision: str = "fp32"
    steps: int = 30
    warm: int = 10


class Side(NamedTuple):
    """What one side did.

    Attributes:
        paces: tokens a second, by the names of `PACES`.
        losses: at each `warm` steps.
    """

    paces: dict[str, float]
    losses: list[float]


class Pairs(NamedTuple):
    """Both sides in turns.

    Attributes:
        mine, other: each round's.
        run: jprep's last.
    """

    mine: list[Side]
    other: list[Side]
    run: Path

    def medians(self, pace: str) -> tuple[float, float, float]:
        """Tokens a second of jprep and the peer, and how much faster jprep is: the median of the rounds' ratios."""
        sides = [[side.paces[pace] for side in part] for part in (self.mine, self.other)]
        return *map(statistics.median, sides), statistics.median(map(float.__truediv__, *sides))

    @property
    def apart(self) -> float:
        """The largest relative difference of two losses."""
        pairs = zip(self.mine[-1].losses, self.other[-1].losses, strict=True)
        return max(abs(mine - other) / other for mine, other in pairs)


class FailedError(Exception):
    """A side did not come to its end; the argument is the end of what it said."""

    @property
    def cause(self) -> str:
        """The first line that names an error."""
        lines = str(self).strip().splitlines() or ["it says nothing"]
        return next((line for line in lines if _ERROR.match(line)), lines[-1])


def prepare(folder: Path) -> None:
    """Make a tokenizer of 8,000 ids, and a dataset."""
    source = corpus(folder)
    train(source, folder / "tokenizer", "--model", "bpe", "--vocab-size", "8000")
    _run([JPREP, "dataset", "pack", source, "--tokenizer", folder / "tokenizer", "-o", folder / "dataset"])


def ours(folder: Path, trial: Trial) -> tuple[Side, Path]:
    """Train with jprep; its run too.

    Args:
        folder: where `prepare` has been.
        trial: what is trained.

    Raises:
        FailedError: it did not come to its end.
    """
    recipe, run = folder / "recipe.toml", folder / f"run-{time.monotonic_ns()}"
    recipe.write_text(RECIPE.format(**trial._asdict()))
    places = ["--tokenizer", folder / "tokenizer", "--dataset", folder / "dataset", "-o", run]
    _run([JPREP, "train", recipe, "--backend", trial.backend, *places])
    shutil.rmtree(run / "checkpoints")  # a large model's fill a disk
    events = read_events(run)
    tokens = trial.warm * trial.batch * trial.length
    seconds = [tokens / float(event.figures["tokens_per_second"] or 1) for event in events if event.kind == "log"]
    whole, steady = tokens * len(seconds) / sum(seconds), tokens * (len(seconds) - 1) / sum(seconds[1:])
    return Side({"whole": whole, "steady": steady}, metric_curve(events)[1]), run


def theirs(
    launcher: Sequence[str],
    run: Path,
    trial: Trial,
    about: Mapping[str, Any],
    env: Mapping[str, str],
    peer: Path = PEER,
) -> Side:
    """Train with Hugging Face's Trainer, or another peer: the run's batches, config and first weights.

    Args:
        launcher: what comes before the program.
        run: jprep's.
        trial: what is trained.
        about: further options of the program.
        env: variables of its own.
        peer: the program.

    Raises:
        FailedError: it did not come to its end.
    """
    job, batches = read_job(run), run / "batches.npz"
    if not batches.exists():
        taken = [Batches(run, job).train.batch(step) for step in range(trial.steps)]
        np.savez(batches, ids=[batch.input_ids for batch in taken], labels=[batch.labels for batch in taken])
    options = {
        "model": job.model,
        "task": trial.task,
        "steps": trial.steps,
        "warm": trial.warm,
        "init": str(run / INIT),
    }
    apart = {"PYTHONSAFEPATH": "1"}  # this folder's tokenizers.py is not the library
    out = _run([*launcher, peer, json.dumps({**options, **about}), batches], os.environ | apart | env)
    return Side(**json.loads(out.splitlines()[-1]))


def in_turns(mine: Callable[[], tuple[Side, Path]], other: Callable[[Path], Side], rounds: int = ROUNDS) -> Pairs:
    """Both sides, round after round.

    Args:
        mine: trains with jprep.
        other: is given its run, and trains the same.
        rounds: how many.
    """
    pairs = Pairs([], [], Path())
    for _ in range(rounds):
        side, run = mine()
        if pairs.mine:
            shutil.rmtree(pairs.run)
        pairs.mine.append(side)
        pairs.other.append(other(run))
        pairs = pairs._replace(run=run)
    return pairs


def _run(command: Sequence[object], env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env)
    if done.returncode:
        raise FailedError(f"{done.stdout}\n{done.stderr}"[-_TOLD:])
    return done.stdout
