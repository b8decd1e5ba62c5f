"""Models of fairseq's own, to and fro: `python -m jprep_fairseq_xla.convert {from-fairseq,to-fairseq} …`.

`from-fairseq CHECKPOINT.pt TOKENIZER FOLDER` writes what a run of `fairseq-train` has saved as `jprep export` would;
`to-fairseq EXPORT FOLDER` writes an exported model as a checkpoint and a dictionary that fairseq loads.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from pathlib import Path

from jprep.errors import JprepError
from jprep.train.run.log import on_stderr
from jprep_fairseq_xla.convert.from_fairseq import from_fairseq
from jprep_fairseq_xla.convert.to_fairseq import write_for_fairseq


def main(arguments: list[str]) -> int:
    """Convert a model; the exit code."""
    given = _parser().parse_args(arguments)
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it says what it would have liked to import,
    warnings.simplefilter("ignore")  # and is told that it asks hydra in an old way
    try:
        if given.verb == "from-fairseq":
            from_fairseq(given.checkpoint, given.tokenizer, given.folder, given.dict)
        else:
            write_for_fairseq(given.export, given.folder)
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    print(given.folder)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jprep_fairseq_xla.convert")
    verbs = parser.add_subparsers(dest="verb", required=True)
    coming = verbs.add_parser("from-fairseq", help="a checkpoint of fairseq's as transformers has such models")
    coming.add_argument("checkpoint", type=Path, help="e.g. checkpoints/checkpoint_best.pt")
    coming.add_argument("tokenizer", type=Path, help="the folder of the tokenizer that made its ids")
    coming.add_argument("folder", type=Path, help="where to")
    coming.add_argument("--dict", type=Path, metavar="DICT.TXT", help="where it is not the tokenizer's own")
    going = verbs.add_parser("to-fairseq", help="an exported model as a checkpoint that fairseq loads")
    going.add_argument("export", type=Path, help="a folder of `jprep export`")
    going.add_argument("folder", type=Path, help="where to")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
