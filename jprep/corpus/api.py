"""Python API of a corpus: build, read, export, verify and search it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from jprep.corpus.document import UNMARK, Document, Reject
from jprep.corpus.exporting.formats import TextFormat
from jprep.corpus.store import DOCUMENTS, MANIFEST, REJECTS, Manifest, read_manifest, read_rows, read_rows_at
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError
from jprep.io.verified_files import find_damage

if TYPE_CHECKING:  # imported when they are needed, to keep `import jprep` fast
    import datasets
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from jprep.corpus.config import CorpusRecipe
    from jprep.corpus.decontamination.findings import FoundItem
    from jprep.corpus.exporting.text_files import CorpusExportManifest
    from jprep.corpus.interactive.batches import Selection
    from jprep.engine.runner import ProgressReporter
    from jprep.engine.stage import Output

_FOUND = ("id", "source", "title", "url")
"""Columns of documents that `Corpus.find` reads."""


class Damage(msgspec.Struct, frozen=True):
    """A problem found by `Corpus.verify`.

    Attributes:
        path: the file, relative to the corpus.
        what: description of the problem.
    """

    path: str
    what: str


class SearchHit(msgspec.Struct, frozen=True):
    """A document or reject found by `Corpus.find`, with its position.

    Attributes:
        item: the document or reject.
        part: the file that holds it, relative to the corpus.
        row: its row in that file, from 0.
    """

    item: Document | Reject
    part: str
    row: int


class Corpus:
    """A finished corpus.

        recipe = jprep.load_recipe("data_recipes/jawiki.toml")
        corpus = Corpus.build(recipe, "work/jawiki/corpus", workers=8)
        for document in corpus:
            print(document.title, len(document.text))

    Args:
        folder: directory of the corpus.

    Raises:
        ConfigError: the folder holds no finished corpus.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)

    @classmethod
    def build(
        cls,
        recipe: CorpusRecipe,
        folder: str | Path,
        *,
        workers: int = 1,
        progress: ProgressReporter | None = None,
        restart: bool = False,
    ) -> Corpus:
        """Build a corpus, or resume an interrupted build; see `jprep.corpus.build.build`.

        Args:
            recipe: a recipe, e.g. from `jprep.load_recipe`.
            folder: output directory.
            workers: number of processes; it does not change the output.
            progress: progress callbacks.
            restart: delete a corpus that the folder holds and build again.

        Raises:
            JprepError: the build failed; the error names a fix. Call again to resume.
        """
        if isinstance(recipe, str | Path):
            fix = f"Corpus.build(jprep.load_recipe({str(recipe)!r}), …)"
            raise ConfigError("expected a recipe, got a path", where=str(recipe), fix=fix)
        from jprep.corpus.build import build
        from jprep.engine.executors.local import Local
        from jprep.engine.runner import SilentProgress

        with closing(Local(workers)) as executor:
            build(recipe, Path(folder), executor, progress or SilentProgress(), restart=restart)
        return cls(folder)

    def __len__(self) -> int:
        return self.manifest.totals.get("documents", 0)

    def __iter__(self) -> Iterator[Document]:
        return self.documents()

    def __repr__(self) -> str:
        from jprep.corpus.interactive.display import describe

        return describe(self.folder, self.manifest)

    def _repr_html_(self) -> str:
        """Return what Jupyter displays: totals, what was dropped, sources and licences, the first documents."""
        from jprep.corpus.interactive.display import corpus_html

        return corpus_html(self.folder, self.manifest)

    def documents(self, columns: Sequence[str] | None = None) -> Iterator[Document]:
        """Yield all documents in order, in bounded memory.

        Args:
            columns: columns to read; the other fields are empty.

        Raises:
            DamagedError: a shard is missing or damaged.
        """
        for part in self.manifest.parts:
            yield from read_rows(self.folder, part, Document, columns)

    def rejects(self) -> Iterator[Reject]:
        """Yield all rejects, in the order of the stages."""
        for part in self.manifest.reject_parts:
            yield from read_rows(self.folder, part, Reject)

    def batches(
        self, size: int = 1000, columns: Sequence[str] | None = None, *, rejects: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order as Arrow record batches, in bounded memory.

        Args:
            size: rows of a batch; the last batch of a shard has fewer.
            columns: columns of the result; by default all.
            rejects: read the rejects instead of the documents.

        Raises:
            ConfigError: there is no such column, or the size is not positive.
            DamagedError: a shard is missing or damaged.
        """
        from jprep.corpus.interactive.batches import read_batches

        return read_batches(self._selection(columns, rejects), size)

    def to_arrow(
        self, columns: Sequence[str] | None = None, *, rejects: bool = False, file: str | Path | None = None
    ) -> pa.Table:
        """Return all rows as an Arrow table.

        Shards are compressed, so they are decoded once, into memory or into `file`. What other libraries get from the
        table, and from the methods below, shares its buffers; only polars makes an index of the texts of its own.

        Args:
            columns: columns of the result; by default all.
            rejects: read the rejects instead of the documents.
            file: decode into this Arrow file in bounded memory, and map it: for a corpus larger than memory. An
                existing Arrow file is replaced.

        Raises:
            ConfigError: there is no such column, or `file` exists and is not an Arrow file.
            DamagedError: a shard is missing or damaged.
            MachineError: `file` cannot be written.
        """
        from jprep.corpus.interactive.tables import arrow_table

        return arrow_table(self._selection(columns, rejects), file)

    def to_pandas(
        self, columns: Sequence[str] | None = None, *, rejects: bool = False, file: str | Path | None = None
    ) -> pd.DataFrame:
        """Return all rows as a pandas frame with Arrow columns (`pandas.ArrowDtype`), without a copy; see `to_arrow`.

        Raises:
            MachineError: pandas is not installed.
        """
        from jprep.corpus.interactive.tables import pandas_frame

        return pandas_frame(self._selection(columns, rejects), file)

    def to_polars(
        self, columns: Sequence[str] | None = None, *, rejects: bool = False, file: str | Path | None = None
    ) -> pl.DataFrame:
        """Return all rows as a polars frame, without a copy of the texts; see `to_arrow`.

        Raises:
            MachineError: polars is not installed.
        """
        from jprep.corpus.interactive.tables import polars_frame

        return polars_frame(self._selection(columns, rejects), file)

    def scan_polars(self, columns: Sequence[str] | None = None, *, rejects: bool = False) -> pl.LazyFrame:
        """Return a lazy polars frame that reads from the shards what a query needs. Their hashes are checked first.

        Raises:
            MachineError: polars is not installed.
            DamagedError: a shard is missing or damaged.
        """
        from jprep.corpus.interactive.tables import polars_scan

        return polars_scan(self._selection(columns, rejects))

    def to_hugging_face(
        self, columns: Sequence[str] | None = None, *, rejects: bool = False, file: str | Path | None = None
    ) -> datasets.Dataset:
        """Return all rows as a `datasets.Dataset` of Hugging Face, without a copy; see `to_arrow`.

        Its fingerprint depends on the corpus only, so that another process finds what `map` cached.

        Raises:
            MachineError: datasets is not installed.
        """
        from jprep.corpus.interactive.tables import hugging_face_dataset

        return hugging_face_dataset(self._selection(columns, rejects), file)

    def _selection(self, columns: Sequence[str] | None, rejects: bool) -> Selection:
        from jprep.corpus.interactive.batches import select

        return select(self.folder, self.manifest, columns, rejects=rejects)

    def export(
        self,
        out: TextIO,
        form: str = "text",
        *,
        limit: int | None = None,
        unit: str = "sentence",
        blank_lines: bool = True,
    ) -> int:
        """Write the corpus as text.

        Args:
            out: text file to write to.
            form: output format. `text`: one sentence per line. `words`: the same with spaces between words; white space
                of the text is lost, as in published recipes. `jsonl`: one document per line, lossless.
            limit: maximum number of documents.
            unit: what a line of `text` and `words` is: `sentence` or `paragraph`.
            blank_lines: whether a blank line follows each document in `text` and `words`.

        Returns:
            The number of documents written.

        Raises:
            ConfigError: unknown format or unit, or the format `words` for a corpus without words.
        """
        chosen, written = self.text_format(form, unit, blank_lines), 0
        for doc in islice(self.documents(), limit):
            out.write(chosen.lines(doc))
            written += 1
        return written

    def export_files(
        self,
        folder: str | Path,
        lines_per_file: int,
        form: str = "text",
        *,
        unit: str = "sentence",
        blank_lines: bool = True,
        workers: int = 1,
        progress: ProgressReporter | None = None,
    ) -> CorpusExportManifest:
        """Write the corpus as files with a number of lines each, or resume an interrupted export.

        The files joined together are the output of `export`.

        Args:
            folder: output directory; an earlier export in it is replaced.
            lines_per_file: lines of each file but the last.
            form: output format, see `export`.
            unit: see `export`.
            blank_lines: see `export`.
            workers: number of processes; it does not change the output.
            progress: progress callbacks.

        Raises:
            ConfigError: as for `export`, or an output directory with other content.
        """
        from jprep.corpus.exporting.text_files import export_text_files
        from jprep.engine.executors.local import Local
        from jprep.engine.runner import SilentProgress

        chosen = self.text_format(form, unit, blank_lines)
        with closing(Local(workers)) as executor:
            return export_text_files(
                self.folder,
                self.manifest,
                Path(folder),
                lines_per_file,
                chosen,
                executor,
                progress or SilentProgress(),
            )

    def text_format(self, form: str, unit: str, blank_lines: bool) -> TextFormat:
        """Return how documents become lines; see `export`.

        Raises:
            ConfigError: unknown format or unit, or the format `words` for a corpus without words.
        """
        chosen = TextFormat(form, unit, blank_lines)  # type: ignore[arg-type]
        if form == "words" and not self.manifest.totals.get("words"):
            raise ConfigError("this corpus has no words", where=str(self.folder), fix="build it with a segmenter")
        return chosen

    def why(self, query: str) -> Iterator[Document | Reject]:
        """Yield the documents and rejects with this id, page number or title."""
        return (hit.item for hit in self.find(query))

    def find(self, query: str) -> Iterator[SearchHit]:
        """Yield the documents and rejects with this id, page number or title, with their positions.

        The first call writes an index into the directory of unfinished work, so that later ones read only the shards
        of what they find. Where nothing can be written, all shards are read.
        """
        from jprep.corpus.interactive.lookup import find_rows

        ids = (query, query.lower())

        def matches(item: Document | Reject) -> bool:
            return item.id in ids or item.title == query or item.id.partition(":")[2] == query

        places = find_rows(self.folder, self.manifest, query) if query else None
        items = self._all_items() if places is None else self._items_at(places)
        yield from filter(lambda hit: matches(hit.item), items)

    def _items_at(self, places: dict[Output, list[int]]) -> Iterator[SearchHit]:
        for part, rows in places.items():
            if part.folder == DOCUMENTS:
                documents = read_rows_at(self.folder, part, Document, rows, _FOUND)
                yield from (SearchHit(item, part.path, row) for row, item in zip(rows, documents, strict=True))
            else:
                rejects = read_rows_at(self.folder, part, Reject, rows)
                yield from (SearchHit(item, part.path, row) for row, item in zip(rows, rejects, strict=True))

    def _all_items(self) -> Iterator[SearchHit]:
        for part in self.manifest.parts:
            documents = read_rows(self.folder, part, Document, _FOUND)
            yield from (SearchHit(item, part.path, row) for row, item in enumerate(documents))
        for part in self.manifest.reject_parts:
            rejects = read_rows(self.folder, part, Reject)
            yield from (SearchHit(item, part.path, row) for row, item in enumerate(rejects))

    def test_items(self, query: str = "") -> Iterator[FoundItem]:
        """Yield the items of test sets that were found in documents, or not looked for; see `docs/decontamination.md`.

        Args:
            query: id of an item; by default all.

        Raises:
            DamagedError: a list is missing or damaged.
        """
        from jprep.corpus.decontamination.findings import read_found_items

        for file in self.manifest.test_items:
            items = read_found_items(self.folder, file)
            yield from (item for item in items if query in ("", item.item))

    def verify(self) -> Iterator[Damage]:
        """Yield damaged, missing and unknown files, and documents whose words do not match their text."""
        named = {file.path for file in self.manifest.files}
        if fingerprint(self.manifest.made_from) != self.manifest.fingerprint:
            yield Damage(MANIFEST, "its fingerprint does not match `made_from`")
        for path in sorted(path for folder in (DOCUMENTS, REJECTS) for path in self.folder.glob(f"{folder}/*")):
            if path.relative_to(self.folder).as_posix() not in named:
                yield Damage(path.relative_to(self.folder).as_posix(), "is not a file of this corpus")
        for file in self.manifest.files:
            if damage := find_damage(self.folder / file.path, file.sha256):
                yield Damage(file.path, damage)
            elif file.folder == DOCUMENTS:
                yield from self._mismatched_words(file)

    def _mismatched_words(self, part: Output) -> Iterator[Damage]:
        for doc in read_rows(self.folder, part, Document, ["id", "text", "words"]):
            if doc.words.translate(UNMARK) != doc.text:
                yield Damage(part.path, f"{doc.id}: its words do not match its text")
