"""The heavy half: `python -m jprep_torch.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import sys

import msgspec

from jprep.train.verbs import do, parsers
from jprep.train.worker import Session, work
from jprep_torch.backend import Options
from jprep_torch.devices import joined, patience, ranks
from jprep_torch.pjrt import add_flags
from jprep_torch.training import Trainer
from jprep_torch.updating import Updater


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    parser, train = parsers("jprep_torch.worker")
    train.add_argument("--device", choices=["cpu", "cuda", "xla", "tpu"], required=True)
    train.add_argument("--rows", type=int, required=True, help="rows that go through the model at a time")
    add_flags(train)
    train.add_argument("--shard", action="store_true", help="divide the model among the processes")
    return do(parser.parse_args(arguments), _train, "jprep_torch.answering")


def _train(given: argparse.Namespace) -> int:
    def page(session: Session) -> None:
        job = session.job
        options = msgspec.convert(job.options, Options)
        on_xla = {"devices": given.devices, "host": given.process}
        with joined(given.device, deterministic=options.deterministic, patience=patience(job), **on_xla) as place:
            updater = Updater(job, given.run, session.resume, place, options, shard=given.shard)
            Trainer(session, place, updater, given.rows).train()

    return work(page, given.run, *ranks(given.process, given.hosts), whole=given.device == "xla")


if __name__ == "__main__":
    sys.exit(main())
