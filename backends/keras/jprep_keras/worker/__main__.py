"""The worker's command line: `python -m jprep_keras.worker {train,export,infer} …`.

Keras is imported by `train` and `infer` only, after the engine is known.
"""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from jprep.train.worker.cli import run_command, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_keras.planning.layout import Layout


def main(arguments: list[str] | None = None) -> int:
    """Run the worker, and return its exit code."""
    parser, train = worker_parsers("jprep_keras.worker")
    train.add_argument("--layout", required=True, help="layout of the plan, as JSON")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    return run_command(parser.parse_args(arguments), _train, "jprep_keras.worker.inference")


def _train(given: argparse.Namespace) -> int:
    layout = msgspec.json.decode(given.layout, type=Layout)
    os.environ["KERAS_BACKEND"] = layout.engine

    def train(session: Session) -> None:
        from jprep_keras.worker.training import train_session

        train_session(session, layout)

    return run_worker(train, given.run)


if __name__ == "__main__":
    sys.exit(main())
