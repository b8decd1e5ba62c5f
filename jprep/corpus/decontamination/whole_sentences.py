"""Find short parts of items where they are whole sentences or lines, without an edit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jprep.corpus.decontamination.ngrams import HashSet, Integers, span_hash, spans_hashes
from jprep.random.counter_bits import UInt64Array

_MARKED = 4  # marks that a part may have inside, such as quotation marks, plus one


class WholeSentences:
    """Parts that are looked for between the marks of sentences, lines, brackets and quotations.

    Args:
        parts: the folded parts by their number, no two equal.
    """

    def __init__(self, parts: Mapping[int, UInt64Array]) -> None:
        self._known = dict[int, tuple[HashSet, Integers]]()
        by_length = dict[int, dict[int, int]]()
        for number, part in parts.items():
            by_length.setdefault(len(part), {})[span_hash(part)] = number
        for length, numbers in by_length.items():
            hashes = HashSet(list(numbers))
            self._known[length] = hashes, np.array([numbers[each] for each in hashes.sorted.tolist()], np.int64)

    def find(self, characters: UInt64Array, marks: Integers) -> tuple[Integers, Integers]:
        """Return the places and the numbers of the parts that are in folded text.

        Args:
            characters: the folded text.
            marks: sorted places where a sentence may begin or end, each once, with those of the text.
        """
        places, parts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if self._known:
            for skipped in range(1, _MARKED + 1):
                sizes = marks[skipped:] - marks[:-skipped]
                for length, (hashes, numbers) in self._known.items():
                    starts = marks[:-skipped][sizes == length]
                    found, ranks = hashes.find(spans_hashes(characters, starts, length))
                    places.append(starts[found])
                    parts.append(numbers[ranks])
        return np.concatenate(places), np.concatenate(parts)
