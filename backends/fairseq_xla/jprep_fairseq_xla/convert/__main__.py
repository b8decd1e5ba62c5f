"""Convert models: `python -m jprep_fairseq_xla.convert {from-fairseq,to-fairseq} …`.

`from-fairseq CHECKPOINT.pt TOKENIZER DIR` writes a checkpoint of `fairseq-train` as `jprep export` would;
`to-fairseq EXPORT DIR` writes an exported model as a checkpoint and a dictionary that fairseq loads.
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
from jprep_fairseq_xla.convert.to_fairseq import to_fairseq


def main(arguments: list[str]) -> int:
    """Convert a model, and return the exit code."""
    given = _parser().parse_args(arguments)
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it logs optional imports that are missing
    warnings.simplefilter("ignore")  # hydra warns of fairseq's old calls
    try:
        if given.command == "from-fairseq":
            from_fairseq(given.checkpoint, given.tokenizer, given.folder, given.dict)
        else:
            to_fairseq(given.export, given.folder)
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    print(given.folder)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jprep_fairseq_xla.convert")
    commands = parser.add_subparsers(dest="command", required=True)
    from_parser = commands.add_parser("from-fairseq", help="convert a checkpoint of fairseq to transformers")
    from_parser.add_argument("checkpoint", type=Path, help="e.g. checkpoints/checkpoint_best.pt")
    from_parser.add_argument("tokenizer", type=Path, help="directory of the tokenizer that encoded its data")
    from_parser.add_argument("folder", metavar="DIR", type=Path, help="output directory")
    from_parser.add_argument(
        "--dict", type=Path, metavar="DICT.TXT", help="fairseq's dictionary, if it is not the tokenizer's"
    )
    to_parser = commands.add_parser("to-fairseq", help="convert an exported model to a checkpoint of fairseq")
    to_parser.add_argument("export", type=Path, help="directory of `jprep export`")
    to_parser.add_argument("folder", metavar="DIR", type=Path, help="output directory")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
