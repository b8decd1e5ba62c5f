"""The heavy half: `python -m jprep_torch.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import torch

from jprep.errors import JprepError, MachineError
from jprep.train.saved import Saved
from jprep.train.worker import Session, work
from jprep_torch.backend import WHERE, Options
from jprep_torch.devices import joined, ranks
from jprep_torch.training import Trainer
from jprep_torch.updating import Updater

_LEAST_PATIENCE = 10.0  # minutes, as PyTorch has them


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    given = _parser().parse_args(arguments)
    if given.verb == "train":
        return _train(given)
    try:
        if given.verb == "export":
            Saved(given.checkpoint).export(given.folder)
        else:
            from jprep_torch.answering import answer  # it loads what training does not need

            answer(given.folder)
        return 0
    except JprepError as error:
        sys.stderr.write(f"jprep: {error}\n")
        return error.exit_code


def _train(given: argparse.Namespace) -> int:
    def page(session: Session) -> None:
        options = msgspec.convert(session.job.options, Options)
        patience = timedelta(minutes=max(_LEAST_PATIENCE, session.job.train.silent_minutes))
        with joined(given.device, deterministic=options.deterministic, patience=patience) as place:
            try:
                updater = Updater(session.job, given.run, session.resume, place, options, shard=given.shard)
                Trainer(session, place, updater, given.rows).train()
            except torch.OutOfMemoryError as error:
                raise _too_large(error, session) from error

    return work(page, given.run, *ranks())


def _too_large(error: Exception, session: Session) -> JprepError:
    """What does not fit at the first step never will; later a restart may mend it."""
    kind = MachineError if session.step <= session.start + 1 else JprepError
    fix = f'fewer rows under {WHERE}, or recompute = true, or several GPUs with shard = "yes"'
    return kind(f"the device's memory is full: {error}", where=WHERE, fix=fix)


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
