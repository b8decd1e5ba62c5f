"""What each shard of the corpus contributed to the splits of a dataset, from the receipts of the encoding."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.dataset.manifest import TRAIN, LeftOut, PackedPart, ShardRange
from jprep.dataset.mix_parts import MixPart
from jprep.dataset.preprocessing.encode import LEFT_OUT_COUNTS, LENGTHS, TOKENS, count_name
from jprep.dataset.preprocessing.placement import part_folder
from jprep.dataset.sampling.sources import source_number
from jprep.engine.stage import Output, Receipt

_UNITS = {"documents": LENGTHS, "tokens": TOKENS}
"""Units of ranges, and the kind of file that has a row for each."""


def shard_ranges(
    shards: Sequence[Output], encoded: Sequence[Receipt], splits: Sequence[str], parts: Sequence[MixPart]
) -> list[ShardRange]:
    """Return the documents and tokens that each corpus shard contributed.

    Args:
        shards: the shards of the corpus.
        encoded: the receipts of their encoding.
        splits: names of the splits.
        parts: the parts of the mixture. Each has ranges of its own, before those of the other splits.
    """
    if not parts:
        layers = [("", {split: split for split in splits})]
    else:
        layers = [(part.name, {TRAIN: part_folder(number)}) for number, part in enumerate(parts)]
        layers.append(("", {split: split for split in splits if split != TRAIN}))
    ranges, at = list[ShardRange](), {unit: dict.fromkeys(splits, 0) for unit in _UNITS}
    for name, folders in layers:
        for shard, receipt in zip(shards, encoded, strict=True):
            spans = {
                unit: {
                    split: (first, first + _rows(receipt, folders.get(split), kind))
                    for split, first in at[unit].items()
                }
                for unit, kind in _UNITS.items()
            }
            at = {unit: {split: stop for split, (_, stop) in each.items()} for unit, each in spans.items()}
            if not parts or any(first < stop for first, stop in spans["documents"].values()):
                ranges.append(ShardRange(shard.path, shard.sha256, **spans, mix_part=name))
    return ranges


def _rows(receipt: Receipt, folder: str | None, kind: str) -> int:
    """Return the documents or tokens of a shard in a folder."""
    own = (output for output in receipt.outputs if output.folder == folder)
    return sum(output.rows for output in own if output.path.endswith(f".{kind}"))


def packed_sizes(encoded: Sequence[Receipt], parts: Sequence[MixPart]) -> list[PackedPart]:
    """Return the size of each part of the mixture."""
    found = []
    for number, part in enumerate(parts):
        sizes = {unit: sum(_rows(one, part_folder(number), kind) for one in encoded) for unit, kind in _UNITS.items()}
        found.append(PackedPart(part.name, **sizes))
    return found


def left_out_sizes(shards: Sequence[Output], encoded: Sequence[Receipt], sources: Sequence[str]) -> list[LeftOut]:
    """Return what no part of the mixture takes, for each source of which there is such a document."""
    sizes = {name: [0, 0] for name in sources}
    for shard, receipt in zip(shards, encoded, strict=True):
        size = sizes[sources[source_number(shard.path, list(sources))]]
        for number, what in enumerate(("documents", "bytes")):
            size[number] += receipt.counts.get(count_name(LEFT_OUT_COUNTS, what), 0)
    return [LeftOut(name, documents, text) for name, (documents, text) in sizes.items() if documents]
