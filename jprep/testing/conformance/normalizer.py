"""Conformance tests for normalizers.

A step is tested by a subclass:

    class TestMyNormalizer(NormalizerSuite):
        step = MyNormalizer
        pairs = (("ｶﾅ", "カナ"),)
"""

from __future__ import annotations

from typing import ClassVar

from jprep.testing.conformance.step import MARKS, TEXTS, StepSuite


class NormalizerSuite(StepSuite):
    """Subclass it with `step` and `pairs`.

    Attributes:
        pairs: texts and their normalized forms; at least one differs.
    """

    pairs: ClassVar[tuple[tuple[str, str], ...]]

    def test_normalizes(self) -> None:
        """The samples have their normalized forms."""
        step, pairs = self.make(), self.samples("pairs", 'pairs = (("ｶﾅ", "カナ"),)')
        assert any(before != after for before, after in pairs), "no sample in `pairs` changes: add one that does"
        assert [step.apply(before) for before, _ in pairs] == [after for _, after in pairs]

    def test_is_deterministic(self) -> None:
        """The same text gives the same result from the same step, from a new one, and in another order."""
        step = self.make()
        first = [step.apply(text) for text in TEXTS]
        assert [step.apply(text) for text in reversed(TEXTS)] == first[::-1]
        assert [self.make().apply(text) for text in TEXTS] == first

    def test_takes_each_line_by_itself(self) -> None:
        """A line's result does not depend on its neighbours, and lines stay lines."""
        step = self.make()
        text = "\n".join(TEXTS)
        assert step.apply(text) == "\n".join(step.apply(line) for line in text.split("\n"))

    def test_brings_in_no_marks(self) -> None:
        """U+001E and U+001F are jprep's own."""
        step = self.make()
        assert not any(MARKS & set(map(ord, step.apply(text))) for text in TEXTS)

    def test_counts_what_it_changes(self) -> None:
        """A change leaves a count; where nothing changes, nothing is counted."""
        for text in (*TEXTS, *(before for before, _ in getattr(self, "pairs", ()))):
            step = self.make()
            changed = step.apply(text) != text
            assert changed == (step.tally.total() > 0), text
