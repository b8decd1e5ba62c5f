"""The sizes of a recipe's inputs: local files, remote ones, and downloads that are still to be made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jprep.corpus.config import RemoteFile, Source
from jprep.corpus.download.fetch import files_by_name
from jprep.corpus.download.remote import Unreachable, open_url
from jprep.errors import ConfigError, MachineError
from jprep.io.inputs.paths import all_exist, expand_patterns, is_local, size_of
from jprep.pipeline.recipe import Recipe

_TIMEOUT_S = 10.0


class SourceSizes(NamedTuple):
    """The files of one source.

    Attributes:
        name: the source.
        sizes: stored bytes of each file.
        unknown: number of files whose size is not known: a pipe, or a server that does not say.
        to_download: bytes that are still to be downloaded.
        local: bytes on this machine's disks.
        missing: whether its files are neither here nor readable where they are.
    """

    name: str
    sizes: list[int]
    unknown: int = 0
    to_download: int = 0
    local: int = 0
    missing: bool = False

    @property
    def total(self) -> int:
        """Stored bytes of all files whose size is known."""
        return sum(self.sizes)


def measure_sources(recipe: Recipe, downloads: Path, given: Mapping[str, float]) -> list[SourceSizes]:
    """Return the sizes of the inputs of each source.

    Args:
        recipe: the recipe.
        downloads: the directory of downloads.
        given: stored bytes of some sources whose sizes cannot be found out, by name.

    Raises:
        ConfigError: `given` names a source that the recipe does not have.
    """
    names = [source.name for source in recipe.corpus.sources]
    if unknown := [name for name in given if name not in names]:
        fix = f"the recipe's sources: {', '.join(names)}"
        raise ConfigError(f"there is no source {unknown[0]!r}", where="--input-size", fix=fix)
    found = [_measure(source, downloads) for source in recipe.corpus.sources]
    return [_with_size(each, round(given[each.name])) if each.name in given else each for each in found]


def _with_size(found: SourceSizes, size: int) -> SourceSizes:
    """Return the sizes of a source that has so many bytes, in as many files as before."""
    count = max(1, len(found.sizes) + found.unknown)
    pending = size if found.missing else 0
    return SourceSizes(found.name, [size // count] * count, 0, pending, size - pending, found.missing)


def _measure(source: Source, downloads: Path) -> SourceSizes:
    if source.files and not all_exist(source.paths):
        return _measure_downloads(source, downloads)
    try:
        paths = expand_patterns(source.paths)
        sizes = [size_of(path) for path in paths]
    except (ConfigError, MachineError):
        return SourceSizes(source.name, [], unknown=1, missing=True)
    local = sum(size or 0 for path, size in zip(paths, sizes, strict=True) if is_local(path))
    known = [size for size in sizes if size is not None]
    return SourceSizes(source.name, known, unknown=len(sizes) - len(known), local=local)


def _measure_downloads(source: Source, downloads: Path) -> SourceSizes:
    files = files_by_name(source.files)
    sizes = {name: _size_of_download(file, downloads / name) for name, file in files.items()}
    known = [size for size in sizes.values() if size is not None]
    pending = sum(size or 0 for name, size in sizes.items() if not (downloads / name).exists())
    return SourceSizes(source.name, known, len(sizes) - len(known), pending, sum(known) - pending, missing=True)


def _size_of_download(file: RemoteFile, path: Path) -> int | None:
    """Return the size of a file that is downloaded, or that its server tells; None if it cannot be reached."""
    if path.exists():
        return path.stat().st_size
    try:
        with open_url(file.url, timeout_s=_TIMEOUT_S) as content:
            return content.total if content.total >= 0 else None
    except (Unreachable, ConfigError, MachineError):
        return None
