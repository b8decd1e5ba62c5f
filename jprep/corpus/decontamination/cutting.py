"""Remove the sentences of a document that overlap with places in its text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from jprep.corpus.document import SENTENCE, Document, Tally
from jprep.corpus.processing import remove_sentences


def cut_sentences(doc: Document, spans: Mapping[str, Sequence[tuple[int, int]]], tally: Tally) -> None:
    """Remove sentences in place, and count them.

    Args:
        doc: a document with marked sentences.
        spans: places in its text, start and end, by the prefix of the counts. A sentence that overlaps with places of
            several counts for each.
        tally: where to count.
    """
    merged = {name: merged_spans(own) for name, own in spans.items()}
    dropped, last, counted = set[int](), "", 0
    for number, (start, end) in enumerate(_places(doc.words)):
        names = [name for name, own in merged.items() if _overlaps(own, start, end)]
        for name in names:
            tally[f"{name}.sentences_cut"] += 1
            tally[f"{name}.characters_cut"] += end - start
        if names:
            dropped.add(number)
            last, counted = names[0], counted + end - start
    stripped = remove_sentences(doc, dropped) - counted
    if stripped:  # white space before a sentence that ended its paragraph
        tally[f"{last}.characters_cut"] += stripped


def _places(words: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence begins and ends in the text without marks."""
    start = 0
    for paragraph in words.split("\n"):
        for sentence in paragraph.split(SENTENCE):
            yield start, start + len(sentence)
            start += len(sentence)
        start += 1


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
