"""Tokens a second and model FLOPs utilisation on this machine's GPUs: ZeRO 0 to 3 and Trainer with DeepSpeed, in turns.

bf16, rows of 1,024 tokens, four times `JPREP_BENCH_ROWS` (8) rows a GPU and step, `JPREP_BENCH_PRESETS` and
`JPREP_BENCH_STAGES` that fit. Utilisation is `flops.flops_per_token` · tokens a second / the GPUs' peak, which
`JPREP_BENCH_PEAK` gives (10¹² FLOP/s) where `flops.PEAKS` does not know the GPU.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from jprep.train.models.flops import flops_per_token, peak_flops
from jprep.train.planning.host import accelerators
from jprep.train.run.directory import read_job
from tests.benchmarks.training import PACES, FailedError, Pairs, Trial, prepare
from tests.benchmarks.zero import MISSING, PYTHON, STAGES, compare

LENGTH, ACCUMULATE = 1024, 4
ROWS = int(os.environ.get("JPREP_BENCH_ROWS", "8"))
PRESETS = os.environ.get("JPREP_BENCH_PRESETS", "gpt2-small gpt2-medium gpt2-large gpt2-xl").split()
MODEL = 'preset = "{}"\nconfig = {{attn_pdrop=0,embd_pdrop=0,resid_pdrop=0}}'


def tell(name: str, pairs: Pairs, gpus: int, most: float | None) -> None:
    """Print one model's paces in one stage."""
    job = read_job(pairs.run)
    limit = gpus * most / flops_per_token(job.model, job.parameters, LENGTH) if most else None
    for pace in PACES:
        mine, other, ratio = pairs.medians(pace)
        used = [f"{100 * tokens / limit:8.1f} %" if limit else f"{'?':>10}" for tokens in (mine, other)]
        sides = f"{mine:10.0f}{used[0]}{other:12.0f}{used[1]}"
        print(f"{name:24}{pace:8}{sides}{ratio:8.2f}{pairs.apart:10.1e}", flush=True)


def measure(folder: Path, names: list[str]) -> None:
    """Print all models' paces in all stages."""
    gpus, most = len(names), peak_flops(names[0], os.environ.get("JPREP_BENCH_PEAK", ""))
    print(f"{gpus} × {names[0]}, peak " + (f"{most / 1e12:.0f} · 10¹² FLOP/s" if most else "unknown"))
    print(f"{'tokens/s':32}{'jprep':>10}{'MFU':>10}{'HF + DS':>12}{'MFU':>10}{'ratio':>8}{'apart':>10}")
    for preset in PRESETS:
        for stage in STAGES:
            name, batch = f"{preset} ZeRO-{stage}", ROWS * ACCUMULATE * gpus
            trial = Trial("clm", MODEL.format(preset), "deepspeed", "", batch, LENGTH, "bf16")
            try:
                tell(name, compare(folder, trial, stage, gpus, rows=ROWS, cuda=True), gpus, most)
            except FailedError as error:
                print(f"{name:24}not measured: {error.cause}", flush=True)
            for run in folder.glob("run-*"):  # first weights of large models fill a disk
                shutil.rmtree(run)


def main() -> None:
    names = [one.name for one in accelerators()]
    if not names or not PYTHON:
        print("not measured: no GPU" if not names else f"not measured: {MISSING}")
        return
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        measure(Path(name), names)


if __name__ == "__main__":
    sys.exit(main())
