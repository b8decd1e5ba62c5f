"""Conformance tests for signals.

A step is tested by a subclass:

    class TestMySignal(SignalSuite):
        step = MySignal
        measured = {"私は本を読む。": {"my_share": 0.5}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.testing.conformance.step import TEXTS, StepSuite, is_identifier

HOSTILE = ("\ud800", "\x00\x1b[31m", "\u202e" * 50, "a\u0301" * 200, "。" * 3000, "1" * 3000, " \t\u3000", "\n" * 300)
"""Texts that no signal may fail on, besides `jprep.testing.conformance.step.TEXTS`."""


def batch_of(texts: Sequence[str]) -> TextBatch:
    """Return a batch of documents with some texts, not split into sentences."""
    return TextBatch([Document(f"sample:{n}", "sample", "", "", text, text) for n, text in enumerate(texts)])


class SignalSuite(StepSuite):
    """Subclass it with `step` and `measured`.

    Attributes:
        measured: the values of some columns by text; NaN where a column does not apply.
    """

    measured: ClassVar[Mapping[str, Mapping[str, float]]]

    def _measure(self, texts: Sequence[str]) -> dict[str, list[float]]:
        signal = self.make()
        try:
            return {name: values.tolist() for name, values in signal.measure(batch_of(texts)).items()}
        finally:
            signal.close()

    def _texts(self) -> list[str]:
        return [*TEXTS, *HOSTILE, *getattr(self, "measured", ())]

    def test_measures_its_samples(self) -> None:
        """The values of the samples are the expected ones, to 32 bits."""
        for text, expected in self.samples("measured", 'measured = {"本を読む。": {"my_share": 0.5}}').items():
            found = self._measure([text])
            values = {name: found[name][0] for name in expected}
            np.testing.assert_array_equal(
                np.array([*values.values()], np.float32), np.array([*expected.values()], np.float32), err_msg=repr(text)
            )

    def test_columns_are_identifiers_that_are_measured(self) -> None:
        """The columns are known before anything is measured, and there are values for these and no others."""
        columns = self.make().columns
        assert columns
        assert all(is_identifier(column) for column in columns)
        assert len({*columns}) == len(columns)
        assert list(self._measure(["本を読む。"])) == list(columns)

    def test_there_is_a_value_for_each_document(self) -> None:
        """Every column has one 64-bit or 32-bit number for each document."""
        signal = self.make()
        for texts in ([], [""], self._texts()):
            for values in signal.measure(batch_of(texts)).values():
                assert values.shape == (len(texts),)
                assert values.dtype in (np.float64, np.float32)
        signal.close()

    def test_a_document_is_measured_by_itself(self) -> None:
        """A value does not depend on the other documents of a batch, nor on their order."""
        texts = self._texts()
        together, reversed_ = self._measure(texts), self._measure(texts[::-1])
        alone = [self._measure([text]) for text in texts]
        for column, values in together.items():
            np.testing.assert_array_equal(_stored(values), _stored(reversed_[column][::-1]), err_msg=column)
            np.testing.assert_array_equal(_stored(values), _stored([each[column][0] for each in alone]), err_msg=column)

    def test_another_instance_measures_the_same(self) -> None:
        """Every process makes its own step, which is described and measures as the others do."""
        assert self.make().key == self.make().key
        np.testing.assert_array_equal(*(_stored([*self._measure(self._texts()).values()]) for _ in range(2)))

    def test_has_no_memory(self) -> None:
        """A value does not depend on the batches before: tasks are measured separately, in any order."""
        texts, signal = self._texts(), self.make()
        try:
            measured = [signal.measure(batch_of(texts)) for _ in range(2)]
        finally:
            signal.close()
        for column, values in self._measure(texts).items():
            for again in measured:
                np.testing.assert_array_equal(_stored(again[column]), _stored(values), err_msg=column)

    def test_does_not_change_documents(self) -> None:
        """A signal only measures."""
        batch = batch_of(self._texts())
        before = deepcopy(batch.docs)
        self.make().measure(batch)
        assert batch.docs == before


def _stored(values: Any) -> Any:
    """Return values as a corpus stores them."""
    return np.array(values, np.float32)
