"""Whether the files of a source are decompressed before the first stage, and whether several tasks can share a file."""

from __future__ import annotations

from typing import Literal

from jprep.corpus.config import Source, step_name
from jprep.corpus.stages.inputs import PART, describe_undivided
from jprep.corpus.stages.sources import make_reader
from jprep.corpus.step import Reader
from jprep.io.inputs.paths import STDIN, SUFFIXES, all_exist, expand_patterns, is_local, size_of
from jprep.io.inputs.segments import segment_starts
from jprep.pipeline.estimate.measuring.sampling import choose_paths

Division = Literal["none", "whole", "parts"]
"""`none`: files are read by the stage of documents alone. `whole`: one task of the stage `inputs` decompresses a file,
and caches its shards. `parts`: several tasks search a file, and the stage of documents decompresses it again."""

_LARGE_FILES = 3  # looked at


def find_division(source: Source) -> Division:
    """Return how the files of a source are read before the first stage, judged by some of them.

    Of files that do not exist yet, the name is judged.

    Raises:
        ConfigError, MachineError: an input cannot be read.
    """
    if source.shards:
        return "none"  # the main process reads them
    if not all_exist(source.paths):
        return _judge_name(source)
    reader = make_reader(source)
    if not (read := _files_read_through(source, reader)):
        return "none"
    return "parts" if any(_is_divisible(reader, path) for path in read) else "whole"


def describe_whole_files(source: Source) -> str:
    """Return the build's warning about a large file of a source that `find_division` calls `whole`.

    Returns:
        the warning, with what would help; "" if nothing would, and for files that do not exist yet.

    Raises:
        ConfigError, MachineError: an input cannot be read.
    """
    if not all_exist(source.paths):
        return ""
    reader = make_reader(source)
    files = [path for path in _files_read_through(source, reader) if reader.record_scan(path) is not None]
    return next(filter(None, (describe_undivided(path, size_of(path) or 0) for path in files)), "")


def _files_read_through(source: Source, reader: Reader) -> list[str]:
    paths = [group[0] for group in choose_paths(expand_patterns(source.paths))[:_LARGE_FILES]]
    return [path for path in paths if not _is_pipe(path) and reader.reads_through(path)]


def _is_pipe(path: str) -> bool:
    return path == STDIN or (is_local(path) and size_of(path) is None)


def _is_divisible(reader: Reader, path: str) -> bool:
    return reader.record_scan(path) is not None and len(segment_starts(path, PART)) > 1


def _judge_name(source: Source) -> Division:
    names = [file.url for file in source.files] or list(source.paths)
    blocks = (".bz2",) if step_name(source.reader) == "wikipedia" else ()  # cut without decompressing it
    return "whole" if any(name.endswith(SUFFIXES) and not name.endswith(blocks) for name in names) else "none"
