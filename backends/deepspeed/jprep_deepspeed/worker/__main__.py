"""The worker's command line: `python -m jprep_deepspeed.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from jprep.train.hooks.loading import load_run_hooks
from jprep.train.worker.cli import run_command, run_process, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_deepspeed.backend import DeepSpeed
from jprep_torch.worker.distributed.context import join_processes, process_timeout, rank_and_world_size

_SLURM = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}


def main(arguments: list[str] | None = None) -> int:
    """Run a command of the worker and return its exit code."""
    parser, train = worker_parsers("jprep_deepspeed.worker")
    train.add_argument("--device", choices=["cpu", "cuda"], required=True)
    train.add_argument("--settings", type=json.loads, required=True, help="DeepSpeed's configuration, as JSON")
    train.add_argument(
        "--gradient-checkpointing",
        "--recompute",
        action="store_true",
        help="keep only the input of each layer for the backward pass",
    )
    return run_command(parser.parse_args(arguments), _train, "jprep_torch.worker.inference")


def _train(given: argparse.Namespace) -> int:
    from jprep_deepspeed.worker.swapping import swap_directory
    from jprep_deepspeed.worker.train_state import TrainState  # an export needs no DeepSpeed
    from jprep_torch.worker.trainer import Trainer

    def train(session: Session) -> None:
        job = session.job
        hooks = load_run_hooks(session.run, job)
        deterministic = DeepSpeed().read_options(job.options).deterministic
        timeout = process_timeout(job)
        with (
            swap_directory(given.settings) as config,
            join_processes(given.device, deterministic=deterministic, timeout=timeout, alone=True) as context,
        ):
            state = TrainState(
                job,
                session.initial_weights,
                session.resume,
                context,
                config,
                gradient_checkpointing=given.gradient_checkpointing,
                hooks=hooks,
                profiler=session.profiler,
            )
            Trainer(session, context, state, config["train_micro_batch_size_per_gpu"], hooks).train()

    _use_slurm_ranks()
    # Extensions that a configuration needs are compiled by the ninja of this environment.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return run_worker(train, given.run, *rank_and_world_size())


def _use_slurm_ranks() -> None:
    """Set PyTorch's variables from those of Slurm in a task that `srun` has started."""
    if "RANK" not in os.environ and "SLURM_PROCID" in os.environ:
        os.environ.update({name: os.environ[slurm] for name, slurm in _SLURM.items()})


if __name__ == "__main__":
    run_process(main)
