"""Signals of which a corpus keeps the values of every line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from jprep.corpus.config import StepRef, make_step
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Signal, Unit, provenance_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class LineValues(Signal):
    """Measures each line of a text as if it were a document.

    Args:
        signal: what is measured; this one has its name, version, options and counts.
    """

    per: ClassVar[Unit] = "line"

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.name, self.version, self.local = signal.name, signal.version, signal.local  # type: ignore[misc]
        self.config, self.tally = signal.config, signal.tally

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return self.signal.columns

    def provenance(self) -> dict[str, str]:
        """Return what the values depend on."""
        return provenance_of(self.signal)

    @cached_property
    def key(self) -> str:
        """Identifies what is measured; the same signal of whole documents is another one."""
        return f"{self.per} {self.signal.key}"

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all lines of a batch, each of shape [lines]."""
        return batch.per_line.measured(self.signal)

    def close(self) -> None:
        """Close the signal."""
        self.signal.close()


def make_signals(documents: Sequence[StepRef], lines: Sequence[StepRef]) -> list[Signal]:
    """Return the signals that a corpus keeps of documents and of lines, from references to steps.

    Raises:
        ConfigError: see `make_step`.
    """
    made: list[Signal] = [make_step("signal", ref) for ref in documents]
    return [*made, *(LineValues(make_step("signal", ref)) for ref in lines)]


def of_documents(signals: Sequence[Signal]) -> list[Signal]:
    """Return the signals that measure documents."""
    return [signal for signal in signals if not isinstance(signal, LineValues)]


def of_lines(signals: Sequence[Signal]) -> list[Signal]:
    """Return what measures lines."""
    return [signal.signal for signal in signals if isinstance(signal, LineValues)]
