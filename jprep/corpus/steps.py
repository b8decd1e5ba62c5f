"""The recipe's steps, put together: what happens to one document, and to the sentences of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from jprep.corpus.document import SENTENCE, Document, Reject, Tally, sentences
from jprep.corpus.step import Filter, Normalizer, Segmenter, Splitter, Step

_EXCERPT = 80


class Chain:
    """What a document passes alone: normalisers, splitter, filters.

    Args:
        normalizers: in order.
        splitter: marks sentences.
        filters: in order; the first that rejects a document names the reason.
    """

    def __init__(self, normalizers: Sequence[Normalizer], splitter: Splitter, filters: Sequence[Filter]) -> None:
        self._normalizers, self._splitter, self._filters = normalizers, splitter, filters
        self.tally: Tally = Tally()

    def judge(self, doc: Document) -> Reject | None:
        """Bring a document to its final text, sentences marked; or say why it goes."""
        text = doc.text
        for normalizer in self._normalizers:
            text = normalizer.apply(text)
        doc.text = self._without_blank_lines(text)
        if not doc.text:
            return reject(doc, "normalizer", "empty")
        doc.words = self._splitter.mark(doc.text)
        for step in self._filters:
            if refused := self._filter(step, doc):
                return refused
        return None

    def _filter(self, step: Filter, doc: Document) -> Reject | None:
        verdict = step.judge(doc)
        name = f"filter.{step.name}"
        if not verdict.keep:
            return reject(doc, name, verdict.reason)
        if verdict.lines:
            drop_lines(doc, verdict.lines, name, self.tally)
        return None if doc.text else reject(doc, name, verdict.reason)

    def _without_blank_lines(self, text: str) -> str:
        lines = text.split("\n")
        kept = [line for line in lines if line and not line.isspace()]
        if len(kept) == len(lines):
            return text
        self.tally["lines.blank"] += len(lines) - len(kept)
        return "\n".join(kept)


def reject(doc: Document, step: str, reason: str) -> Reject:
    """The document as a reject, with its first characters."""
    return Reject(doc.id, doc.title, step, reason, doc.text[:_EXCERPT])


def drop_lines(doc: Document, lines: Sequence[int], name: str, tally: Tally) -> None:
    """Take paragraphs out of a document's `text` and `words`, and count them."""
    gone = set(lines)
    for field in ("text", "words"):
        kept = [line for number, line in enumerate(getattr(doc, field).split("\n")) if number not in gone]
        if field == "text":
            tally[f"{name}.characters_dropped"] += len(doc.text) - sum(map(len, kept)) - doc.text.count("\n")
        setattr(doc, field, "\n".join(kept))
    tally[f"{name}.lines_dropped"] += len(gone)


def mark_words(docs: Sequence[Document], segmenter: Segmenter) -> None:
    """Segment all sentences of some documents; a sentence that occurs twice is segmented once."""
    if segmenter.name == "none":
        return
    unique = {sentence: sentence for doc in docs for sentence in sentences(doc.words)}
    originals = list(unique)
    unique.update(zip(originals, segmenter.segment(originals), strict=True))
    for doc in docs:
        doc.words = "\n".join(_marked(paragraph, unique) for paragraph in doc.words.split("\n"))


def _marked(paragraph: str, words: dict[str, str]) -> str:
    return SENTENCE.join(words.get(sentence, sentence) for sentence in paragraph.split(SENTENCE))


def take_tally(kind: str, step: Step) -> Iterator[tuple[str, int]]:
    """What a step counted since it was last asked, under its full name."""
    for name, count in step.tally.items():
        yield f"{kind}.{step.name}.{name}", count
    step.tally.clear()


def describe(step: Step) -> dict[str, Any]:
    """A step as fingerprint and manifest hold it: version, whole config, provenance."""
    return {
        "name": step.name,
        "version": step.version,
        "config": msgspec.to_builtins(step.config),
        "provenance": step.provenance(),
    }
