"""Show the way of documents from their records in the inputs of a finished corpus."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jprep.corpus.document import Document, Reject
from jprep.corpus.input_files import refuse_changed
from jprep.corpus.originals.input_search import InputSearch
from jprep.corpus.originals.rebuilt_steps import SourceSteps, rebuild
from jprep.corpus.originals.records import Original, Reason, Unavailable
from jprep.corpus.originals.task_shards import TaskShards
from jprep.corpus.step import Reader
from jprep.corpus.store import read_manifest
from jprep.errors import ConfigError, InputChangedError, JprepError

LIMIT = 100_000
"""Default maximum of characters of each text of an `Original`."""

_TASK = re.compile(r"(?:[a-z][a-z-]*-)?(\d{4})-.+-(\d{6,})\.(?:parquet|rejects)")
_Pair = tuple[Document | Reject, str]


class Originals:
    """Reads the records of a corpus's documents and rejects again from the inputs of the corpus.

    Each file of a corpus was made by one task from one part of an input: only that part is read. Before that, the
    inputs up to that part are compared with the SHA-256 in the manifest, once in a process, and what is read later is
    compared with hashes of their blocks that are taken at the same time. (A dump of 4 GB is hashed in some seconds.)

        originals = Originals("work/jawiki/corpus", ["downloads"])
        found = originals.find(["jawiki:12"])["jawiki:12"]
        if isinstance(found, Unavailable):
            print(found.reason, found.what)
        else:
            print(found.original, found.read_text, found.normalized, found.filters, found.text)

    Methods may be called from several threads; one reads at a time.

    Args:
        folder: directory of the corpus.
        places: where its inputs are: files, patterns, directories. A recipe's are the paths of its sources. The
            directory `inputs` beside the corpus, the directory `downloads` and the files of the current directory are
            always searched.

    Raises:
        ConfigError: the folder holds no finished corpus.
    """

    def __init__(self, folder: str | Path, places: Sequence[str] = ()) -> None:
        self._folder = Path(folder)
        self._manifest = read_manifest(self._folder)
        self._search = InputSearch([*places, str(self._folder.absolute().parent / "inputs"), "downloads", "*"])
        self._lock = threading.RLock()
        self._sources: dict[int, _Source | Unavailable] = {}

    def find(
        self, ids: Iterable[str], parts: Mapping[str, str] | None = None, limit: int = LIMIT
    ) -> dict[str, Original | Unavailable]:
        """Return the way of some documents and rejects, or why it cannot be shown.

        Args:
            ids: their ids. Of several records with the same id in a part, the first is returned.
            parts: the files of the corpus that hold them, relative to the corpus, as far as known; the others are
                looked for in all files.
            limit: maximum characters of each text.

        Returns:
            One result for each id.

        Raises:
            DamagedError: a file of the corpus is missing or damaged.
        """
        wanted, by_part = list(dict.fromkeys(ids)), defaultdict[str, list[str]](list)
        places = dict(parts or {}) | self._locate([id for id in wanted if id not in (parts or {})])
        for identity in wanted:
            by_part[places.get(identity, "")].append(identity)
        with self._lock:
            found = {
                id: each for part, some in by_part.items() for id, each in self._from_part(part, some, limit).items()
            }
        return {identity: found[identity] for identity in wanted}

    def of_shard(self, part: str, limit: int = LIMIT) -> Iterator[Original]:
        """Yield the way of all documents and rejects of the task that made a file of the corpus, in order.

        Args:
            part: path of a file of documents or rejects, relative to the corpus.
            limit: maximum characters of each text.

        Raises:
            JprepError: it cannot be shown; the error says why.
        """
        source, number = self._task_of(part)
        if isinstance(source, Unavailable):
            raise source.error(str(self._folder))
        with self._lock:
            for item, record in source.read(number):
                yield source.steps.trace(item, record, limit)
            if problem := source.shards.problem:
                raise problem.error(str(self._folder))

    def close(self) -> None:
        """Close the steps."""
        for source in self._sources.values():
            if isinstance(source, _Source):
                source.close()
        self._sources = {}

    def _from_part(self, part: str, ids: list[str], limit: int) -> dict[str, Original | Unavailable]:
        if not part:
            return dict.fromkeys(ids, Unavailable(Reason.NOT_FOUND, "the corpus has no document or reject of this id"))
        source, number = self._task_of(part)
        if isinstance(source, Unavailable):
            return dict.fromkeys(ids, source)
        found: dict[str, Original | Unavailable] = {}
        problem = Unavailable(Reason.NOT_FOUND, "the input has no record of this id")
        try:
            for item, record in source.read(number):
                if item.id in ids and item.id not in found:
                    found[item.id] = source.steps.trace(item, record, limit)
                if len(found) == len(ids):
                    break
            problem = source.shards.problem or problem
        except JprepError as error:
            problem = Unavailable(_reason(error), f"cannot read the input: {error.what}", error.fix)
        return {identity: found.get(identity, problem) for identity in ids}

    def _task_of(self, part: str) -> tuple[_Source | Unavailable, int]:
        """Return the source of a file of the corpus, and the number of the task that made it."""
        matched = _TASK.fullmatch(part.rpartition("/")[2])
        sources = self._manifest.made_from["documents"]["sources"]
        if not matched or int(matched[1]) >= len(sources):
            return Unavailable(Reason.NOT_FOUND, f"not a file of this corpus: {part}"), 0
        index = int(matched[1])
        if index not in self._sources:
            self._sources[index] = _open_source(self._manifest.made_from["documents"], index, self._search)
        return self._sources[index], int(matched[2])

    def _locate(self, ids: list[str]) -> dict[str, str]:
        """Return the files that hold some ids."""
        if not ids:
            return {}
        import pyarrow as pa
        import pyarrow.compute as pc

        from jprep.corpus.shard_reader import read_batches, shard_of

        found: dict[str, str] = {}
        values = pa.array(ids, pa.string())
        for file in (*self._manifest.parts, *self._manifest.reject_parts):
            for batch in read_batches(self._folder, shard_of(self._folder, file, "id"), ["id"]):
                hits = batch.column(0).filter(pc.is_in(batch.column(0), value_set=values)).to_pylist()
                found = dict.fromkeys(hits, file.path) | found
            if len(found) == len(ids):
                break
        return found


class _Source:
    """A source of the corpus: its reader, its inputs and the steps after the reader."""

    def __init__(self, reader: Reader, name: str, shards: TaskShards, steps: SourceSteps) -> None:
        self._reader, self._name, self.shards, self.steps = reader, name, shards, steps

    def read(self, task: int) -> Iterator[_Pair]:
        """Yield the items of a task, with their records.

        Raises:
            ConfigError: an input no longer exists.
            InputChangedError: an input has changed.
        """
        with self.shards.compared():
            group = self.shards.shards(task)
            for file in self.shards.files(group):
                refuse_changed(file)
            for shard in group:
                yield from self._reader.read_with_originals(shard, self._name)

    def close(self) -> None:
        self._reader.close()
        self.steps.close()


def _open_source(made_from: Mapping[str, Any], index: int, search: InputSearch) -> _Source | Unavailable:
    source = made_from["sources"][index]
    reader = rebuild("reader", source["reader"])
    if isinstance(reader, Unavailable):
        return reader
    reader.as_is = source.get("as_is", False)
    shards = TaskShards(reader, source["files"], search)
    return _Source(reader, source["name"], shards, SourceSteps(made_from, source))


def _reason(error: JprepError) -> Reason:
    if isinstance(error, ConfigError):
        return Reason.INPUT_GONE
    return Reason.INPUT_CHANGED if isinstance(error, InputChangedError) else Reason.UNREADABLE
