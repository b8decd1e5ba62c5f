"""Remove the sentences of a document that overlap with places in its text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter

from jprep.corpus.document import SENTENCE, UNMARK, Document, Tally


def cut_sentences(doc: Document, spans: Sequence[tuple[int, int]], name: str, tally: Tally) -> None:
    """Remove sentences in place, and count them in `tally` under `name`.

    Args:
        doc: a document with marked sentences.
        spans: places in its text: start and end.
        name: prefix of the counts.
        tally: where to count.
    """
    spans = _merged(spans)
    kept_paragraphs, start = list[str](), 0
    for paragraph in doc.words.split("\n"):
        kept = list[str]()
        for sentence in paragraph.split(SENTENCE):
            end = start + len(sentence)
            before = bisect_left(spans, end, key=itemgetter(0))
            if before and spans[before - 1][1] > start:
                tally[f"{name}.sentences_cut"] += 1
                tally[f"{name}.characters_cut"] += len(sentence)
            else:
                kept.append(sentence)
            start = end
        start += 1
        if any(kept):
            kept_paragraphs.append(SENTENCE.join(kept))
    doc.words = "\n".join(kept_paragraphs)
    doc.text = doc.words.translate(UNMARK)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, with those that overlap or touch as one."""
    found = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
