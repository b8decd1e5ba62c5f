"""Files that list which items of test sets were found in which documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from jprep.engine.stage import Output
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.verified_files import RUN_AGAIN, read_verified

FINDINGS, TEST_ITEMS = "findings", "test_items"
"""Folders: of the findings of each task, and of the finished lists."""


class Occurrence(msgspec.Struct, frozen=True, array_like=True):
    """An item that was found in a document.

    Attributes:
        test_set: index of the test set in the recipe.
        item: index of the item in the test set.
        document: id of the document.
        share: share of the item's compared characters that are in the document.
        first: whether it is the first one of its test set in this document; ids may not be unique.
    """

    test_set: int
    item: int
    document: str
    share: float
    first: bool = True  # the state of builds that an earlier version began has no such field


class FoundItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a finished list: an item that was found, or that was not looked for.

    Attributes:
        item: id of the item.
        documents: ids of the documents with the item, in the order of the corpus's inputs.
        shares: the share of the item's compared characters that are in each document.
        not_checked: why the item was not looked for: `too_short`, `common_phrases`, or the reader's reason, such as
            `no_text`; "" if it was.
    """

    item: str
    documents: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    not_checked: str = ""


class ItemCounts(msgspec.Struct, frozen=True):
    """What was found of a test set.

    Attributes:
        name: name of the test set.
        action: what was done with the documents: `drop` or `cut`.
        items: number of items.
        not_checked: items that were not looked for.
        whole_sentence: items so short that they were looked for as a whole sentence only.
        found: items that were found in at least one document.
        documents: documents with at least one item.
    """

    name: str
    action: str
    items: int
    not_checked: int
    found: int
    documents: int
    whole_sentence: int = 0


def write_occurrences(root: Path, path: str, found: Sequence[Occurrence]) -> list[Output]:
    """Write what one task found, if anything."""
    return [_write(root, path, found)] if found else []


def read_occurrences(root: Path, files: Iterable[Output]) -> list[Occurrence]:
    """Return what all tasks found.

    Raises:
        DamagedError: a file is missing or damaged.
    """
    lines = (line for file in files for line in read_verified(root / file.path, file.sha256, RUN_AGAIN).splitlines())
    return [msgspec.json.decode(line, type=Occurrence) for line in lines]


def write_found_items(root: Path, name: str, items: Sequence[FoundItem]) -> list[Output]:
    """Write the list of a test set, if there is anything to list."""
    return [_write(root, f"{TEST_ITEMS}/{name}.jsonl", items)] if items else []


def read_found_items(folder: Path, file: Output) -> list[FoundItem]:
    """Return the list of a test set.

    Args:
        folder: the directory of the corpus.
        file: the list's entry in the manifest.

    Raises:
        DamagedError: the file is missing or damaged.
    """
    from jprep.corpus.store import rebuild_fix  # which imports this module

    data = read_verified(folder / file.path, file.sha256, rebuild_fix(folder))
    return [msgspec.json.decode(line, type=FoundItem) for line in data.splitlines()]


def _write(root: Path, path: str, rows: Sequence[msgspec.Struct]) -> Output:
    write_atomic(root / path, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return Output(path, len(rows), file_sha256(root / path))
