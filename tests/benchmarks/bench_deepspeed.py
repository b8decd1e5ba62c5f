"""Tokens a second of the DeepSpeed backend beside Hugging Face's Trainer with DeepSpeed: two processes on a CPU.

Both take the same model, first weights, batches, AdamW, precision and number of threads, in turns. Losses are
compared without dropout only: the masks differ.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.training import PACES, Trial, prepare
from tests.benchmarks.zero import MISSING, PYTHON, STAGES, compare

PROCESSES, BATCH = 2, 8
SIZE = 'model_type="gpt2",n_layer=4,n_embd=256,n_head=4,n_positions=256'
MODELS = {
    "without dropout": f"config = {{{SIZE},attn_pdrop=0,embd_pdrop=0,resid_pdrop=0}}",
    "with dropout": f"config = {{{SIZE}}}",
}


def main() -> None:
    if not PYTHON:
        print(f"not measured: {MISSING}")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        print(f"{'tokens/s':34}{'jprep':>12}{'HF + DeepSpeed':>16}{'ratio':>8}{'losses apart':>16}")
        for variant, model in MODELS.items():
            for stage in STAGES:
                trial = Trial("clm", model, "deepspeed", batch=BATCH)
                pairs = compare(folder, trial, stage, PROCESSES, rows=BATCH // PROCESSES, cuda=False)
                apart = f"{pairs.apart:16.1e}" if variant == "without dropout" else ""
                for pace in PACES:
                    mine, other, ratio = pairs.medians(pace)
                    print(f"ZeRO-{stage} {variant:19}{pace:8}{mine:12.0f}{other:16.0f}{ratio:8.2f}{apart}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
