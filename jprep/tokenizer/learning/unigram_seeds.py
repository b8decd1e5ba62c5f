"""Find the seed strings of Unigram's training.

sentencepiece could find them itself, but ignores the counts of its input, misses words that only occur alone, and needs
a gigabyte of memory. Here a seed is a string of at least two characters inside a unit that occurs at least twice and is
not always followed by the same character; the counts of units are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jprep.tokenizer.learning.training_units import read_units

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

MAX_SEEDS = 1_000_000
"""Maximum number of seeds, as in sentencepiece."""

_NEWLINE = ord("\n")


def write_seeds(units: Path, seeds: Path, longest: int) -> None:
    """Write lines of a string, a tab and its count, sorted by the number of characters covered.

    Args:
        units: file written by `write_units`.
        seeds: output file.
        longest: maximum characters per seed.
    """
    import numpy as np

    text, counts = read_units(units)
    found = [(np.zeros(0, np.int64),) * 3, *_substrings(text, counts, longest)]
    starts, lengths, sums = (np.concatenate(column) for column in zip(*found, strict=True))
    excess = int(sums.max(initial=0)).bit_length() + longest.bit_length() - 63  # bits by which a product would overflow
    # Stable: ties are ordered by length, then by code point.
    best = np.argsort(-((sums >> max(excess, 0)) * lengths), kind="stable")[:MAX_SEEDS]
    rows = zip(starts[best].tolist(), lengths[best].tolist(), sums[best].tolist(), strict=True)
    with seeds.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(f"{text[start : start + length]}\t{sum_}\n" for start, length, sum_ in rows)


class _Level(NamedTuple):
    """All strings of one length.

    Attributes:
        at: start of each occurrence of each string.
        name: string of each occurrence, as an index into the following.
        first: first occurrence of each string.
        sums: count of each string.
        parent: index of each string's prefix among the strings one character shorter.
    """

    at: Ints
    name: Ints
    first: Ints
    sums: Ints
    parent: Ints


def _substrings(text: str, counts: list[int], longest: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield, for each length, starts, lengths and counts of the seeds."""
    import numpy as np

    points = np.frombuffer((text + "\n").encode("utf-32-le"), np.uint32).astype(np.int64)
    ended = points == _NEWLINE
    weights = np.append(np.array(counts, np.int64), 0)[np.cumsum(ended) - ended]
    at = np.flatnonzero(~ended)
    level = _group(at, points[at], weights)
    for length in range(1, longest + 1):
        kept = level.sums[level.name] > 1  # extensions of a string that occurs once also occur once
        at, name, after = level.at[kept], level.name[kept], points[level.at[kept] + length]
        inside = after != _NEWLINE
        longer = _group(at[inside], name[inside] << 21 | after[inside], weights)  # a code point has 21 bits
        if length > 1:
            seed = level.sums > 1
            seed[longer.parent[longer.sums == level.sums[longer.parent]]] = False
            yield level.first[seed], np.full(np.count_nonzero(seed), length), level.sums[seed]
        level = longer


def _group(at: Ints, keys: Ints, weights: Ints) -> _Level:
    import numpy as np

    order = np.argsort(keys, kind="stable")
    at, keys = at[order], keys[order]
    begins = np.ones(len(keys), bool)
    begins[1:] = keys[1:] != keys[:-1]
    index = np.flatnonzero(begins)
    sums = np.add.reduceat(weights[at], index) if len(index) else np.zeros(0, np.int64)
    return _Level(at, np.cumsum(begins) - 1, at[index], sums, keys[index] >> 21)
