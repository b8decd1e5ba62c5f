"""Drop documents with items of test sets, or cut the items out of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from jprep.batching import batches_of
from jprep.corpus.config import DecontaminateConfig
from jprep.corpus.decontamination.cutting import cut_sentences
from jprep.corpus.decontamination.findings import FoundItem, ItemCounts, Occurrence
from jprep.corpus.decontamination.search import BATCH, LEAST, Finding, ItemSearch
from jprep.corpus.decontamination.test_sets import read_test_sets
from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.input_files import InputFile

STEP = "decontaminate"
_NAMED = 3  # items named in a reject


class Decontaminator:
    """Looks for the items of all test sets of a recipe.

    Args:
        sets: the test sets.
        files: the files of each.

    Raises:
        JprepError: a file cannot be read as its test set.
    """

    def __init__(self, sets: Sequence[DecontaminateConfig], files: Sequence[Sequence[InputFile]]) -> None:
        self._sets = sets
        self._items = read_test_sets(sets, files)
        self._starts = [0, *accumulate(map(len, self._items))]
        self._set_of = [number for number, items in enumerate(self._items) for _ in items]
        self._search = ItemSearch([item.parts for items in self._items for item in items])

    def apply(
        self, items: Iterable[Document | Reject], tally: Tally, found: list[Occurrence]
    ) -> Iterator[Document | Reject]:
        """Yield documents without the items, and rejects, in the same order.

        Args:
            items: documents with marked sentences, and rejects.
            tally: counts what is cut.
            found: the items that are found are appended to it.
        """
        for batch in batches_of(items, BATCH, lambda item: len(item.text) if isinstance(item, Document) else 0):
            yield from self._decontaminated(batch, tally, found)

    def _decontaminated(
        self, batch: Sequence[Document | Reject], tally: Tally, found: list[Occurrence]
    ) -> Iterator[Document | Reject]:
        texts = [item.text if isinstance(item, Document) else "" for item in batch]
        by_document = dict[int, list[Finding]]()
        for each in self._search.find(texts):
            by_document.setdefault(each.document, []).append(each)
        for number, item in enumerate(batch):
            findings = by_document.get(number)
            if not findings or isinstance(item, Reject):
                yield item
                continue
            found += self._occurrences(findings, item)
            yield self._judged(item, findings, tally)

    def _occurrences(self, findings: Sequence[Finding], doc: Document) -> Iterator[Occurrence]:
        before = set[int]()
        for each in findings:
            number = self._set_of[each.item]
            item, share = each.item - self._starts[number], round(each.share, 3)
            yield Occurrence(number, item, doc.id, share, number not in before)
            before.add(number)

    def _judged(self, doc: Document, findings: Sequence[Finding], tally: Tally) -> Document | Reject:
        numbers = sorted({self._set_of[each.item] for each in findings})
        if dropping := [number for number in numbers if self._sets[number].action == "drop"]:
            return self._reject(doc, dropping[0], findings)
        spans = {f"{STEP}.{self._sets[number].name}": self._spans(number, findings) for number in numbers}
        cut_sentences(doc, spans, tally)
        tally.update({f"{name}.documents_cut": 1 for name in spans})
        return doc if doc.text else self._reject(doc, numbers[0], findings)

    def _spans(self, number: int, findings: Sequence[Finding]) -> list[tuple[int, int]]:
        return [span for each in findings if self._set_of[each.item] == number for span in each.spans]

    def _reject(self, doc: Document, number: int, findings: Sequence[Finding]) -> Reject:
        own = [each.item - self._starts[number] for each in findings if self._set_of[each.item] == number]
        named = [self._items[number][item].id for item in own[:_NAMED]]
        more = [f"+{len(own) - _NAMED}"] if len(own) > _NAMED else []
        return Reject(doc.id, doc.title, f"{STEP}.{self._sets[number].name}", "test_item", ", ".join(named + more))

    def found_items(self, number: int, found: Sequence[Occurrence]) -> list[FoundItem]:
        """Return the list of a test set: its items that were found, and those that were not looked for.

        Args:
            number: index of the test set.
            found: what all tasks found.
        """
        by_item = dict[int, list[Occurrence]]()
        for each in found:
            if each.test_set == number:
                by_item.setdefault(each.item, []).append(each)
        rows = list[FoundItem]()
        for index, item in enumerate(self._items[number]):
            own = by_item.get(index, [])
            reason = self._not_checked(number, index)
            if own or reason:
                documents, shares = tuple(each.document for each in own), tuple(each.share for each in own)
                rows.append(FoundItem(item.id, documents, shares, reason))
        return rows

    def counts(self, number: int, found: Sequence[Occurrence], rows: Sequence[FoundItem]) -> ItemCounts:
        """Return what was found of a test set.

        Args:
            number: index of the test set.
            found: what all tasks found.
            rows: what `found_items` returns.
        """
        documents = sum(each.first for each in found if each.test_set == number)
        config, items = self._sets[number], len(self._items[number])
        items_found, start = sum(bool(row.documents) for row in rows), self._starts[number]
        not_checked = len(rows) - items_found
        own = slice(start, start + items)
        whole = int((self._search.whole[own] & (self._search.compared[own] > 0)).sum())
        return ItemCounts(config.name, config.action, items, not_checked, items_found, documents, whole)

    def _not_checked(self, number: int, item: int) -> str:
        if reason := self._items[number][item].reject:
            return reason
        row = self._starts[number] + item
        if self._search.compared[row]:
            return ""
        return "too_short" if self._search.characters[row] < LEAST else "common_phrases"
