"""Apply the steps of a recipe to documents: normalize, split, filter, segment."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from jprep.batching import batches_of
from jprep.corpus.document import KEEP, SENTENCE, UNMARK, Document, Reject, Tally, sentences
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.per_line import of_documents, of_lines
from jprep.corpus.step import Filter, Normalizer, Segmenter, Signal, Splitter, Step, describe_step
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError, InputError, JprepError

_EXCERPT = 80
_BATCH = 1 << 18  # characters normalized and measured at a time


class DocumentProcessor:
    """Applies the steps that need one document at a time: normalizers, splitter, filters.

    Args:
        normalizers: applied in order.
        splitter: marks the sentences.
        filters: applied in order; the first one that rejects a document gives the reason.
        signals: measured of the documents that remain.
        as_is: keep the text as the reader returned it, with blank lines.

    Attributes:
        tally: counts of dropped lines and characters.
    """

    def __init__(
        self,
        normalizers: Sequence[Normalizer],
        splitter: Splitter,
        filters: Sequence[Filter],
        signals: Sequence[Signal] = (),
        *,
        as_is: bool = False,
    ) -> None:
        self._as_is = as_is
        self._normalizers, self._splitter, self._filters, self._signals = normalizers, splitter, filters, signals
        self.tally: Tally = Tally()

    def process(self, items: Iterable[Document | Reject]) -> Iterator[Document | Reject]:
        """Yield each document with its final text and marked sentences, or as a reject. The order is kept."""
        for batch in document_batches(items):
            docs = [item for item in batch if isinstance(item, Document)]
            if not self._as_is:
                self._normalize(docs)
            judged = self._judge(docs)
            if len(docs) == len(batch):
                yield from judged
                continue
            left = iter(judged)
            yield from (next(left) if isinstance(item, Document) else item for item in batch)

    def _normalize(self, docs: list[Document]) -> None:
        texts = [doc.text for doc in docs]
        lines = normalize_lines(texts, self._normalizers)
        # `strip` returns the line itself where it can, which makes this faster than looking at each document.
        solid = all(map(str.strip, lines))
        if solid and len(lines) == len(docs):
            for doc, line in zip(docs, lines, strict=True):
                doc.text = line
            return
        for doc, (start, end) in zip(docs, line_ranges(texts), strict=True):
            doc.text = "\n".join(lines[start:end]) if solid else self._remove_blank(lines[start:end])

    def _judge(self, docs: list[Document]) -> list[Document | Reject]:
        """Mark the sentences of some documents and filter them; a document that a filter drops becomes a reject."""
        filled = [doc for doc in docs if doc.text]
        for doc, words in zip(filled, self._splitter.mark_all([doc.text for doc in filled]), strict=True):
            doc.words = words
        if len(filled) == len(docs):
            return self._filter(filled)
        empty = {place: reject(doc, "normalizer", "empty") for place, doc in enumerate(docs) if not doc.text}
        judged = iter(self._filter(filled))
        return [empty.get(place) or next(judged) for place in range(len(docs))]

    def _filter(self, docs: list[Document]) -> list[Document | Reject]:
        return filter_batch(TextBatch(docs), self._filters, self._signals, self.tally, self._splitter)

    def _remove_blank(self, lines: list[str]) -> str:
        kept = nonblank_lines(lines)
        if len(kept) < len(lines):
            self.tally["lines.blank"] += len(lines) - len(kept)
        return "\n".join(kept)


def normalize_lines(texts: Sequence[str], normalizers: Sequence[Normalizer]) -> list[str]:
    """Normalize many texts in one call: normalizers work line by line, and short calls are slow.

    Args:
        texts: the texts, each with any number of lines.
        normalizers: applied in order.

    Returns:
        The lines of all texts, text by text; see `line_ranges`.

    Raises:
        JprepError: a normalizer added or removed lines, so that they cannot be told apart by text.
    """
    joined = "\n".join(texts)
    normalized = joined
    for normalizer in normalizers:
        normalized = normalizer.apply(normalized)
    lines = normalized.split("\n") if texts else []
    if texts and len(lines) != joined.count("\n") + 1:
        names = ", ".join(normalizer.name for normalizer in normalizers)
        raise JprepError("a normalizer changed the number of lines", where=names, fix="correct the plugin")
    return lines


def line_ranges(texts: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the index of each text's first line in the lines of all texts, and of the line after its last."""
    return pairwise(accumulate((text.count("\n") + 1 for text in texts), initial=0))


def filter_batch(
    batch: TextBatch,
    filters: Sequence[Filter],
    signals: Sequence[Signal],
    tally: Tally,
    splitter: Splitter | None = None,
) -> list[Document | Reject]:
    """Apply filters to a batch, and measure the documents that remain.

    Args:
        batch: the documents.
        filters: applied in order.
        signals: set in `Document.signals` and `Document.line_signals`.
        tally: counts dropped lines and characters, and changed documents.
        splitter: marks the sentences of texts that a filter changes; None refuses to change texts.

    Returns:
        Each document of the batch, or its reject.
    """
    results: list[Document | Reject] = list(batch.docs)
    places = list(range(len(results)))
    for step in filters:
        batch, rejected = _apply_filter(step, batch, tally, splitter)
        for index, dropped in rejected.items():
            results[places[index]] = dropped
        places = [place for index, place in enumerate(places) if index not in rejected]
    measure_signals(batch, signals)
    return results


def _apply_filter(
    step: Filter, batch: TextBatch, tally: Tally, splitter: Splitter | None
) -> tuple[TextBatch, dict[int, Reject]]:
    """Apply a filter to a batch; drop lines and replace texts in place.

    Args:
        step: the filter.
        batch: the documents.
        tally: counts dropped lines and characters, and changed documents.
        splitter: marks the sentences of changed texts; None refuses to change texts.

    Returns:
        The documents that remain, and the rejects by index in the batch.
    """
    if not len(batch):
        return batch, {}
    name, rejected, changed = f"filter.{step.label}", dict[int, Reject](), False
    for index, (doc, verdict) in enumerate(zip(batch.docs, step.judge_all(batch), strict=True)):
        if verdict is KEEP:
            continue
        if verdict.keep and verdict.lines:
            drop_lines(doc, verdict.lines, name, tally)
            changed = True
        if verdict.keep and verdict.text is not None:
            replace_text(doc, verdict.text, _required(splitter, step))
            tally[f"{name}.documents_changed"] += 1
            changed = True
        if not verdict.keep or not doc.text:
            rejected[index] = reject(doc, name, verdict.reason)
    remaining = batch.without(rejected) if rejected else batch
    return remaining.with_other_texts() if changed else remaining, rejected


def _required(splitter: Splitter | None, step: Filter) -> Splitter:
    """Return the splitter, or raise an error: the words of a finished corpus cannot follow another text."""
    if splitter is None:
        what, fix = f"the filter {step.label} changes texts of a finished corpus", "build a corpus with it instead"
        raise ConfigError(what, fix=fix)
    return splitter


def replace_text(doc: Document, text: str, splitter: Splitter) -> None:
    """Give a document another text, without blank lines, and mark its sentences."""
    lines = text.translate(UNMARK).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    doc.text = "\n".join(nonblank_lines(lines))
    doc.words = splitter.mark(doc.text)


def measure_changed(items: Iterable[Document | Reject], signals: Sequence[Signal]) -> Iterator[Document | Reject]:
    """Yield items in the same order; measure the documents without signals, whose texts have changed since."""
    if not signals:
        yield from items
        return
    counted = [signal.key for signal in signals]
    for batch in document_batches(items):
        docs = [item for item in batch if isinstance(item, Document) and not (item.signals or item.line_signals)]
        measure_signals(TextBatch(docs, counted), signals)
        yield from batch


def measure_signals(batch: TextBatch, signals: Sequence[Signal]) -> None:
    """Set `Document.signals` and `Document.line_signals`, rounded to 32 bits as a corpus stores them."""
    if not len(batch):
        return
    if documents := _measured(batch, of_documents(signals)):
        for doc, row in zip(batch.docs, zip(*documents.values(), strict=True), strict=True):
            doc.signals = dict(zip(documents, row, strict=True))
    if lines := _measured(batch.per_line, of_lines(signals)) if of_lines(signals) else {}:
        firsts = batch.first_lines.tolist()
        for doc, start, end in zip(batch.docs, firsts, [*firsts[1:], len(batch.per_line)], strict=True):
            doc.line_signals = {column: values[start:end] for column, values in lines.items()}


def _measured(batch: TextBatch, signals: Sequence[Signal]) -> dict[str, list[float]]:
    columns = {name: values for signal in signals for name, values in batch.measured(signal).items()}
    return {name: values.astype("float32").tolist() for name, values in columns.items()}


def nonblank_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines that are not only white space."""
    return [line for line in lines if line and not line.isspace()]


def document_batches(items: Iterable[Document | Reject]) -> Iterator[list[Document | Reject]]:
    """Return consecutive items in batches of about 260,000 characters."""
    return batches_of(items, _BATCH, lambda item: len(item.text) + 1 if isinstance(item, Document) else 1)


def reject(doc: Document, step: str, reason: str) -> Reject:
    """Return a document as a reject, with its first characters as the excerpt."""
    return Reject(doc.id, doc.title, step, reason, doc.text[:_EXCERPT])


def drop_lines(doc: Document, lines: Sequence[int], name: str, tally: Tally) -> None:
    """Remove paragraphs from the `text` and `words` of a document, and count them in `tally` under `name`.

    The document loses its signals, which were those of the whole text.
    """
    dropped = set(lines)
    for field in ("text", "words"):
        kept = [line for number, line in enumerate(getattr(doc, field).split("\n")) if number not in dropped]
        if field == "text":
            tally[f"{name}.characters_dropped"] += len(doc.text) - sum(map(len, kept)) - doc.text.count("\n")
        setattr(doc, field, "\n".join(kept))
    doc.forget_signals()
    tally[f"{name}.lines_dropped"] += len(dropped)


def drop_sentences(doc: Document, sentences: Sequence[int], name: str, tally: Tally) -> None:
    """Remove sentences, see `remove_sentences`, and count them in `tally` under `name`."""
    dropped = set(sentences)
    tally[f"{name}.characters_dropped"] += remove_sentences(doc, dropped)
    tally[f"{name}.sentences_dropped"] += len(dropped)


def remove_sentences(doc: Document, dropped: Container[int]) -> int:
    """Remove sentences from the `text` and `words` of a document; return the number of characters removed.

    A paragraph without another sentence goes too. The document loses its signals, which were those of the whole text.

    Args:
        doc: a document with marked sentences and without marks of words.
        dropped: numbers of the sentences, counted over all paragraphs.
    """
    number, removed, paragraphs = 0, 0, list[str]()
    for paragraph in doc.words.split("\n"):
        parts = paragraph.split(SENTENCE)
        kept = [part for place, part in enumerate(parts, number) if place not in dropped]
        left = SENTENCE.join(kept).rstrip() if len(kept) < len(parts) else paragraph
        removed += sum(map(len, parts)) - len(left.translate(UNMARK))
        number += len(parts)
        if left:
            paragraphs.append(left)
    doc.words = "\n".join(paragraphs)
    doc.text = doc.words.translate(UNMARK)
    doc.forget_signals()
    return removed


def segment_documents(docs: Sequence[Document], segmenter: Segmenter) -> None:
    """Segment all sentences of some documents in place. Equal sentences are segmented once."""
    if not segmenter.marks:
        return
    unique = {sentence: sentence for doc in docs for sentence in sentences(doc.words)}
    originals = list(unique)
    unique.update(zip(originals, segmenter.segment(originals), strict=True))
    for doc in docs:
        doc.words = "\n".join(_segmented(paragraph, unique) for paragraph in doc.words.split("\n"))


def _segmented(paragraph: str, words: dict[str, str]) -> str:
    return SENTENCE.join(words.get(sentence, sentence) for sentence in paragraph.split(SENTENCE))


def take_tally(kind: str, step: Step) -> dict[str, int]:
    """Return the counts of a step under their full names, and reset them."""
    counts = {f"{kind}.{step.name}.{name}": count for name, count in step.tally.items()}
    step.tally.clear()
    return counts


def refuse_changed_step_file(step: Step, source_file: str) -> None:
    """Check that the user's file that defines a step is the one that the fingerprint was made with.

    Args:
        step: the step, as this process loaded it.
        source_file: the step's `source_file` when the build began.

    Raises:
        InputError: the file has changed.
    """
    if step.source_file != source_file:
        what = f"the file that defines the step {step.name} changed during the build"
        raise InputError(what, where=f"class {type(step).__name__}", fix="run the build again with --restart")


def refuse_changed_steps(steps: Sequence[Step], before: Sequence[str]) -> list[str]:
    """Check that the steps of a stage are those that the fingerprint was made with: their code, word lists and models.

    Args:
        steps: the steps, as this process loaded them.
        before: what the process that made the fingerprint returned; empty in that process.

    Returns:
        A hash of each step.

    Raises:
        InputError: a step, or a file that it uses, has changed.
    """
    unique = {id(step): step for step in steps}.values()
    hashes = [_step_hash(step) for step in unique]
    for step, found, expected in zip(unique, hashes, before or hashes, strict=True):
        if found != expected:
            what = f"the step {step.name} or one of its files changed during the build"
            raise InputError(what, where=f"class {type(step).__name__}", fix="run the build again with --restart")
    return hashes


def _step_hash(step: Step) -> str:
    """Return a hash of what the output of a step depends on, except the large dictionary of a segmenter."""
    return step.source_file if isinstance(step, Segmenter) else fingerprint(describe_step(step))
