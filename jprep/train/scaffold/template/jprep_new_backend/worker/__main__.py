"""The worker's command line: `python -m jprep_new_backend.worker {train,export,infer} …`.

jprep imports this module to see whether the backend is installed, so it imports the framework at its top, and runs
nothing on import.
"""

from __future__ import annotations

import argparse
import sys

from jprep.train.worker.cli import run_command, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_new_backend.worker.train_state import TrainState
from jprep_new_backend.worker.trainer import Trainer


def main(arguments: list[str] | None = None) -> int:
    """Run the worker, and return its exit code."""
    parser, train = worker_parsers("jprep_new_backend.worker")
    train.add_argument("--micro-batch", type=int, required=True, help="rows that go through the model at a time")
    return run_command(parser.parse_args(arguments), _train, "jprep_new_backend.worker.inference")


def _train(given: argparse.Namespace) -> int:
    def train(session: Session) -> None:
        state = TrainState(session.job, session.initial_weights, session.resume)
        Trainer(session, state, given.micro_batch).train()

    return run_worker(train, given.run)


if __name__ == "__main__":
    sys.exit(main())
