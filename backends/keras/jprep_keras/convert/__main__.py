"""Convert a checkpoint: `python -m jprep_keras.convert CHECKPOINT DIR`; `jprep convert` calls it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from jprep.errors import JprepError
from jprep.train.run.log import on_stderr


def main(arguments: list[str]) -> int:
    """Convert a checkpoint, and return the exit code."""
    given = _parser().parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from jprep_keras.convert.from_tensorflow1 import ConversionOptions, from_tensorflow1

    try:
        options = ConversionOptions(given.config, given.vocab, given.part)
        from_tensorflow1(given.checkpoint, given.folder, options)
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    print(given.folder)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jprep_keras.convert")
    parser.add_argument("checkpoint", type=Path, help="the checkpoint's prefix, e.g. bert_model.ckpt")
    parser.add_argument("folder", metavar="DIR", type=Path, help="output directory")
    parser.add_argument("--config", type=Path, help="bert_config.json; default: the one beside the checkpoint")
    parser.add_argument("--vocab", type=Path, help="vocab.txt; default: the one beside the checkpoint")
    parser.add_argument(
        "--part", choices=["discriminator", "generator"], default="discriminator", help="which ELECTRA model to convert"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
