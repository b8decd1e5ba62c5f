"""The heavy half: `python -m jprep_flax.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import msgspec

from jprep.errors import JprepError, MachineError
from jprep.train.saved import Saved
from jprep.train.worker import Session, work
from jprep_flax.feeding import Feeder
from jprep_flax.layout import Layout
from jprep_flax.mesh import joined
from jprep_flax.options import WHERE, Options
from jprep_flax.training import Trainer
from jprep_flax.updating import Updater

_LEAST_PATIENCE = 10.0  # minutes
_FULL = "RESOURCE_EXHAUSTED"


def main(arguments: list[str] | None = None) -> int:
    """Do what a verb says; the exit code."""
    given = _parser().parse_args(arguments)
    if given.verb == "train":
        return _train(given)
    try:
        if given.verb == "export":
            Saved(given.checkpoint).export(given.folder)
        else:
            from jprep_flax.answering import answer  # it loads what training does not need

            answer(given.folder)
        return 0
    except JprepError as error:
        sys.stderr.write(f"jprep: {error}\n")
        return error.exit_code


def _train(given: argparse.Namespace) -> int:
    layout = msgspec.json.decode(given.layout, type=Layout)

    def page(session: Session) -> None:
        options, section = msgspec.convert(session.job.options, Options), session.job.train
        how: dict[str, Any] = {"exact": section.precision == "fp32", "deterministic": options.deterministic}
        patience = 60 * max(_LEAST_PATIENCE, section.silent_minutes)
        how |= {"rank": given.process, "coordinator": given.coordinator or layout.coordinator}
        with joined(layout, patience=patience, **how) as place:
            try:
                updater = Updater(session.job, given.run, session.resume, place, layout, recompute=options.recompute)
                Trainer(session, place, updater, Feeder(session.job, layout, place)).train()
            except jax.errors.JaxRuntimeError as error:
                if _FULL not in str(error):
                    raise
                raise _too_large(error, session) from error

    return work(page, given.run, given.process, layout.processes)


def _too_large(error: Exception, session: Session) -> JprepError:
    """What does not fit at the first step never will; later a restart may mend it."""
    kind = MachineError if session.step <= session.start + 2 else JprepError  # the host is a step ahead
    fix = f"fewer rows under {WHERE}, or recompute = true, or fsdp over several devices"
    return kind(f"the device's memory is full: {error}", where=WHERE, fix=fix)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jprep_flax.worker")
    verbs = parser.add_subparsers(dest="verb", required=True)
    train = verbs.add_parser("train", help="a run, to its end")
    train.add_argument("run", type=Path)
    train.add_argument("--layout", required=True, help="the plan's, as JSON")
    train.add_argument("--process", type=int, default=0, help="this process's number")
    train.add_argument("--coordinator", default="", help="address and port that the first of several listens at")
    export_ = verbs.add_parser("export", help="a checkpoint's weights as model.safetensors")
    export_.add_argument("run", type=Path)
    export_.add_argument("checkpoint", type=Path)
    export_.add_argument("folder", type=Path)
    infer = verbs.add_parser("infer", help="requests from standard input, answers to standard output")
    infer.add_argument("folder", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
