"""The command line of a worker: the subcommands that every backend has."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from jprep.errors import JprepError, MachineError
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.log import on_stderr
from jprep.train.worker.memory_shortage import find_shortage
from jprep.train.worker.out_of_memory import is_out_of_memory


def worker_parsers(module: str) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the worker's parser and that of `train`, to which a backend adds its own arguments.

    Args:
        module: the worker's module, for usage messages.
    """
    parser = argparse.ArgumentParser(prog=module)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a run to its end")
    train.add_argument("run", type=Path)
    export = commands.add_parser("export", help="write a checkpoint's weights as model.safetensors")
    export.add_argument("run", type=Path)
    export.add_argument("checkpoint", type=Path)
    export.add_argument("folder", type=Path)
    infer = commands.add_parser("infer", help="serve requests: from standard input, to standard output")
    infer.add_argument("folder", type=Path)
    return parser, train


def run_command(given: argparse.Namespace, train: Callable[[argparse.Namespace], int], server: str) -> int:
    """Run a subcommand, and return the exit code.

    Args:
        given: the parsed arguments.
        train: trains a run.
        server: the module whose `serve_model` is called with an exported folder; imported for `infer` only.
    """
    if given.command == "train":
        return train(given)
    try:
        if given.command == "export":
            CheckpointReader(given.checkpoint).export(given.folder)
        else:
            import_module(server).serve_model(given.folder)
        return 0
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        shortage = find_shortage(f"{type(error).__name__}: {error}", on_host=True)
        what = f"out of memory: {shortage}: {error}"
        full = MachineError(what, where=given.command, fix="use a machine with more memory")
        on_stderr(f"jprep: {full}")
        return full.exit_code


def run_process(main: Callable[[], int]) -> NoReturn:
    """Run a worker's main function and end its process, without the finalization of the interpreter.

    A thread of PyTorch may need Python's global lock after its work is done. If the interpreter is being finalized by
    then, the process aborts or never ends (https://github.com/pytorch/pytorch/issues/190489).

    Args:
        main: returns the exit code.
    """
    code = 1
    try:
        code = main()
    except SystemExit as error:  # of the parser, or of a hook
        code = _exit_code(error)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        _leave(code)


def _exit_code(error: SystemExit) -> int:
    """Return the exit code of `sys.exit`, whose text is printed."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    on_stderr(str(error.code))
    return 1


def _leave(code: int) -> NoReturn:
    """Do what the interpreter does before it is finalized, and end the process."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # a closed pipe, a full disk
                stream.flush()
    finally:
        os._exit(code)
