"""Remove the sentences of a document that overlap with places in its text."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.corpus.document import SENTENCE, UNMARK, Document, Tally


def cut_sentences(doc: Document, spans: Sequence[tuple[int, int]], name: str, tally: Tally) -> None:
    """Remove sentences in place, and count them in `tally` under `name`.

    Args:
        doc: a document with marked sentences.
        spans: places in its text: start and end.
        name: prefix of the counts.
        tally: where to count.
    """
    kept_paragraphs, start = list[str](), 0
    for paragraph in doc.words.split("\n"):
        kept = list[str]()
        for sentence in paragraph.split(SENTENCE):
            end = start + len(sentence)
            if any(first < end and start < last for first, last in spans):
                tally[f"{name}.sentences_cut"] += 1
                tally[f"{name}.characters_cut"] += len(sentence)
            else:
                kept.append(sentence)
            start = end
        start += 1
        if any(kept):
            kept_paragraphs.append(SENTENCE.join(kept))
    doc.signals = {}  # they were measured on the whole text
    doc.words = "\n".join(kept_paragraphs)
    doc.text = doc.words.translate(UNMARK)
