"""The heavy half: `python -m jprep_flax.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from jprep.train.worker.cli import run_command, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_flax.options import Options
from jprep_flax.planning.layout import Layout
from jprep_flax.worker.data import BatchLoader
from jprep_flax.worker.distributed import join_processes
from jprep_flax.worker.train_state import TrainState
from jprep_flax.worker.trainer import Trainer

_LEAST_PATIENCE = 10.0  # minutes


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    parser, train = worker_parsers("jprep_flax.worker")
    train.add_argument("--layout", required=True, help="the plan's, as JSON")
    train.add_argument("--process", type=int, default=0, help="this process's number")
    train.add_argument("--coordinator", default="", help="address and port that the first of several listens at")
    return run_command(parser.parse_args(arguments), _train, "jprep_flax.worker.inference")


def _train(given: argparse.Namespace) -> int:
    layout = msgspec.json.decode(given.layout, type=Layout)

    def page(session: Session) -> None:
        options, section = msgspec.convert(session.job.options, Options), session.job.train
        how: dict[str, Any] = {"exact": section.precision == "fp32", "deterministic": options.deterministic}
        patience = 60 * max(_LEAST_PATIENCE, section.silent_minutes)
        how |= {"rank": given.process, "coordinator": given.coordinator or layout.coordinator}
        with join_processes(layout, patience=patience, **how) as place:
            updater = TrainState(session.job, given.run, session.resume, place, layout, recompute=options.recompute)
            Trainer(session, place, updater, BatchLoader(session.job, layout, place)).train()

    return run_worker(page, given.run, given.process, layout.processes)


if __name__ == "__main__":
    sys.exit(main())
