"""The worker's command line: `python -m jprep_flax.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from jprep.train.hooks.loading import load_run_hooks
from jprep.train.worker.cli import run_command, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_flax.backend import Flax
from jprep_flax.planning.layout import Layout
from jprep_flax.worker.data import BatchLoader
from jprep_flax.worker.distributed import join_processes
from jprep_flax.worker.train_state import TrainState
from jprep_flax.worker.trainer import Trainer

_MIN_TIMEOUT = 10.0  # minutes


def main(arguments: list[str] | None = None) -> int:
    """Run the worker, and return its exit code."""
    parser, train = worker_parsers("jprep_flax.worker")
    train.add_argument("--layout", required=True, help="layout of the plan, as JSON")
    train.add_argument("--process", type=int, default=0, help="number of this process")
    train.add_argument("--coordinator", default="", help="address and port at which the first process listens")
    return run_command(parser.parse_args(arguments), _train, "jprep_flax.worker.inference")


def _train(given: argparse.Namespace) -> int:
    layout = msgspec.json.decode(given.layout, type=Layout)
    rank, coordinator = given.process, given.coordinator or layout.coordinator
    if layout.per_host:  # jprep started this process on one of the hosts
        rank, coordinator = int(os.environ["RANK"]), f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"

    def train(session: Session) -> None:
        options, section = Flax().read_options(session.job.options), session.job.train
        hooks = load_run_hooks(session.run, session.job)
        with join_processes(
            layout,
            rank=rank,
            coordinator=coordinator,
            exact=section.precision == "fp32",
            deterministic=options.deterministic,
            timeout=60 * max(_MIN_TIMEOUT, section.silent_minutes),
        ) as context:
            state = TrainState(
                session.job,
                session.initial_weights,
                session.resume,
                context,
                layout,
                gradient_checkpointing=options.gradient_checkpointing,
                hooks=hooks,
            )
            Trainer(session, context, state, BatchLoader(session.job, layout, context), hooks).train()

    return run_worker(train, given.run, rank, layout.processes)


if __name__ == "__main__":
    sys.exit(main())
