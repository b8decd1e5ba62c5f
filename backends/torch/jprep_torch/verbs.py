"""A worker's command line, and those of its verbs that are the same for all that PyTorch trains."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jprep.errors import JprepError, MachineError
from jprep.train.saved import Saved
from jprep.train.worker import Session


def parsers(module: str) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The worker's parser, and that of `train`, for a backend's own arguments."""
    parser = argparse.ArgumentParser(prog=module)
    verbs = parser.add_subparsers(dest="verb", required=True)
    train = verbs.add_parser("train", help="a run, to its end")
    train.add_argument("run", type=Path)
    train.add_argument("--device", choices=["cpu", "cuda", "xla"], required=True)
    export = verbs.add_parser("export", help="a checkpoint's weights as model.safetensors")
    export.add_argument("run", type=Path)
    export.add_argument("checkpoint", type=Path)
    export.add_argument("folder", type=Path)
    infer = verbs.add_parser("infer", help="requests from standard input, answers to standard output")
    infer.add_argument("folder", type=Path)
    return parser, train


def export_or_infer(given: argparse.Namespace) -> int:
    """Do one of the two; the exit code."""
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


def too_large(error: Exception, session: Session, where: str, fix: str) -> JprepError:
    """What does not fit at the first step never will; later a restart may mend it."""
    kind = MachineError if session.step <= session.start + 1 else JprepError
    return kind(f"the device's memory is full: {error}", where=where, fix=fix)
