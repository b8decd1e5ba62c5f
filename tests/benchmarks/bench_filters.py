"""Speed of the six filters together, and what their defaults reject of real text.

Figures are MB of UTF-8 text per CPU-second, best of several. The peer is HojiChar, where it is installed: its six
filters nearest to ours, over every tenth document.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from jprep.corpus.document import Document
from jprep.corpus.filters.document import JapaneseFilter, LengthFilter, SymbolFilter, UrlFilter
from jprep.corpus.filters.lines import RepeatedLinesFilter, SentenceEndFilter
from jprep.corpus.processing import document_batches
from jprep.corpus.signals.batch import TextBatch

SHARED = Path(os.environ.get("JPREP_SHARED", Path(__file__).parents[3] / "shared"))
FILTERS = (LengthFilter, JapaneseFilter, SymbolFilter, UrlFilter, SentenceEndFilter, RepeatedLinesFilter)
REPEATS = 3


def load(path: Path) -> list[Document]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line)["text"].replace("\r\n", "\n") for line in lines]
    return [Document(str(i), path.name, "", "", text, text) for i, text in enumerate(rows)]


def pace(work: Callable[[Iterable[Document]], object], docs: list[Document]) -> float:
    """MB per CPU-second, best of `REPEATS`."""
    size = sum(len(doc.text.encode()) for doc in docs) / 1e6
    best = float("inf")
    for _ in range(REPEATS):
        begun = time.process_time()
        work(docs)
        best = min(best, time.process_time() - begun)
    return size / best


def batches(docs: Iterable[Document]) -> Iterator[TextBatch]:
    """Yield the documents in the batches of a build."""
    return (TextBatch([doc for doc in batch if isinstance(doc, Document)]) for batch in document_batches(docs))


def all_filters(docs: Iterable[Document]) -> Counter[str]:
    """Every filter looks at every document, as if none were dropped: the slowest case."""
    steps, dropped = [kind() for kind in FILTERS], Counter[str]()
    for batch in batches(docs):
        for step in steps:
            dropped[step.name] += sum(not verdict.keep for verdict in step.judge_all(batch))
    return dropped


def hojichar(docs: Iterable[Document]) -> None:
    """HojiChar's filters for length, kana, ends of sentences (two), short lines and repetition."""
    from hojichar import document_filters as peer
    from hojichar.core.models import Document as PeerDocument

    steps = (
        peer.DocumentLengthFilter(min_doc_len=10),
        peer.AcceptJapanese(),
        peer.DiscardRareKuten(),
        peer.DiscardTooManyEndingEllipsis(),
        peer.DiscardTooShortLines(),
        peer.CharRepetitionRatioFilter(),
    )
    for doc in docs:
        for step in steps:
            step.apply(PeerDocument(doc.text))


def main() -> None:
    files = sorted((SHARED / "data/web").glob("*.jsonl.gz")) + sorted((SHARED / "data/prose").glob("*.jsonl.gz"))
    if not files:
        print(f"no texts under {SHARED}/data: nothing to measure")
        return
    print(f"{'rejected, % of documents':30}{'docs':>8}{'MB/s':>8}", *(f"{kind.name:>15}" for kind in FILTERS), sep="")
    everything: list[Document] = []
    for path in files:
        docs = load(path)
        everything += docs
        dropped = all_filters(docs)
        shares = (f"{100 * dropped[kind.name] / len(docs):15.2f}" for kind in FILTERS)
        print(f"{path.name:30}{len(docs):8}{pace(all_filters, docs):8.0f}", *shares, sep="")
    print(f"all six over everything: {pace(all_filters, everything):.0f} MB/s")
    if not importlib.util.find_spec("hojichar"):
        print("HojiChar is not installed: no peer")
        return
    sample = everything[::10]
    ours, theirs = pace(all_filters, sample), pace(hojichar, sample)
    print(f"every tenth document: {ours:.0f} MB/s; HojiChar's six: {theirs:.1f} ({ours / theirs:.0f} x)")


if __name__ == "__main__":
    main()
