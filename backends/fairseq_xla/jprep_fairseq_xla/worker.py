"""The heavy half: `python -m jprep_fairseq_xla.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version

from jprep.train.verbs import do, parsers
from jprep.train.worker import Session, work
from jprep_fairseq_xla.mends import mended_fairseq
from jprep_torch.pjrt import add_flags

version("fairseq")  # who imports this to see whether the backend is here shall not be told that it is


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    parser, train = parsers("jprep_fairseq_xla.worker")
    train.add_argument("--device", choices=["cpu", "xla"], required=True)
    train.add_argument("--settings", type=json.loads, required=True, help="fairseq's options, as JSON")
    train.add_argument("--rows", type=int, required=True, help="rows that go through the model at a time")
    add_flags(train)
    return do(parser.parse_args(arguments), _train, "jprep_fairseq_xla.answering")


def _train(given: argparse.Namespace) -> int:
    from jprep_torch.devices import joined, patience, ranks

    def page(session: Session) -> None:
        mended_fairseq(given.device)
        from jprep_fairseq_xla.updating import Updater
        from jprep_torch.training import Trainer

        on_xla = {"devices": given.devices, "host": given.process}
        with joined(given.device, deterministic=True, patience=patience(session.job), **on_xla) as place:
            updater = Updater(session.job, given.run, session.resume, place, given.settings)
            Trainer(session, place, updater, given.rows).train()

    return work(page, given.run, *ranks(given.process, given.hosts), whole=given.device == "xla")


if __name__ == "__main__":
    sys.exit(main())
