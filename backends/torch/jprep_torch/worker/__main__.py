"""The heavy half: `python -m jprep_torch.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import sys

import msgspec

from jprep.train.worker.cli import run_command, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_torch.backend import Options
from jprep_torch.planning.xla import add_worker_flags
from jprep_torch.worker.distributed import join_processes, process_timeout, rank_and_world_size
from jprep_torch.worker.train_state import TrainState
from jprep_torch.worker.trainer import Trainer


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    parser, train = worker_parsers("jprep_torch.worker")
    train.add_argument("--device", choices=["cpu", "cuda", "xla", "tpu"], required=True)
    train.add_argument("--rows", type=int, required=True, help="rows that go through the model at a time")
    add_worker_flags(train)
    train.add_argument("--shard", action="store_true", help="divide the model among the processes")
    return run_command(parser.parse_args(arguments), _train, "jprep_torch.worker.inference")


def _train(given: argparse.Namespace) -> int:
    def page(session: Session) -> None:
        job = session.job
        options = msgspec.convert(job.options, Options)
        on_xla = {"devices": given.devices, "host": given.process}
        with join_processes(
            given.device, deterministic=options.deterministic, patience=process_timeout(job), **on_xla
        ) as place:
            updater = TrainState(job, given.run, session.resume, place, options, shard=given.shard)
            Trainer(session, place, updater, given.rows).train()

    return run_worker(page, given.run, *rank_and_world_size(given.process, given.hosts), whole=given.device == "xla")


if __name__ == "__main__":
    sys.exit(main())
