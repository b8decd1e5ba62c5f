"""Choose a sample of a recipe's inputs: the beginnings of some files of each source, in small shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.corpus.config import CorpusConfig, DecontaminateConfig, Source, step_name
from jprep.corpus.input_files import InputFile
from jprep.io.inputs.paths import expand_patterns, is_local, size_of
from jprep.pipeline.recipe import Recipe
from jprep.plugins import plugins

SHARD_MB = 2
"""Megabytes of a shard of the sample: smaller than usual, so that seconds suffice for several."""

SHARDS = 24
"""Most shards, or groups of small ones, that are read of each file of the sample."""

_FILES, _SMALL_FILES = 3, 64
_SMALL = 1 << 20  # bytes; smaller files share tasks


class Sample(NamedTuple):
    """A recipe with a sample of the inputs.

    Attributes:
        recipe: the recipe, with a source for each sampled file.
        origins: for each of its sources, the number of the source of the whole recipe.
        whole: the numbers of the sources whose files are all in the sample.
        shard_ratio: for each source of the whole recipe, how many times as large its shards may be.
    """

    recipe: Recipe
    origins: list[int]
    whole: set[int]
    shard_ratio: list[float]


def make_sample(recipe: Recipe) -> Sample:
    """Return a recipe that reads a sample of the inputs. Its inputs must exist.

    Args:
        recipe: the whole recipe.

    Raises:
        ConfigError: a path matches nothing.
    """
    sources, origins, whole = list[Source](), list[int](), set[int]()
    for number, source in enumerate(recipe.corpus.sources):
        paths = expand_patterns(source.paths)
        groups = choose_paths(paths)
        whole |= {number} if sum(map(len, groups)) == len(paths) else set()
        sources += [_part(source, group) for group in groups]
        origins += [number] * len(groups)
    corpus: CorpusConfig = msgspec.structs.replace(recipe.corpus, sources=sources)
    ratios = [_shard_ratio(source) for source in recipe.corpus.sources]
    return Sample(msgspec.structs.replace(recipe, corpus=corpus), origins, whole, ratios)


def choose_paths(paths: list[str]) -> list[list[str]]:
    """Return some of the paths, in groups: large files each by itself, small ones together."""
    small = [path for path in paths if is_local(path) and (size_of(path) or _SMALL) < _SMALL]
    large = [path for path in paths if path not in set(small)]
    return [[path] for path in _spread(large, _FILES)] + ([_spread(small, _SMALL_FILES)] if small else [])


def _spread(items: Sequence[str], count: int) -> list[str]:
    """Return up to so many items at equal distances."""
    step = max(1.0, len(items) / count)
    return [items[int(step * number)] for number in range(min(count, len(items)))]


def _part(source: Source, paths: list[str]) -> Source:
    """Return a source with some of the files, in small shards."""
    reader = source.reader
    if _full_shard(source):
        options = {"use": reader} if isinstance(reader, str) else dict(reader)
        reader = options | {"shard_mb": min(_full_shard(source), SHARD_MB)}
    shards = min(source.shards or SHARDS, SHARDS)
    return msgspec.structs.replace(source, paths=paths, files=[], reader=reader, shards=shards)


def _full_shard(source: Source) -> float:
    """Return the megabytes of a source's shards; 0 where the reader has no option for it."""
    config = plugins().get("reader", step_name(source.reader)).Config
    default: Any = getattr(config(), "shard_mb", 0) if "shard_mb" in config.__struct_fields__ else 0
    options = {} if isinstance(source.reader, str) else source.reader
    return float(options.get("shard_mb", default)) if default else 0.0


def _shard_ratio(source: Source) -> float:
    full = _full_shard(source)
    return full / min(full, SHARD_MB) if full else 1.0


def find_unhashed(source: Source | DecontaminateConfig, cache: Path, *, fresh: bool = False) -> list[InputFile]:
    """Return the files of a source without their hashes, as for pipes: hashing reads all of a file.

    Args:
        source: the source.
        cache: not used.
        fresh: not used.
    """
    paths = expand_patterns(source.paths)
    return [InputFile(path, path.rstrip("/").rpartition("/")[2], size_of(path) or 0) for path in paths]
