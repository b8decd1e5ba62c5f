"""A corpus as a library sees it: read it, export it, verify it, ask why something is not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from jprep.corpus.document import SENTENCE, UNMARK, WORD, Document, Reject
from jprep.corpus.store import DOCUMENTS, MANIFEST, REJECTS, Manifest, read_manifest, read_rows
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError
from jprep.io.verified_files import find_damage

if TYPE_CHECKING:  # what building needs is loaded when something is built: `import jprep` stays fast
    from jprep.corpus.config import CorpusRecipe
    from jprep.engine.runner import ProgressReporter
    from jprep.engine.stage import Output


class Damage(msgspec.Struct, frozen=True):
    """Something that `Corpus.verify` found: the file, and what is wrong with it."""

    path: str
    what: str


class SearchHit(msgspec.Struct, frozen=True):
    """A document or a reject, and where it stands.

    Attributes:
        item: what was found.
        part: the file of the corpus, relative to its folder.
        row: its row in that file, from 0.
    """

    item: Document | Reject
    part: str
    row: int


class Corpus:
    """A finished corpus in a folder.

        recipe = jprep.load_recipe("data_recipes/jawiki.toml")
        corpus = Corpus.build(recipe, "work/jawiki/corpus", workers=8)
        for document in corpus:
            print(document.title, len(document.text))

    Args:
        folder: where it lies.

    Raises:
        ConfigError: there is no finished corpus there.
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
        """Build a corpus, or go on with one; see `jprep.corpus.build.build`.

        Args:
            recipe: a recipe, e.g. from `jprep.load_recipe`.
            folder: where to build it.
            workers: processes; the bytes are the same for any number.
            progress: is told of each task.
            restart: throw away what the folder holds of other work.

        Raises:
            JprepError: its kinds say what to mend; the same call then goes on.
        """
        from jprep.corpus.build import build
        from jprep.engine.local import Local
        from jprep.engine.runner import SilentProgress

        with closing(Local(workers)) as executor:
            build(recipe, Path(folder), executor, progress or SilentProgress(), restart=restart)
        return cls(folder)

    def __len__(self) -> int:
        return self.manifest.totals.get("documents", 0)

    def __iter__(self) -> Iterator[Document]:
        return self.documents()

    def documents(self, columns: Sequence[str] | None = None) -> Iterator[Document]:
        """All documents in order, in bounded memory.

        Args:
            columns: read these only; the other fields are empty.

        Raises:
            DamagedError: a shard is missing, or not what was written.
        """
        for part in self.manifest.parts:
            yield from read_rows(self.folder, part, Document, columns)

    def rejects(self) -> Iterator[Reject]:
        """All rejects, in the order of the stages."""
        for part in self.manifest.reject_parts:
            yield from read_rows(self.folder, part, Reject)

    def export(self, out: TextIO, form: str = "text", *, limit: int | None = None) -> int:
        """Write the corpus as text.

        Args:
            out: where to.
            form: `text`, one sentence a line and a blank line between documents; `words`, the same with spaces between
                words (white space that was in the text is left out: the form of published recipes, which loses it);
                `jsonl`, whole documents, nothing lost.
            limit: stop after so many documents.

        Returns:
            the number of documents written.

        Raises:
            ConfigError: no such form, or a corpus without words is to be written as words.
        """
        if form not in _FORMS:
            raise ConfigError(f"no form of export is called {form!r}", fix=f"there are: {', '.join(_FORMS)}")
        if form == "words" and not self.manifest.totals.get("words"):
            raise ConfigError("this corpus has no words", where=str(self.folder), fix="build it with a segmenter")
        written = 0
        for doc in islice(self.documents(), limit):
            out.write(_FORMS[form](doc))
            written += 1
        return written

    def why(self, query: str) -> Iterator[Document | Reject]:
        """Documents and rejects with this id, this page number or this title."""
        return (found.item for found in self.find(query))

    def find(self, query: str) -> Iterator[SearchHit]:
        """All documents and rejects with this id, this page number or this title, each with its place."""
        known = (query, query.lower())

        def matches(item: Document | Reject) -> bool:
            return item.id in known or item.title == query or item.id.partition(":")[2] == query

        yield from filter(lambda found: matches(found.item), self._placed())

    def _placed(self) -> Iterator[SearchHit]:
        for part in self.manifest.parts:
            documents = read_rows(self.folder, part, Document, ["id", "source", "title", "url"])
            yield from (SearchHit(item, part.path, row) for row, item in enumerate(documents))
        for part in self.manifest.reject_parts:
            rejects = read_rows(self.folder, part, Reject)
            yield from (SearchHit(item, part.path, row) for row, item in enumerate(rejects))

    def verify(self) -> Iterator[Damage]:
        """Check files against the manifest's hashes, words against texts, and look for files that it does not name."""
        named = {file.path for file in self.manifest.files}
        if fingerprint(self.manifest.made_from) != self.manifest.fingerprint:
            yield Damage(MANIFEST, "its fingerprint is not that of what it was made from")
        for path in sorted(path for folder in (DOCUMENTS, REJECTS) for path in self.folder.glob(f"{folder}/*")):
            if path.relative_to(self.folder).as_posix() not in named:
                yield Damage(path.relative_to(self.folder).as_posix(), "is no file of this corpus")
        for file in self.manifest.files:
            if damage := find_damage(self.folder / file.path, file.sha256):
                yield Damage(file.path, damage)
            elif file.folder == DOCUMENTS:
                yield from self._unlawful(file)

    def _unlawful(self, part: Output) -> Iterator[Damage]:
        for doc in read_rows(self.folder, part, Document, ["id", "text", "words"]):
            if doc.words.translate(UNMARK) != doc.text:
                yield Damage(part.path, f"{doc.id}: its words are not its text")


def _sentences(doc: Document, between: Callable[[str], str]) -> str:
    lines = doc.words.replace(SENTENCE, "\n").split("\n")
    return "".join(f"{line}\n" for line in map(between, lines) if line) + "\n"


def _as_text(doc: Document) -> str:
    return _sentences(doc, lambda sentence: sentence.replace(WORD, "").strip())


def _as_words(doc: Document) -> str:
    return _sentences(doc, lambda sentence: " ".join(sentence.replace(WORD, " ").split()))


def _as_json(doc: Document) -> str:
    return msgspec.json.encode(doc).decode() + "\n"


_FORMS: dict[str, Callable[[Document], str]] = {"text": _as_text, "words": _as_words, "jsonl": _as_json}
