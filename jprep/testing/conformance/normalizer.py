"""What every normaliser must do.

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
        pairs: texts, and what they must become.
    """

    pairs: ClassVar[tuple[tuple[str, str], ...]] = ()

    def test_normalizes(self) -> None:
        """The samples become what they should."""
        step = self.make()
        assert [step.apply(before) for before, _ in self.pairs] == [after for _, after in self.pairs]

    def test_takes_each_line_by_itself(self) -> None:
        """What is done to a line does not depend on its neighbours, and lines stay lines."""
        step = self.make()
        text = "\n".join(TEXTS)
        assert step.apply(text) == "\n".join(step.apply(line) for line in text.split("\n"))

    def test_brings_in_no_marks(self) -> None:
        """U+001E and U+001F are jprep's own."""
        step = self.make()
        assert not any(MARKS & set(map(ord, step.apply(text))) for text in TEXTS)

    def test_counts_what_it_changes(self) -> None:
        """A change leaves a count; where nothing changes, nothing is counted."""
        for text in TEXTS:
            step = self.make()
            changed = step.apply(text) != text
            assert changed == (step.tally.total() > 0), text
