"""Conformance tests for filters.

A step is tested by a subclass:

    class TestMyFilter(FilterSuite):
        step = MyFilter
        kept = ("これは残る文書です。",)
        dropped = ("%%%%",)
"""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

from jprep.corpus.document import Document, Verdict
from jprep.testing.conformance.step import TEXTS, StepSuite, is_identifier


def document(text: str) -> Document:
    """Return a document with the given text, not split into sentences."""
    return Document(id="sample:1", source="sample", title="", url="", text=text, words=text)


def _is_within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


class FilterSuite(StepSuite):
    """Subclass it with `step`, `kept`, and `dropped` or `trimmed`.

    Attributes:
        kept: texts that must be kept with all their lines.
        dropped: texts that must be dropped.
        trimmed: for a filter that drops lines: texts, and what must remain of each.
    """

    kept: ClassVar[tuple[str, ...]]
    dropped: ClassVar[tuple[str, ...]]
    trimmed: ClassVar[tuple[tuple[str, str], ...]]

    def _judge(self, text: str) -> Verdict:
        verdict: Verdict = self.make().judge(document(text))
        return verdict

    def _left(self, text: str) -> str:
        """Return what remains of a document that is kept."""
        verdict = self._judge(text)
        assert verdict.keep, f"dropped as a whole: {text!r}"
        return "\n".join(line for number, line in enumerate(text.split("\n")) if number not in verdict.lines)

    def test_keeps_its_samples(self) -> None:
        """Documents in `kept` are kept unchanged."""
        for text in self.samples("kept", 'kept = ("これは残る文書です。",)'):
            assert self._left(text) == text

    def test_drops_its_samples(self) -> None:
        """Documents in `dropped` are dropped; documents in `trimmed` lose the expected lines."""
        if trimmed := getattr(self, "trimmed", ()):
            assert [self._left(text) for text, _ in trimmed] == [left for _, left in trimmed]
        if dropped := getattr(self, "dropped", ()) if trimmed else self.samples("dropped", 'dropped = ("%%%%",)'):
            assert [text for text in dropped if self._judge(text).keep] == []

    def test_takes_any_text(self) -> None:
        """Every text gets a verdict; a drop has a reason, and dropped lines are lines of the document, in order."""
        own = (*getattr(self, "kept", ()), *getattr(self, "dropped", ()))
        for text in (*TEXTS, *own, *(text for text, _ in getattr(self, "trimmed", ()))):
            verdict = self._judge(text)
            assert is_identifier(verdict.reason) or (verdict.keep and not verdict.lines and not verdict.reason), text
            assert list(verdict.lines) == sorted(set(verdict.lines) & set(range(text.count("\n") + 1))), text
            assert verdict.keep or not verdict.lines, text

    def test_measures_explain_verdicts(self) -> None:
        """A filter with thresholds drops a document exactly when one of its measures lies outside its threshold."""
        step = self.make()
        thresholds = step.thresholds()
        for text in (*TEXTS, *getattr(self, "kept", ()), *getattr(self, "dropped", ())) if thresholds else ():
            measures = step.measure(document(text))
            assert measures.keys() <= thresholds.keys(), text
            outside = [name for name, value in measures.items() if not _is_within(value, *thresholds[name])]
            assert bool(outside) != step.judge(document(text)).keep, f"{outside} {text!r}"

    def test_does_not_change_the_document(self) -> None:
        """A filter does not modify documents."""
        for text in TEXTS:
            doc = document(text)
            before = deepcopy(doc)
            self.make().judge(doc)
            assert doc == before

    def test_has_no_memory(self) -> None:
        """A verdict does not depend on the documents before it: shards are judged separately."""
        step = self.make()
        verdicts = [step.judge(document(text)) for text in (*TEXTS, *reversed(TEXTS))]
        assert verdicts == [self._judge(text) for text in (*TEXTS, *reversed(TEXTS))]
