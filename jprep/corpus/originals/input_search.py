"""Find the input files that a manifest describes by name, size and hash: it does not record where they are."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jprep.corpus.input_files import InputFile, describe_input
from jprep.corpus.originals.records import Reason, Unavailable
from jprep.errors import JprepError
from jprep.io.hashing import ContentHash
from jprep.io.inputs.paths import is_local

_hashes: dict[str, ContentHash] = {}
"""Hashes of inputs that this process has read, by path, size, times and inode: a large dump is hashed once."""


class InputSearch:
    """Looks for input files below some directories and paths.

    Args:
        places: files, patterns and directories, which are searched with their subdirectories. URLs are ignored: what is
            remote would have to be downloaded to be compared with its hash.
    """

    def __init__(self, places: Sequence[str]) -> None:
        self._places = [place for place in places if is_local(place)]
        self._taken: set[str] = set()

    @cached_property
    def _paths(self) -> dict[str, list[str]]:
        """The files in all places, by name."""
        found: dict[str, list[str]] = {}
        for path in dict.fromkeys(path for place in self._places for path in _files(place)):
            found.setdefault(Path(path).name, []).append(path)
        return found

    def find(self, entry: Mapping[str, Any]) -> InputFile | Unavailable:
        """Return the file that an entry of a manifest describes, after its SHA-256 was compared; each file once.

        Args:
            entry: `name`, `size` and `sha256`.
        """
        name = entry["name"]
        if not entry["sha256"]:
            return Unavailable(Reason.INPUT_PIPE, "the corpus was built from a pipe, which can be read only once")
        named = [path for path in self._paths.get(name, ()) if path not in self._taken]
        for path in named:
            try:
                file = describe_input(path, _hashes) if Path(path).stat().st_size == entry["size"] else None
            except (JprepError, OSError) as error:
                return Unavailable(Reason.UNREADABLE, f"cannot read the input {path}: {error}")
            if file and file.sha256 == entry["sha256"]:
                self._taken.add(path)
                return file
        if named:
            what = f"the input {named[0]} is not the one that the corpus was built from: size or SHA-256 differ"
            return Unavailable(Reason.INPUT_CHANGED, what, "restore the file, or name the place of the right one")
        what = f"the input {name} was not found: a corpus does not record where its inputs are"
        return Unavailable(Reason.INPUT_GONE, what, "name the recipe, the file or its directory with --inputs")


def _files(place: str) -> Iterator[str]:
    path = Path(place)
    if path.is_dir():
        yield from (str(file) for file in sorted(path.rglob("*")) if file.is_file())
    elif path.is_file():
        yield place
    else:
        yield from (found for found in sorted(glob.glob(place, recursive=True)) if Path(found).is_file())  # noqa: PTH207 - Path takes no absolute ones
