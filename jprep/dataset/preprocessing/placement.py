"""Where packing puts each document: in the folder of its split, or of its part of the training split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.corpus.api import Corpus
from jprep.corpus.shard_reader import CorpusShard, read_batches
from jprep.dataset.manifest import SPLITS, TRAIN
from jprep.dataset.mix_parts import MixPart
from jprep.dataset.preprocessing.part_assignment import PartAssignment
from jprep.dataset.preprocessing.split_assignment import SplitAssignment

LEFT_OUT = ""
"""In place of a folder: of documents of the training split that no part of the mixture takes."""


def part_folder(number: int) -> str:
    """Return the name of the folder for a part of the training split."""
    return f"{TRAIN}.{number:04d}"


def split_of_folder(folder: str) -> str:
    """Return the split that a folder belongs to."""
    return folder.partition(".")[0]


class Placement:
    """Assigns documents to folders.

    Args:
        splitting: assigns documents to splits.
        parts: the parts of the mixture that the training split is divided into; empty if it has none.

    Attributes:
        columns: columns of the corpus that are needed.
    """

    def __init__(self, splitting: SplitAssignment, parts: Sequence[MixPart]) -> None:
        self._splitting, self._names = splitting, [part.name for part in parts]
        self._parts = PartAssignment(parts) if parts else None
        self.columns = list(dict.fromkeys([*splitting.columns, *(self._parts.columns if self._parts else [])]))

    def folders(self, splits: Sequence[str] = SPLITS) -> dict[str, list[str]]:
        """Return the folders of each split, in order."""
        own = [part_folder(number) for number in range(len(self._names))]
        return {split: own if split == TRAIN and own else [split] for split in splits}

    def folders_of(self, batch: Any) -> npt.NDArray[np.str_]:
        """Return the folder of each document of a record batch with these columns, or `LEFT_OUT`, (rows,)."""
        rows = zip(*(batch[name].to_pylist() for name in self._splitting.columns), strict=True)
        folders = np.array([self._splitting.split_by(*row) for row in rows])
        if self._parts:
            own = np.array([*self.folders()[TRAIN], LEFT_OUT])  # `NO_PART` is the last entry
            folders = np.where(folders == TRAIN, own[self._parts.parts_of(batch)], folders)
        return folders

    def count_documents(self, corpus: Corpus) -> tuple[dict[str, int], dict[str, int]]:
        """Return the documents of each part, and those that no part takes by source; reads the whole corpus.

        Raises:
            DamagedError: a shard of the corpus has changed.
        """
        taken, left_out = Counter[str](), Counter[str]()
        columns = list(dict.fromkeys([*self.columns, "source"]))
        for shard in corpus.manifest.parts:
            for batch in read_batches(corpus.folder, CorpusShard(shard.path, shard.sha256, 0), columns):
                folders = self.folders_of(batch)
                taken.update(folders.tolist())
                left_out.update(np.array(batch["source"].to_pylist())[folders == LEFT_OUT].tolist())
        return dict(zip(self._names, (taken[name] for name in self.folders()[TRAIN]), strict=True)), dict(left_out)
