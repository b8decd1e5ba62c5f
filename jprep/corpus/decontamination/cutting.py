"""Remove the sentences of a document that overlap with places in its text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from jprep.corpus.document import SENTENCE, UNMARK, Document, Tally


def cut_sentences(doc: Document, spans: Mapping[str, Sequence[tuple[int, int]]], tally: Tally) -> None:
    """Remove sentences in place, and count them.

    Args:
        doc: a document with marked sentences.
        spans: places in its text, start and end, by the prefix of the counts. A sentence that overlaps with places of
            several counts for each.
        tally: where to count.
    """
    merged = {name: merged_spans(own) for name, own in spans.items()}
    kept_paragraphs, start = list[str](), 0
    for paragraph in doc.words.split("\n"):
        kept = list[str]()
        for sentence in paragraph.split(SENTENCE):
            end = start + len(sentence)
            names = [name for name, own in merged.items() if _overlaps(own, start, end)]
            for name in names:
                tally[f"{name}.sentences_cut"] += 1
                tally[f"{name}.characters_cut"] += len(sentence)
            if not names:
                kept.append(sentence)
            start = end
        start += 1
        if any(kept):
            kept_paragraphs.append(SENTENCE.join(kept))
    doc.signals = {}  # they were measured on the whole text
    doc.words = "\n".join(kept_paragraphs)
    doc.text = doc.words.translate(UNMARK)


def _overlaps(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    before = bisect_left(spans, end, key=itemgetter(0))
    return before > 0 and spans[before - 1][1] > start


def merged_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, with those that overlap or touch as one."""
    found = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
