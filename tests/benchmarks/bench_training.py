"""Tokens a second of the torch backend beside Hugging Face's Trainer, in turns.

Both take the same model, first weights, batches, optimizer and number of threads. Two paces each: `whole` counts from
the first batch to the last update, the first step (and compilation) among them; `steady` leaves the first ten steps
out. And how much faster batches come than the model takes them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from jprep.train.batches import Batches
from jprep.train.events import read_events
from jprep.train.job import Job
from jprep.train.rundir import INIT, read_job
from tests.benchmarks.measure import JPREP
from tests.benchmarks.tokenizers import corpus, train

PYTHON = os.environ.get("JPREP_TORCH", "")
PEER = Path(__file__).with_name("hf_trainer.py")
STEPS, WARM, ROUNDS, LOADED = 30, 10, 3, 200
MODELS = {
    "gpt2 clm": {"task": "clm", "config": '{model_type="gpt2",n_layer=4,n_embd=256,n_head=4,n_positions=256}'},
    "roberta mlm": {
        "task": "mlm",
        "config": '{model_type="roberta",num_hidden_layers=4,hidden_size=256,num_attention_heads=4,'
        "intermediate_size=1024}",
    },
}
SETTINGS = os.environ.get("JPREP_BENCH_SETTINGS", "eager compiled").split()

RECIPE = """
name = "bench"
[train]
task = "{task}"
batch = 8
length = 256
steps = {steps}
log_every = {log}
trackers = []
[train.model]
config = {config}
[train.checkpoint]
every_steps = 0
[train.backend.torch]
compile = {compile}
"""


def ours(folder: Path, made: Path, model: dict[str, str], setting: str) -> tuple[dict[str, float], Path]:
    """Train with jprep; its paces, and the run."""
    recipe, run = folder / "recipe.toml", folder / f"run-{time.monotonic_ns()}"
    compiling = str(setting == "compiled").lower()
    recipe.write_text(RECIPE.format(**model, steps=STEPS, log=WARM, compile=compiling))
    places = ["--tokenizer", str(made / "tokenizer"), "--dataset", str(made / "dataset"), "-o", str(run)]
    subprocess.run([JPREP, "train", str(recipe), *places], check=True, capture_output=True)
    logs = [event for event in read_events(run) if event.kind == "log"]
    tokens = WARM * 8 * 256
    seconds = [tokens / float(event.figures["tokens_per_second"] or 1) for event in logs]
    return {
        "whole": tokens * len(seconds) / sum(seconds),
        "steady": tokens * (len(seconds) - 1) / sum(seconds[1:]),
    }, run


def theirs(run: Path, setting: str) -> dict[str, float]:
    """Train with the Trainer: the run's batches, config and first weights."""
    job, batches = read_job(run), run / "batches.npz"
    if not batches.exists():
        taken = [Batches(run, job).train.batch(step) for step in range(STEPS)]
        np.savez(batches, ids=[batch.input_ids for batch in taken], labels=[batch.labels for batch in taken])
    about = {"model": job.model, "task": job.train.task, "steps": STEPS, "warm": WARM, "init": str(run / INIT)}
    command = [PYTHON, "-P", str(PEER), json.dumps(about), str(batches), setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def loading(run: Path, job: Job) -> float:
    """Tokens a second of the batches alone, on one core."""
    sampler: Any = Batches(run, job).train
    begun = time.perf_counter()
    for step in range(LOADED):
        sampler.batch(step)
    return LOADED * job.train.batch * job.train.length / (time.perf_counter() - begun)


def compare(made: Path, folder: Path, name: str) -> None:
    """Print one model's paces."""
    for setting in SETTINGS:
        pairs = []
        for _ in range(ROUNDS):
            mine, run = ours(folder, made, MODELS[name], setting)
            pairs.append((mine, theirs(run, setting)))
        for pace in ("whole", "steady"):
            mine, other = (statistics.median(pair[side][pace] for pair in pairs) for side in (0, 1))
            ratio = statistics.median(one[pace] / two[pace] for one, two in pairs)
            print(f"{name:14}{setting:10}{pace:8}{mine:12.0f}{other:12.0f}{ratio:8.2f}", flush=True)
        fed = loading(run, read_job(run))
        print(f"{name:14}{setting:10}batches alone: {fed / mine:.0f} times as fast as the model takes them", flush=True)


def main() -> None:
    if not PYTHON:
        print("not measured: JPREP_TORCH names no Python with PyTorch, transformers and accelerate")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = corpus(folder)
        train(source, folder / "tokenizer", "--model", "bpe", "--vocab-size", "8000")
        packed = [JPREP, "dataset", "pack", str(source), "--tokenizer", str(folder / "tokenizer")]
        subprocess.run([*packed, "-o", str(folder / "dataset")], check=True, capture_output=True)
        print(f"{'tokens/s':32}{'jprep':>12}{'HF Trainer':>12}{'ratio':>8}")
        for model in MODELS:
            compare(folder, folder, model)


if __name__ == "__main__":
    sys.exit(main())
