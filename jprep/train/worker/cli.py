"""A worker's command line: the verbs that every backend has."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from jprep.errors import JprepError, MachineError
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.log import on_stderr
from jprep.train.worker.out_of_memory import is_out_of_memory


def worker_parsers(module: str) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The worker's parser, and that of `train`, for a backend's own arguments."""
    parser = argparse.ArgumentParser(prog=module)
    verbs = parser.add_subparsers(dest="verb", required=True)
    train = verbs.add_parser("train", help="a run, to its end")
    train.add_argument("run", type=Path)
    export = verbs.add_parser("export", help="a checkpoint's weights as model.safetensors")
    export.add_argument("run", type=Path)
    export.add_argument("checkpoint", type=Path)
    export.add_argument("folder", type=Path)
    infer = verbs.add_parser("infer", help="requests from standard input, answers to standard output")
    infer.add_argument("folder", type=Path)
    return parser, train


def run_command(given: argparse.Namespace, train: Callable[[argparse.Namespace], int], answering: str) -> int:
    """Do what a verb says; the exit code.

    Args:
        given: what the parser has read.
        train: trains a run.
        answering: the module whose `serve_model` is given an exported folder. It loads what training does not need.
    """
    if given.verb == "train":
        return train(given)
    try:
        if given.verb == "export":
            CheckpointReader(given.checkpoint).export(given.folder)
        else:
            import_module(answering).serve_model(given.folder)
        return 0
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        full = MachineError(f"out of memory: {error}", where=given.verb, fix="use a machine with more memory")
        on_stderr(f"jprep: {full}")
        return full.exit_code
