"""Train a model: `python -m jprep.corpus.signals.perplexity.training TEXT.txt… -o perplexity.npz`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from jprep.corpus.signals.perplexity.model import PerplexityModel


def main() -> None:
    """Train a model on text files in UTF-8, each line of which is a text, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--order", type=int, default=4, help="characters of the longest n-grams (default: 4)")
    parser.add_argument("--bits", type=int, default=22, help="base-2 logarithm of the tables' size (default: 22)")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    model = PerplexityModel(options.order, options.bits)
    model.train(_lines(options.texts))
    model.write(options.output)


def _lines(paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            yield from (stripped for line in lines if (stripped := line.rstrip("\n")))


if __name__ == "__main__":
    main()
