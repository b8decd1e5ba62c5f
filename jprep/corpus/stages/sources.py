"""What the stages that read inputs share: readers of sources, and ids of tasks."""

from __future__ import annotations

from jprep.corpus.config import Source, make_step
from jprep.corpus.step import Reader
from jprep.errors import ConfigError


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
