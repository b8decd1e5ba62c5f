"""The heavy half: `python -m jprep_flax.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from jprep.train.verbs import do, parsers
from jprep.train.worker import Session, work
from jprep_flax.feeding import Feeder
from jprep_flax.layout import Layout
from jprep_flax.mesh import joined
from jprep_flax.options import Options
from jprep_flax.training import Trainer
from jprep_flax.updating import Updater

_LEAST_PATIENCE = 10.0  # minutes


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    parser, train = parsers("jprep_flax.worker")
    train.add_argument("--layout", required=True, help="the plan's, as JSON")
    train.add_argument("--process", type=int, default=0, help="this process's number")
    train.add_argument("--coordinator", default="", help="address and port that the first of several listens at")
    return do(parser.parse_args(arguments), _train, "jprep_flax.answering")


def _train(given: argparse.Namespace) -> int:
    layout = msgspec.json.decode(given.layout, type=Layout)

    def page(session: Session) -> None:
        options, section = msgspec.convert(session.job.options, Options), session.job.train
        how: dict[str, Any] = {"exact": section.precision == "fp32", "deterministic": options.deterministic}
        patience = 60 * max(_LEAST_PATIENCE, section.silent_minutes)
        how |= {"rank": given.process, "coordinator": given.coordinator or layout.coordinator}
        with joined(layout, patience=patience, **how) as place:
            updater = Updater(session.job, given.run, session.resume, place, layout, recompute=options.recompute)
            Trainer(session, place, updater, Feeder(session.job, layout, place)).train()

    return work(page, given.run, given.process, layout.processes)


if __name__ == "__main__":
    sys.exit(main())
