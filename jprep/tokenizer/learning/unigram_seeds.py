"""Finds the strings that Unigram's training begins with.

sentencepiece would look for them itself, but where it is given counts it does not use them for this, misses words that
only stand alone, and takes a gigabyte. Here a seed is a string of two characters or more inside a unit that occurs at
least twice, and that is not always followed by the same character; the units' counts are heeded.
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

MOST = 1_000_000
"""How many seeds there are at most: sentencepiece's default."""

_NEWLINE = ord("\n")


def write_seeds(units: Path, seeds: Path, longest: int) -> None:
    """Write lines of a string, a tab and how often it occurs; those that cover most characters come first.

    Args:
        units: written by `units.write_units`.
        seeds: where.
        longest: characters of a seed.
    """
    import numpy as np

    text, counts = read_units(units)
    found = [(np.zeros(0, np.int64),) * 3, *_substrings(text, counts, longest)]
    starts, lengths, sums = (np.concatenate(column) for column in zip(*found, strict=True))
    excess = int(sums.max(initial=0)).bit_length() + longest.bit_length() - 63  # bits that a product has too many
    # Stable: ties stay by length, then in the order of code points.
    best = np.argsort(-((sums >> max(excess, 0)) * lengths), kind="stable")[:MOST]
    rows = zip(starts[best].tolist(), lengths[best].tolist(), sums[best].tolist(), strict=True)
    with seeds.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(f"{text[start : start + length]}\t{sum_}\n" for start, length, sum_ in rows)


class _Level(NamedTuple):
    """All strings of one length.

    Attributes:
        at: where each occurrence of each begins.
        name: which string each occurrence is: an index into what follows.
        first: where each string first occurs.
        sums: how often each occurs.
        parent: which string of the level before each begins with.
    """

    at: Ints
    name: Ints
    first: Ints
    sums: Ints
    parent: Ints


def _substrings(text: str, counts: list[int], longest: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """By length: where seeds begin, their length, how often they occur."""
    import numpy as np

    points = np.frombuffer((text + "\n").encode("utf-32-le"), np.uint32).astype(np.int64)
    ended = points == _NEWLINE
    weights = np.append(np.array(counts, np.int64), 0)[np.cumsum(ended) - ended]
    at = np.flatnonzero(~ended)
    level = _group(at, points[at], weights)
    for length in range(1, longest + 1):
        kept = level.sums[level.name] > 1  # what occurs once occurs once with more behind it, too
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
