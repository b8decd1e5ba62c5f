"""Find items that occur in training texts, in bounded memory. `docs/compare-tasks.md` has the rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jprep.corpus.api import Corpus
from jprep.corpus.decontamination.folding import BREAK, SEPARATOR, fold
from jprep.corpus.decontamination.item_index import ItemIndex
from jprep.corpus.shard_reader import read_batches, shard_of
from jprep.engine.stage import Output

SHARE = 0.6
"""Share of an item's characters that must occur in one training text for the item to be left out."""

_BATCH = 1 << 18  # characters that are searched at a time: the arrays fit a core's cache
_LONGEST = 1 << 14  # characters of a part of an item that are compared


class Overlap(NamedTuple):
    """How much of an item occurs in a training text.

    Attributes:
        share: share of the item's characters that occur in one training text, the largest of all texts.
        where: that text; "" if no text has any of them.
        found: whether the item counts as part of the training texts.
        compared: characters of the item that were compared; 0 if it is too short to compare.
    """

    share: float
    where: str
    found: bool
    compared: int


class OverlapFinder:
    """Looks for items in training texts.

    Characters are compared without width, case, voicing marks, spaces and punctuation. A character of an item counts as
    found in a training text if it is in 12 consecutive characters of both, or in a part of the item of 8 to 19
    characters that occurs there in full. An item is found if that holds for 60 % of its characters in one training
    text; if all its parts have fewer than 20 characters, for all of them. Parts of fewer than 8 characters do not
    count, nor do phrases that more than 64 items have.

        finder = OverlapFinder([["日本で一番高い山はどこですか。"], ["空はなぜ青いのですか。"]])
        finder.read_corpus(Corpus("work/jawiki/corpus"))
        [overlap.found for overlap in finder.overlaps()]

    Args:
        items: for each item, its parts: the texts that would reveal it.

    Attributes:
        characters: characters of training texts that were read.
    """

    def __init__(self, items: Iterable[Sequence[str]]) -> None:
        numbers = dict[tuple[bytes, ...], int]()
        folded = [[fold(part.replace(BREAK, ""))[:_LONGEST] for part in parts] for parts in items]
        self._number = [numbers.setdefault(tuple(part.tobytes() for part in parts), len(numbers)) for parts in folded]
        unique = dict(zip(reversed(self._number), reversed(folded), strict=True))
        self._index = ItemIndex([unique[number] for number in range(len(unique))])
        self._overlap = 64 + 2 * int(self._index.compared.max(initial=0))
        self._characters = np.zeros(len(unique), np.int64)
        self._where = [""] * len(unique)
        self.characters = 0

    def read(self, texts: Iterable[tuple[str, str]]) -> None:
        """Look for the items in training texts.

        Args:
            texts: pairs of a name and a text.
        """
        names, pieces, size = list[str](), list[str](), 0
        for name, text in texts:
            self.characters += len(text)
            for piece in _pieces(text, self._overlap):
                names.append(name)
                pieces.append(piece)
                size += len(piece) + 1
                if size >= _BATCH:
                    self._search(names, pieces)
                    names, pieces, size = [], [], 0
        self._search(names, pieces)

    def read_corpus(self, corpus: Corpus) -> None:
        """Look for the items in the documents of a corpus, whose shards are checked against their hashes.

        Raises:
            DamagedError: a shard is missing or damaged.
        """
        for part in corpus.manifest.parts:
            self.read(_documents(corpus, part))

    def overlaps(self) -> list[Overlap]:
        """Return for each item how much of it occurs in the training texts read so far."""
        index = self._index
        shares = self._characters / np.maximum(1, index.compared)
        found = (shares >= np.where(index.is_short, 1.0, SHARE)) & (index.compared > 0)
        return [
            Overlap(float(shares[number]), self._where[number], bool(found[number]), int(index.compared[number]))
            for number in self._number
        ]

    def _search(self, names: Sequence[str], pieces: Sequence[str]) -> None:
        """Search a batch of texts, and keep for each item the text that has most of it."""
        characters = fold(BREAK.join(piece.replace(BREAK, "") for piece in pieces))
        places, hashes = self._index.find(characters)
        if not len(places):
            return
        texts = np.searchsorted(np.flatnonzero(characters == SEPARATOR), places)
        for text, item, covered in zip(*self._best(*self._index.cover(texts, hashes)), strict=True):
            self._characters[item] = covered
            self._where[item] = names[text]

    def _best(self, texts: np.ndarray, items: np.ndarray, covered: np.ndarray) -> tuple[list[int], ...]:
        """Return the first text of each item that has most of it, if it has more than all texts before."""
        order = np.lexsort((texts, -covered, items))
        first = order[np.flatnonzero(np.diff(items[order], prepend=-1))]
        better = first[covered[first] > self._characters[items[first]]]
        return texts[better].tolist(), items[better].tolist(), covered[better].tolist()


def _pieces(text: str, overlap: int) -> Iterator[str]:
    """Yield a text in pieces of bounded size; each begins with the end of the one before it."""
    step = max(_BATCH, 4 * overlap)
    for start in range(0, max(1, len(text) - overlap), step):
        yield text[start : start + step + overlap]


def _documents(corpus: Corpus, part: Output) -> Iterator[tuple[str, str]]:
    for batch in read_batches(corpus.folder, shard_of(corpus.folder, part, "text"), ["text", "id"]):
        yield from zip(batch.column("id").to_pylist(), batch.column("text").to_pylist(), strict=True)
