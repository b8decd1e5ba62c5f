"""The heavy half: `python -m jprep_deepspeed.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import msgspec

from jprep.train.worker.cli import run_command, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_deepspeed.options import Options
from jprep_torch.worker.distributed import join_processes, process_timeout, rank_and_world_size

_SLURM = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    parser, train = worker_parsers("jprep_deepspeed.worker")
    train.add_argument("--device", choices=["cpu", "cuda"], required=True)
    train.add_argument("--settings", type=json.loads, required=True, help="DeepSpeed's configuration, as JSON")
    train.add_argument("--recompute", action="store_true", help="keep each layer's input only")
    return run_command(parser.parse_args(arguments), _train, "jprep_torch.worker.inference")


def _train(given: argparse.Namespace) -> int:
    from jprep_deepspeed.worker.train_state import TrainState  # an export needs no DeepSpeed
    from jprep_torch.worker.trainer import Trainer

    def page(session: Session) -> None:
        job, settings = session.job, given.settings
        options = msgspec.convert(job.options, Options)
        with join_processes(
            given.device, deterministic=options.deterministic, patience=process_timeout(job), alone=True
        ) as place:
            updater = TrainState(job, given.run, session.resume, place, settings, recompute=given.recompute)
            Trainer(session, place, updater, settings["train_micro_batch_size_per_gpu"]).train()

    _numbered_by_slurm()
    # What a configuration asks to be compiled is compiled by the ninja of this environment.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return run_worker(page, given.run, *rank_and_world_size())


def _numbered_by_slurm() -> None:
    """Tasks that `srun` has started know their numbers by other names than PyTorch's."""
    if "RANK" not in os.environ and "SLURM_PROCID" in os.environ:
        os.environ.update({name: os.environ[theirs] for name, theirs in _SLURM.items()})


if __name__ == "__main__":
    sys.exit(main())
