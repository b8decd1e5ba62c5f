"""Select the held-out texts: by the hashes of documents as they were read, before any recipe's filter."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from jprep.compare.arms import RecipeArm, source_origin
from jprep.compare.data.sources import raw_documents, text_hash
from jprep.corpus.api import Corpus
from jprep.corpus.config import Source
from jprep.corpus.document import Document
from jprep.errors import ConfigError
from jprep.plurals import counted

SHARE = 0.02
"""Share of the documents of common sources that is held out, within the limits below."""

_LARGEST_SHARE = 0.2
_MOST, _FEWEST, _NECESSARY = 400, 40, 2
_SHORTEST, _LONGEST = 30, 1000  # characters of an item
_END = re.compile(r"[。！？\n](?=[^。！？]*$)")


class HeldOutText(msgspec.Struct, frozen=True):
    """A held-out text.

    Attributes:
        id: id of its document.
        source: name of its source.
        title: title of its document.
        text: the text; of a long document its beginning.
        document: hash of the whole document, by which it is kept out of training.
    """

    id: str
    source: str
    title: str
    text: str
    document: int


def common_sources(arms: Sequence[RecipeArm]) -> list[Source]:
    """Return the sources of the first arm that every other one reads in the same way.

    Raises:
        ConfigError: there is none.
    """
    origins = [[source_origin(source) for source in arm.corpus.sources] for arm in arms]
    found = [source for source in arms[0].corpus.sources if all(source_origin(source) in each for each in origins)]
    if not found:
        fix = "give held-out texts of your own: --heldout FILE"
        raise ConfigError("the recipes have no source in common to hold texts out from", fix=fix)
    return found


def select_held_out(corpora: Iterable[tuple[str, Corpus]]) -> list[HeldOutText]:
    """Return the documents with the lowest hashes of their texts, in the order of these hashes.

    Args:
        corpora: names of the common sources with their raw corpora.

    Raises:
        ConfigError: there are too few documents.
    """
    best: list[tuple[int, str, Document]] = []
    number = 0
    for name, corpus in corpora:
        for document in raw_documents(corpus):
            if len(document.text) >= _SHORTEST:
                number += 1
                best.append((text_hash(document.text), name, document))
        if len(best) > 10 * _MOST:
            best = heapq.nsmallest(2 * _MOST, best, key=lambda each: each[0])
    wanted = min(max(round(SHARE * number), _FEWEST), _MOST, int(_LARGEST_SHARE * number))
    if wanted < _NECESSARY:
        fix = "give held-out texts of your own: --heldout FILE"
        least = round(_NECESSARY / _LARGEST_SHARE)
        found = counted(number, "document")
        what = f"the common sources have {found} of at least {_SHORTEST} characters; held-out texts need {least}"
        raise ConfigError(what, fix=fix)
    unique = {mark: (name, document) for mark, name, document in sorted(best, key=lambda each: each[0])}
    return [_item(mark, name, document) for mark, (name, document) in list(unique.items())[:wanted]]


def read_held_out(corpora: Iterable[tuple[str, Corpus]]) -> list[HeldOutText]:
    """Return all texts of the files that a user gave, the same text once.

    Args:
        corpora: names of the files with their raw corpora.

    Raises:
        ConfigError: they hold no text.
    """
    found = {
        text_hash(document.text): (name, document)
        for name, corpus in corpora
        for document in raw_documents(corpus)
        if document.text
    }
    if len(found) < _NECESSARY:
        raise ConfigError("the files of held-out texts hold fewer than two texts", where="--heldout")
    return [_item(mark, name, document) for mark, (name, document) in found.items()]


def held_out_source(path: Path) -> Source:
    """Return a file of held-out texts as a source: JSON lines, Parquet or text, by its suffix."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".xz").removesuffix(".bz2").removesuffix(".zst")
    reader = next((kind for kind in ("jsonl", "parquet") if name.endswith(f".{kind}")), "text")
    return Source(name="heldout", paths=[str(path)], reader=reader)


def _item(mark: int, source: str, document: Document) -> HeldOutText:
    return HeldOutText(
        f"{source}:{document.id.partition(':')[2]}", source, document.title, beginning(document.text), mark
    )


def beginning(text: str) -> str:
    """Return the beginning of a long text, to the end of a sentence if there is one in its second half."""
    if len(text) <= _LONGEST:
        return text
    cut = text[:_LONGEST]
    end = _END.search(cut)
    return cut[: end.end()].rstrip("\n") if end and end.end() > _LONGEST // 2 else cut
