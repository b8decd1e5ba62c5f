"""The ways of a few documents from their records in the input, read again: pages side by side, changed characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jprep.corpus.document import SENTENCE, WORD
from jprep.corpus.normalizers.pii.normalizer import PiiNormalizer
from jprep.corpus.originals import Original, Originals, Reason, Unavailable
from jprep.corpus.store import Manifest, open_shard, rebuild_fix
from jprep.errors import JprepError
from jprep.report.corpus.document_scan import Example
from jprep.report.corpus.masking import LEFT_OUT, Masking

PAGES = 4
"""Pages shown side by side."""
SHOWN = 1500
"""Characters of each form of a page."""
_TRACED = 30_000  # characters of a text that is compared with its normalized form
_GOOD_LENGTH = range(200, 20_000)  # characters of a page that shows something
_UNASKED_BYTES = 8_000_000_000  # inputs of this size are read again only if the user names their place
_UNASKED = Unavailable(
    Reason.INPUT_GONE,
    f"the inputs are larger than {_UNASKED_BYTES / 1e9:g} GB",
    "name the recipe, the file or its directory with --inputs to read them again",
)


class Page(NamedTuple):
    """A document in its three forms.

    Attributes:
        example: the document.
        record: its record in the input, or None.
        problem: why there is no record, or "".
        text: its text.
        sentences: its sentences by words.
        cut: whether a form is longer than what is shown.
    """

    example: Example
    record: str | None
    problem: str
    text: str
    sentences: list[list[str]]
    cut: bool


class Traced(NamedTuple):
    """What reading the inputs again gave.

    Attributes:
        pages: a few pages.
        originals: the ways of all sampled documents that could be read again.
        problems: why others could not, and how to fix it, each reason once.
    """

    pages: list[Page]
    originals: list[Original]
    problems: list[str]


def trace_documents(
    folder: Path, manifest: Manifest, candidates: Sequence[Example], places: Sequence[str], masking: Masking
) -> Traced:
    """Read the records of some documents again.

    Args:
        folder: directory of the corpus.
        manifest: its manifest.
        candidates: documents by source, from few shards: whole shards are read.
        places: files and directories of the inputs that the user named.
        masking: what may be shown.

    Raises:
        DamagedError: a file of the corpus is damaged.
    """
    found = _find(folder, manifest, candidates, places)
    unavailable = [each for each in found.values() if isinstance(each, Unavailable)]
    pages = [_page(folder, manifest, each, found[each.id], masking) for each in _chosen(candidates)]
    originals = [each for each in found.values() if isinstance(each, Original)]
    problems = [*map(_sentence, unavailable), *(each.problem for each in originals if each.problem)]
    return Traced(pages, originals, list(dict.fromkeys(problems)))


def _find(
    folder: Path, manifest: Manifest, candidates: Sequence[Example], places: Sequence[str]
) -> Mapping[str, Original | Unavailable]:
    size = sum(file.get("size") or 0 for source in manifest.sources for file in source.get("files", []))
    if size > _UNASKED_BYTES and not places:
        return {each.id: _UNASKED for each in candidates}
    originals = Originals(folder, places)
    try:
        parts = {each.id: manifest.parts[each.part].path for each in candidates}
        return originals.find(list(parts), parts, limit=_TRACED)
    finally:
        originals.close()


def _sentence(problem: Unavailable) -> str:
    return f"{problem.what}; {problem.fix}" if problem.fix else problem.what


def _chosen(candidates: Sequence[Example]) -> list[Example]:
    """Return the pages to show: of each source in turn, and rather neither very short nor very long ones."""
    by_source: dict[str, list[Example]] = {}
    for each in sorted(candidates, key=lambda example: example.characters not in _GOOD_LENGTH):
        by_source.setdefault(each.source, []).append(each)
    turns = (each for turn in range(PAGES) for own in by_source.values() for each in own[turn : turn + 1])
    return [each for each, _ in zip(turns, range(PAGES), strict=False)]


def _page(folder: Path, manifest: Manifest, example: Example, found: Original | Unavailable, masking: Masking) -> Page:
    row = _read_row(folder, manifest, example)
    record, size, problem = None, 0, LEFT_OUT
    if isinstance(found, Unavailable):
        problem = found.what
    elif not masking.needed:
        record, size, problem = found.original[:SHOWN], found.original_chars, ""
    cut = max(size, len(row["text"])) > SHOWN
    sentences = list(_sentences(row["words"], SHOWN))
    return Page(masking.example(example), record, problem, row["text"][:SHOWN], sentences, cut)


def _sentences(words: str, limit: int) -> Iterator[list[str]]:
    """Yield the words of each sentence, up to so many characters."""
    for sentence in words[: 2 * limit].replace("\n", SENTENCE).split(SENTENCE):
        if limit <= 0:
            return
        limit -= len(sentence)
        if sentence:
            yield sentence.split(WORD)


def _read_row(folder: Path, manifest: Manifest, example: Example) -> dict[str, Any]:
    """Return the text and the words of a document."""
    part = manifest.parts[example.part]
    path, row = folder / part.path, example.row
    with open_shard(path, part.sha256) as parquet:
        for group in range(parquet.num_row_groups):
            rows = parquet.metadata.row_group(group).num_rows
            if row < rows:
                table = parquet.read_row_group(group, columns=["text", "words"])
                return {name: table[name][row].as_py() for name in ("text", "words")}
            row -= rows
    raise JprepError("a shard has too few rows", where=str(path), fix=rebuild_fix(path.parents[1]))


def changed_pairs(originals: Iterable[Original]) -> Iterator[tuple[str, str]]:
    """Yield the lines that each normalizer changed, before and after, except what `pii` masked."""
    for each in originals:
        before = each.read_text
        for name, after in each.normalized:
            if name != PiiNormalizer.name:
                yield from _changed_lines(before, after)
            before = after


def _changed_lines(before: str, after: str) -> Iterator[tuple[str, str]]:
    old, new = before.split("\n"), after.split("\n")
    # The last line may be cut at another place in the two.
    yield from (pair for pair in zip(old[:-1], new[:-1], strict=False) if pair[0] != pair[1])
    if len(before) < _TRACED and len(old) == len(new) and old[-1] != new[-1]:
        yield old[-1], new[-1]
