"""`jprep train --backend deepspeed` beside Hugging Face's Trainer with DeepSpeed: what both benchmarks of it share.

The peer has DeepSpeed without offload, recomputing or lines in between, buckets that take the whole model up to
DeepSpeed's own size, and PyTorch's AdamW in one kernel, as jprep has.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jprep.io.machine import cpu_count
from jprep.train.run.directory import read_job
from tests.benchmarks.training import Pairs, Side, Trial, in_turns, ours, theirs

PYTHON = os.environ.get("JPREP_DEEPSPEED", "")
STAGES = [int(stage) for stage in os.environ.get("JPREP_BENCH_STAGES", "0 1 2 3").split()]
MISSING = "JPREP_DEEPSPEED names no Python with DeepSpeed, transformers and accelerate"

_BUCKET = 500_000_000  # DeepSpeed's own
_ALIGNED = 64  # ZeRO 1 and 2 want even ones


def compare(folder: Path, trial: Trial, stage: int, processes: int, *, rows: int, cuda: bool) -> Pairs:
    """Both sides in turns, in one of ZeRO's stages.

    Args:
        folder: where `prepare` has been.
        trial: what is trained, without options.
        stage: of ZeRO.
        processes: of this machine.
        rows: that go through the model at a time.
        cuda: whether on GPUs.

    Raises:
        FailedError: a side did not come to its end, for want of memory perhaps.
    """
    threads, device = max(1, cpu_count() // processes), "cuda" if cuda else "cpu"
    options = f'device = "{device}"\nprocesses = {processes}\nstage = {stage}\nrows = {rows}\nthreads = {threads}'
    trial = trial._replace(backend="deepspeed", options=options)
    accumulate = trial.batch // processes // rows
    env = {"OMP_NUM_THREADS": str(threads), "PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"}
    env |= {} if cuda else {"DS_ACCELERATOR": "cpu"}
    launcher = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    bf16 = trial.precision == "bf16"
    about = {"threads": threads, "rows": rows, "accumulate": accumulate, "cuda": cuda, "bf16": bf16}

    def other(run: Path) -> Side:
        settings = peer_settings(stage, read_job(run).parameters, rows, accumulate, cuda=cuda, bf16=bf16)
        return theirs(launcher, run, trial, about | {"deepspeed": settings}, env)

    return in_turns(lambda: ours(folder, trial), other)


def peer_settings(stage: int, parameters: int, rows: int, accumulate: int, *, cuda: bool, bf16: bool) -> dict[str, Any]:
    """The peer's DeepSpeed configuration.

    Args:
        stage: of ZeRO.
        parameters: of the model.
        rows: that go through the model at a time.
        accumulate: how often.
        cuda: whether on GPUs.
        bf16: whether in half precision.
    """
    bucket = min(_BUCKET, -(-parameters // _ALIGNED) * _ALIGNED)
    sent = {"contiguous_gradients": True, "overlap_comm": cuda, "reduce_bucket_size": bucket}
    return {
        "train_micro_batch_size_per_gpu": rows,
        "gradient_accumulation_steps": accumulate,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": bf16},
        "steps_per_print": 1_000_000,
        "zero_optimization": {"stage": stage, **(sent | {"allgather_bucket_size": bucket} if stage else {})},
    }
