"""Model FLOPs utilisation of the torch backend on one GPU beside other trainers, in turns, in ten minutes.

The others are Hugging Face's Trainer and, for Llamas, torchtitan. bf16 and torch.compile on all sides, with the same
rows at a time, the same first weights and the same batches; jprep's `deterministic` is off, as the others'. `ratio` is
jprep's tokens a second divided by the other's, and `apart` the largest relative difference of two losses. Utilisation
is `flops.flops_per_token` · tokens a second / the GPU's peak, which `JPREP_BENCH_PEAK` gives (10¹² FLOP/s) where
`flops.PEAKS` does not know it. jprep's line ends with the peak of the GPU's memory and its estimate, in GB.

`JPREP_TORCH` names a Python with PyTorch, transformers and accelerate; `JPREP_TITAN`, if it is set, one with torchtitan
0.3.0 and triton. `JPREP_BENCH_MODELS` chooses models, `JPREP_BENCH_ROUNDS` (1) the turns, `JPREP_BENCH_MINUTES` (10)
when no further model is begun. Without a GPU, `JPREP_BENCH_MODELS=tiny` tries the script out.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from jprep.train.models.flops import flops_per_token, peak_flops
from jprep.train.planning.host import accelerators
from jprep.train.run.directory import read_job
from jprep.train.run.events import DEVICE_MEMORY, read_events
from jprep_torch.options import Options
from jprep_torch.planning.memory import estimate_memory
from tests.benchmarks.training import FailedError, Pairs, Side, Trial, in_turns, ours, prepare, theirs

PYTHON, TITAN = os.environ.get("JPREP_TORCH", ""), os.environ.get("JPREP_TITAN", "")
TITAN_TRAINER = Path(__file__).with_name("titan_trainer.py")
ROUNDS = int(os.environ.get("JPREP_BENCH_ROUNDS", "1"))
MINUTES = float(os.environ.get("JPREP_BENCH_MINUTES", "10"))
VOCABULARY = "pad_vocab = 50304"  # the dataset's ids are fewer than those of the models' own tokenizers
ACCUMULATE = 2


class Model(NamedTuple):
    """A model that is trained: its task, the lines of `[train.model]`, and the rows that go through it at a time."""

    task: str
    lines: str
    length: int
    rows: int


NO_DROPOUT = "attn_pdrop=0,embd_pdrop=0,resid_pdrop=0"
TINY = (
    "num_hidden_layers=2,hidden_size=64,intermediate_size=128,num_attention_heads=4,num_key_value_heads=2,head_dim=16"
)
MODELS = {
    "gpt2-xl": Model("clm", f'preset = "gpt2-xl"\nconfig = {{{NO_DROPOUT}}}\n{VOCABULARY}', 1024, 8),
    "llama3-1.5b": Model("clm", f'preset = "llama3-1b"\nconfig = {{num_hidden_layers=23}}\n{VOCABULARY}', 2048, 4),
    "modernbert-base": Model("mlm", f'preset = "modernbert-base"\n{VOCABULARY}', 1024, 32),
    "tiny": Model("clm", f'preset = "llama3-1b"\nconfig = {{{TINY}}}', 64, 2),
}
CHOSEN = os.environ.get("JPREP_BENCH_MODELS", "gpt2-xl llama3-1.5b modernbert-base").split()


def compare(folder: Path, model: Model, *, cuda: bool) -> dict[str, Pairs]:
    """jprep and each other trainer in turns, by the other's name."""
    device, precision = ("cuda", "bf16") if cuda else ("cpu", "fp32")
    options = f'device = "{device}"\ncompile = {str(cuda).lower()}\nmicro_batch = {model.rows}\ndeterministic = false'
    batch = model.rows * ACCUMULATE
    trial = Trial(model.task, model.lines, "torch", options, batch, model.length, precision, steps=20, warm=10)
    peer_options = {"rows": model.rows, "accumulate": ACCUMULATE, "cuda": cuda, "bf16": cuda, "compile": cuda}
    titan = list[Side]()

    def others(run: Path) -> Side:
        if TITAN and read_job(run).model["model_type"] == "llama":
            try:
                titan.append(theirs([TITAN], run, trial, peer_options, {}, TITAN_TRAINER))
            except FailedError as error:
                print(f"{'':18}{'torchtitan':12}not measured: {error.cause}", flush=True)
        return theirs([PYTHON], run, trial, peer_options, {})

    pairs = in_turns(lambda: ours(folder, trial), others, ROUNDS)
    return {"HF Trainer": pairs} | ({"torchtitan": pairs._replace(other=titan)} if titan else {})


def print_rows(name: str, model: Model, compared: dict[str, Pairs], peak: float | None) -> None:
    """Print a model's lines: jprep's, and those of the others."""
    pairs = next(iter(compared.values()))
    job = read_job(pairs.run)
    limit = peak / flops_per_token(job.model, job.parameters, model.length) if peak else None
    taken = max((event.figures.get(DEVICE_MEMORY) or 0.0 for event in read_events(pairs.run)), default=0.0)
    expected = estimate_memory(job, Options(), "cuda" if peak else "cpu", model.rows, 1)
    memory = f"{taken / 1e9:8.1f}{expected / 1e9:10.1f}" if taken else f"{'?':>8}{expected / 1e9:10.1f}"
    print(f"{name:18}{'jprep':12}{_pace(pairs.medians('steady')[0], limit)}{'':18}{memory}", flush=True)
    for other, both in compared.items():
        _, tokens, ratio = both.medians("steady")
        print(f"{'':18}{other:12}{_pace(tokens, limit)}{ratio:8.2f}{both.apart:10.1e}", flush=True)


def _pace(tokens: float, limit: float | None) -> str:
    return f"{tokens:10.0f}" + (f"{100 * tokens / limit:7.1f} %" if limit else f"{'?':>9}")


def main() -> None:
    names = [one.name for one in accelerators()]
    if not PYTHON or not (names or CHOSEN == ["tiny"]):
        missing = "no GPU" if PYTHON else "JPREP_TORCH names no Python with PyTorch, transformers and accelerate"
        print(f"not measured: {missing}")
        return
    peak = peak_flops(names[0], os.environ.get("JPREP_BENCH_PEAK", "")) if names else None
    print(f"{names[0] if names else 'no GPU'}, peak " + (f"{peak / 1e12:.0f} · 10¹² FLOP/s" if peak else "unknown"))
    head = f"{'tokens/s':>10}{'MFU':>9}{'ratio':>8}{'apart':>10}{'GB':>8}{'estimate':>10}"
    print(f"{'':30}{head}", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for name in CHOSEN:
            if time.monotonic() - begun > 60 * MINUTES:
                print(f"{name:18}not measured: {MINUTES:g} minutes are over", flush=True)
                continue
            try:
                print_rows(name, MODELS[name], compare(Path(folder), MODELS[name], cuda=bool(names)), peak)
            except FailedError as error:
                print(f"{name:18}not measured: {error.cause}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
