"""Tokens a second of the Flax backend on a CPU beside a plain loop with flax.nnx and beside the backend torch.

They take turns, with the same model, first weights, batches and optimizer, and two cores. The pace is that of the steps
after the first ten; compilation by XLA is excluded. The idle share is the figure of the backend for the same steps,
next to how much faster they are on batches that lie on the device already.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from jprep.errors import JprepError
from jprep.train.backend import large_pages
from jprep.train.backend_loading import load_backend
from jprep.train.launcher.environments import worker_python
from jprep.train.run.events import read_events
from tests.benchmarks.training import Pairs, Side, Trial, in_turns, ours, prepare, theirs

CORES = 2
READY = Path(__file__).with_name("flax_ready.py")
LOOP = Path(__file__).with_name("nnx_loop.py")
GPT2 = '{model_type="gpt2",n_layer=4,n_embd=256,n_head=4,n_positions=256%s}'
MODELS = {
    "gpt2": GPT2 % "",
    "gpt2, nothing dropped": GPT2 % ",attn_pdrop=0,embd_pdrop=0,resid_pdrop=0",
}


def figures(run: Path, name: str) -> list[float]:
    """What a run has logged of a figure."""
    return [float(event.figures[name] or 0) for event in read_events(run) if name in event.figures]


def ready(python: Path, run: Path) -> float:
    """Tokens a second of a run's steps on batches that lie on the device."""
    env = os.environ | {"PYTHONSAFEPATH": "1", "JAX_PLATFORMS": "cpu"} | large_pages()
    done = subprocess.run([python, READY, run], capture_output=True, text=True, env=env, check=True)
    return float(json.loads(done.stdout))


def compare(folder: Path, python: Path, name: str) -> None:
    """Print one model's paces."""
    trial, alone = Trial("clm", f"config = {MODELS[name]}", "flax", 'device = "cpu"'), []

    def loop(run: Path) -> Side:
        return theirs([str(python)], run, trial, {}, {"JAX_PLATFORMS": "cpu"}, LOOP)

    def torch(run: Path) -> Side:
        alone.append(ready(python, run))
        return ours(folder, trial._replace(backend="torch"))[0]

    for peer, train in {"flax.nnx": loop, "torch": torch}.items():
        pairs = in_turns(lambda: ours(folder, trial), train)
        mine, other, ratio = pairs.medians("steady")
        apart = f"{pairs.apart:.0e}" if "dropped" in name else ""
        print(f"{name:24}{peer:10}{mine:8.0f}{other:8.0f}{ratio:8.2f}{apart:>10}", flush=True)
    print(f"  {waiting(pairs, alone)}", flush=True)


def waiting(pairs: Pairs, alone: list[float]) -> str:
    """What the device waited for."""
    compiling, idle = sum(figures(pairs.run, "compiling")), statistics.fmean(figures(pairs.run, "idle")[1:])
    faster = statistics.median(one / side.paces["steady"] for one, side in zip(alone, pairs.mine, strict=True))
    return f"compiled in {compiling:.1f} s; idle {idle:.2%}; batches on the device already: {faster:.2f} times the pace"


def main() -> None:
    try:
        python = worker_python(load_backend("flax"))
        worker_python(load_backend("torch"))
    except JprepError as error:
        print(f"not measured: {error.what}")
        return
    with contextlib.suppress(AttributeError):  # not on a Mac
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        print(f"{'tokens/s':24}{'peer':10}{'jprep':>8}{'peer':>8}{'ratio':>8}{'losses':>10}")
        for model in MODELS:
            compare(folder, python, model)


if __name__ == "__main__":
    sys.exit(main())
