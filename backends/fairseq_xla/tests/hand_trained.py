"""A small model that fairseq itself has trained, on a data-bin that jprep exported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch

from jprep.dataset.exports import export_dataset
from jprep.dataset.exports.base import ExportOptions
from tests.fakes.trained_run import trained_run

TASKS = {
    "roberta": ("masked_lm", "masked_lm", "roberta_base"),
    "bert": ("masked_lm", "masked_lm", "bert_base"),
    "gpt2": ("language_modeling", "cross_entropy", "transformer_lm_gpt"),
}
"""`model_type` → fairseq's task, criterion and architecture."""

SIZES = ("layers=2", "embed-dim=16", "ffn-embed-dim=24", "attention-heads=2")
UPDATES = 8


class HandTrained(NamedTuple):
    """What `by_hand train` has made.

    Attributes:
        tokenizer, bin, checkpoint: where they lie.
        losses: of each update, to base 2.
        said: on stderr and stdout.
    """

    tokenizer: Path
    bin: Path
    checkpoint: Path
    losses: list[float]
    said: str


def hand_trained(folder: Path, kind: str, *options: str) -> HandTrained:
    """Export a small dataset and have fairseq train on it."""
    trained_run(folder)
    data = folder / "bin"
    export_dataset(folder / "dataset", None, "fairseq", data, ExportOptions(unit="sentence", length=31))
    task, criterion, arch = TASKS[kind]
    part = "decoder" if kind == "gpt2" else "encoder"
    words = ["train", str(data), *(f"--{part}-{size}" for size in SIZES), f"--task={task}", f"--criterion={criterion}"]
    words += [f"--arch={arch}", "--tokens-per-sample=32", "--sample-break-mode=complete", "--batch-size=8", "--seed=1"]
    words += ["--optimizer=adam", "--lr=0.01", f"--max-update={UPDATES}", "--log-format=json", "--log-interval=1"]
    words += ["--num-workers=0", f"--save-dir={folder}/saved", *options, *([] if "--tpu" in options else ["--cpu"])]
    command = [sys.executable, "-m", "jprep_fairseq_xla.native_cli", *words]
    env = os.environ | {"PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    logged = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "train_inner | {" in line]
    losses = [float(one["loss"]) for one in logged]
    return HandTrained(folder / "tokenizer", data, folder / "saved" / "checkpoint_best.pt", losses, done.stdout)


def state_of(checkpoint: Path) -> dict[str, Any]:
    """What `torch.save` wrote."""
    state: dict[str, Any] = torch.load(checkpoint, weights_only=False)
    return state
