"""Convert checkpoints: `python -m jprep_deepspeed.convert to-universal CHECKPOINT DIR`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jprep.errors import JprepError
from jprep.train.run.log import on_stderr
from jprep_deepspeed.convert.to_universal import to_universal


def main(arguments: list[str]) -> int:
    """Convert a checkpoint, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        to_universal(given.checkpoint, given.folder)
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jprep_deepspeed.convert")
    commands = parser.add_subparsers(dest="command", required=True)
    universal = commands.add_parser("to-universal", help="convert a checkpoint of a run to a universal checkpoint")
    universal.add_argument("checkpoint", type=Path, help="e.g. RUN/checkpoints/step-00001000")
    universal.add_argument("folder", metavar="DIR", type=Path, help="output directory")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
