"""Conformance tests for splitters.

A step is tested by a subclass:

    class TestMySplitter(SplitterSuite):
        step = MySplitter
        pairs = (("一。二。", ["一。", "二。"]),)
"""

from __future__ import annotations

from typing import ClassVar

from jprep.corpus.document import SENTENCE, sentences
from jprep.testing.conformance.step import TEXTS, StepSuite


class SplitterSuite(StepSuite):
    """Subclass it with `step` and `pairs`.

    Attributes:
        pairs: texts and their sentences.
    """

    pairs: ClassVar[tuple[tuple[str, list[str]], ...]]

    def test_splits(self) -> None:
        """The samples are split as expected."""
        step, pairs = self.make(), self.samples("pairs", 'pairs = (("一。二。", ["一。", "二。"]),)')
        assert [list(sentences(step.mark(text))) for text, _ in pairs] == [parts for _, parts in pairs]

    def test_is_deterministic(self) -> None:
        """The same text gives the same marks from the same step, from a new one, and in another order."""
        step = self.make()
        first = [step.mark(text) for text in TEXTS]
        assert [step.mark(text) for text in reversed(TEXTS)] == first[::-1]
        assert [self.make().mark(text) for text in TEXTS] == first

    def test_changes_nothing_else(self) -> None:
        """Removing the marks gives the text."""
        step = self.make()
        assert [step.mark(text).replace(SENTENCE, "") for text in TEXTS] == list(TEXTS)

    def test_marks_stand_between_sentences(self) -> None:
        """No sentence is empty: no mark at the edge of a paragraph, no adjacent marks."""
        step = self.make()
        assert all(sentence for text in TEXTS for sentence in sentences(step.mark(text)))

    def test_takes_each_paragraph_by_itself(self) -> None:
        """An open bracket in one paragraph does not affect the next."""
        step = self.make()
        text = "\n".join(TEXTS)
        assert step.mark(text) == "\n".join(step.mark(paragraph) for paragraph in text.split("\n"))

    def test_marks_many_texts_as_each(self) -> None:
        """`mark_all` gives for each text what `mark` gives."""
        step = self.make()
        assert step.mark_all(TEXTS) == [step.mark(text) for text in TEXTS]
