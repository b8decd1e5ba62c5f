"""What every filter must do.

A step is tested by a subclass:

    class TestMyFilter(FilterSuite):
        step = MyFilter
        kept = ("これは残る文書です。",)
        dropped = ("%%%%",)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from jprep.corpus.document import Document, Verdict
from jprep.testing.conformance.step import TEXTS, StepSuite, one_word


def document(text: str) -> Document:
    """A document of that text, not split."""
    return Document(id="sample:1", source="sample", title="", url="", text=text, words=text)


class FilterSuite(StepSuite):
    """Subclass it with `step`, `kept` and `dropped`.

    Attributes:
        kept: texts that must stay.
        dropped: texts that must go.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    dropped: ClassVar[tuple[str, ...]] = ()

    def _judge(self, text: str) -> Verdict:
        verdict: Verdict = self.make().judge(document(text))
        return verdict

    def test_keeps_and_drops(self) -> None:
        """The samples are judged as they should be."""
        assert [text for text in self.kept if not self._judge(text).keep] == []
        assert [text for text in self.dropped if self._judge(text).keep] == []

    def test_takes_any_text(self) -> None:
        """A verdict comes for every text; what is dropped has a reason, lines are those of the document, in order."""
        for text in (*TEXTS, *self.kept, *self.dropped):
            verdict = self._judge(text)
            assert one_word(verdict.reason) or (verdict.keep and not verdict.lines and not verdict.reason), text
            assert list(verdict.lines) == sorted(set(verdict.lines) & set(range(text.count("\n") + 1))), text
            assert verdict.keep or not verdict.lines, text

    def test_only_looks(self) -> None:
        """The document is not altered."""
        for text in TEXTS:
            doc = document(text)
            before = msgspec.structs.replace(doc)
            self.make().judge(doc)
            assert doc == before

    def test_has_no_memory(self) -> None:
        """A verdict does not depend on the documents before: shards are judged apart."""
        step = self.make()
        verdicts = [step.judge(document(text)) for text in (*TEXTS, *reversed(TEXTS))]
        assert verdicts == [self._judge(text) for text in (*TEXTS, *reversed(TEXTS))]
