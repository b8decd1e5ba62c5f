"""The heavy half: `python -m jprep_torch.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from jprep.errors import JprepError
from jprep.train.worker import Session, work
from jprep_torch.backend import Options
from jprep_torch.devices import joined, ranks
from jprep_torch.training import Trainer


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    given = _parser().parse_args(arguments)
    if given.verb == "train":
        return _train(given)
    try:
        # Each verb loads what it needs.
        if given.verb == "export":
            from jprep_torch.exporting import export

            export(given.run, given.checkpoint, given.folder)
        else:
            from jprep_torch.answering import answer

            answer(given.folder)
        return 0
    except JprepError as error:
        sys.stderr.write(f"jprep: {error}\n")
        return error.exit_code


def _train(given: argparse.Namespace) -> int:
    def page(session: Session) -> None:
        options = msgspec.convert(session.job.options, Options)
        with joined(given.device, options.deterministic) as place:
            Trainer(session, given.run, place, given.rows, shard=given.shard).train()

    return work(page, given.run, *ranks())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jprep_torch.worker")
    verbs = parser.add_subparsers(dest="verb", required=True)
    train = verbs.add_parser("train", help="a run, to its end")
    train.add_argument("run", type=Path)
    train.add_argument("--rows", type=int, required=True, help="rows that go through the model at a time")
    train.add_argument("--device", choices=["cpu", "cuda"], required=True)
    train.add_argument("--shard", action="store_true", help="divide the model among the processes")
    export_ = verbs.add_parser("export", help="a checkpoint's weights as model.safetensors")
    export_.add_argument("run", type=Path)
    export_.add_argument("checkpoint", type=Path)
    export_.add_argument("folder", type=Path)
    infer = verbs.add_parser("infer", help="requests from standard input, answers to standard output")
    infer.add_argument("folder", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
