"""What the stages that read inputs share: readers of sources, and ids of tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice

from jprep.corpus.config import Source, make_step
from jprep.corpus.step import Reader
from jprep.errors import ConfigError, InputError
from jprep.io.inputs.paths import expand_patterns, is_local, size_of

_CHECKED_FILES = 1000  # the most files of a source whose heads are read before the build


def task_id_prefix(index: int, source: Source) -> str:
    """Return the prefix of the task ids of a source. Ids sort in the order of the sources."""
    return f"{index:04d}-{source.name}-"


def make_reader(source: Source) -> Reader:
    """Return the reader of a source.

    Raises:
        ConfigError: it cannot keep text as it is, and the source asks for that.
    """
    reader: Reader = make_step("reader", source.reader)
    if source.as_is and not reader.can_keep_text:
        what = f"the reader {reader.name} cannot keep text as it is, as the source {source.name} asks for"
        raise ConfigError(what, fix='remove `as_is`, or use e.g. reader = "jsonl"')
    reader.as_is = source.as_is
    return reader


def check_sources(sources: Iterable[Source]) -> None:
    """Check that local files have the columns that sources read of them.

    Missing and damaged files are left to the build, which knows whether a file has changed since it began.

    Raises:
        ConfigError: a column does not exist; see `Reader.check_input`.
        MachineError: a file cannot be read.
    """
    for source in sources:
        with contextlib.closing(make_reader(source)) as reader:
            for path in islice(_files_at_hand(source), 1 if source.shards else _CHECKED_FILES):
                with contextlib.suppress(InputError):
                    reader.check_input(path)


def _files_at_hand(source: Source) -> Iterator[str]:
    """Yield the local files of a source; no pipes, which can be read only once."""
    for pattern in filter(is_local, source.paths):
        with contextlib.suppress(ConfigError):
            yield from (path for path in expand_patterns([pattern]) if size_of(path) is not None)
