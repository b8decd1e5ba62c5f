"""Tokens a second of the torch backend beside Hugging Face's Trainer, in turns.

Both take the same model, first weights, batches, optimizer and number of threads. And how much faster batches come
than the model takes them, and the share of a step that its matrix products alone would take.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jprep.io.machine import cpu_count
from jprep.train.job.config import Job
from jprep.train.models import parameters
from jprep.train.run.directory import read_job
from jprep.train.worker.batches import Batches
from tests.benchmarks.training import PACES, Trial, in_turns, ours, prepare, theirs

PYTHON = os.environ.get("JPREP_TORCH", "")
LOADED = 200
MODELS = {
    "gpt2 clm": ("clm", '{model_type="gpt2",n_layer=4,n_embd=256,n_head=4,n_positions=256}'),
    "roberta mlm": (
        "mlm",
        '{model_type="roberta",num_hidden_layers=4,hidden_size=256,num_attention_heads=4,intermediate_size=1024}',
    ),
}
PRODUCTS, LAYER = Path(__file__).with_name("matmuls.py"), re.compile(r"\.(h|layer)\.\d+\.")
KEYS = (("n_head", "num_attention_heads"), ("n_embd", "hidden_size"))
SETTINGS = os.environ.get("JPREP_BENCH_SETTINGS", "eager compiled").split()


def loading(run: Path) -> float:
    """Tokens a second of the batches alone, on one core."""
    job = read_job(run)
    sampler: Any = Batches(run, job).train
    begun = time.perf_counter()
    for step in range(LOADED):
        sampler.batch(step)
    return LOADED * job.train.batch * job.train.length / (time.perf_counter() - begun)


def bare_products(run: Path) -> float:
    """Return tokens a second if a step were only its fp32 matrix products, on the machine's cores."""
    job = read_job(run)
    given = [PYTHON, str(PRODUCTS), json.dumps(_products(job))]
    apart = os.environ | {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": str(cpu_count())}
    seconds = float(subprocess.run(given, check=True, capture_output=True, text=True, env=apart).stdout)
    return job.train.batch * job.train.length / seconds


def _products(job: Job) -> list[tuple[int, ...]]:
    """Return what `matmuls` times: layers, attention and the output layer, which only tokens with a label enter."""
    rows, length, model = job.train.batch, job.train.length, job.model
    heads, width = (model.get(short) or model[name] for short, name in KEYS)
    labelled = rows * length if job.train.objective == "clm" else int(rows * length * job.train.masking.rate)
    shapes = {name: tensor.shape for name, tensor in parameters(model, job.train.objective).items()}
    matrices = [shape for name, shape in shapes.items() if len(shape) == 2 and LAYER.search(name)]
    layers = model.get("n_layer") or model["num_hidden_layers"]
    attention = [(length, width // heads, length), (length, length, width // heads)]
    outputs = [(labelled, width, model["vocab_size"])] + [(labelled, width, width)] * (job.train.objective == "mlm")
    return (
        [(1, rows * length, *shape, 1) for shape in matrices]
        + [(rows * heads, *shape, layers) for shape in attention]
        + [(1, *shape, 1) for shape in outputs]
    )


def compare(folder: Path, name: str, setting: str) -> None:
    """Print one model's paces."""
    (task, config), compiling = MODELS[name], setting == "compiled"
    trial = Trial(task, f"config = {config}", "torch", f"compile = {str(compiling).lower()}")
    about = {"compile": compiling}
    pairs = in_turns(lambda: ours(folder, trial), lambda run: theirs([PYTHON], run, trial, about, {}))
    for pace in PACES:
        mine, other, ratio = pairs.medians(pace)
        print(f"{name:14}{setting:10}{pace:8}{mine:12.0f}{other:12.0f}{ratio:8.2f}", flush=True)
    share = mine / bare_products(pairs.run)
    print(f"{name:14}{setting:10}matrix products alone: {share:.0%} of the time of a step", flush=True)
    fed = loading(pairs.run) / mine
    print(f"{name:14}{setting:10}batches alone: {fed:.0f} times as fast as the model takes them", flush=True)


def main() -> None:
    if not PYTHON:
        print("not measured: JPREP_TORCH names no Python with PyTorch, transformers and accelerate")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        print(f"{'tokens/s':32}{'jprep':>12}{'HF Trainer':>12}{'ratio':>8}")
        for model in MODELS:
            for setting in SETTINGS:
                compare(folder, model, setting)


if __name__ == "__main__":
    sys.exit(main())
