"""What a corpus is filtered by, and the steps that it names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from jprep.corpus.config import CorpusConfig, StepRef, make_step
from jprep.corpus.originals.rebuilt_steps import rebuild
from jprep.corpus.originals.records import Reason, Unavailable
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.columns import check_columns, describe_signals
from jprep.corpus.signals.per_line import LineValues, make_signals, of_documents, of_lines
from jprep.corpus.step import Filter, Signal, Step, describe_step
from jprep.corpus.store import Manifest
from jprep.errors import ConfigError

_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*")
_LIMITS = {"<=": "max", ">=": "min", "<": "below", ">": "above"}


class FilterRequest(msgspec.Struct, frozen=True):
    """What a corpus is filtered by.

    Attributes:
        filters: filters of all sources without filters of their own.
        source_filters: filters of single sources, by name.
        signals: signals to keep besides those that the corpus has.
        line_signals: signals of lines to keep besides those that the corpus has.
    """

    filters: list[StepRef] = []
    source_filters: dict[str, list[StepRef]] = {}
    signals: list[StepRef] = []
    line_signals: list[StepRef] = []

    @classmethod
    def of_recipe(cls, corpus: CorpusConfig) -> FilterRequest:
        """Return the filters and signals of a recipe's section `[corpus]`."""
        own = {source.name: source.filters for source in corpus.sources if source.filters is not None}
        return cls(corpus.filters, own, corpus.signals, corpus.line_signals)


def parse_condition(text: str) -> dict[str, Any]:
    """Return the filter that keeps documents for which a condition is true, e.g. `hiragana_share>=0.2`.

    Raises:
        ConfigError: the text is not COLUMN, one of <= >= < >, and a number.
    """
    try:
        if found := _CONDITION.fullmatch(text):
            return {"signal": found[1], _LIMITS[found[2]]: float(found[3])}
    except ValueError:
        pass  # such as 1.2.3
    fix = "a column, one of <= >= < >, and a number: 'hiragana_share>=0.2'"
    raise ConfigError(f"cannot read the condition {text!r}", fix=fix)


class KeptSignal(Signal):
    """A signal whose columns a corpus has kept; it needs neither its library nor its model, unless a text changes.

    Args:
        described: its entry in the manifest.
    """

    name = "kept"
    version = 1

    def __init__(self, described: dict[str, Any]) -> None:
        super().__init__()
        self._described = {key: value for key, value in described.items() if key != "columns"}
        self._columns: tuple[str, ...] = tuple(described["columns"])
        self.name, self.version = described["name"], described["version"]  # type: ignore[misc]
        self.config = described["config"]
        self._given: Signal | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what was measured."""
        return self._columns

    def provenance(self) -> dict[str, str]:
        """Return what the columns depended on."""
        return dict(self._described["provenance"])

    def measure(self, batch: TextBatch) -> Any:
        """Measure texts that have changed since.

        Raises:
            ConfigError: the signal cannot be computed here.
        """
        signal = self._signal
        if isinstance(signal, Unavailable):
            what = f"lines are judged or dropped, so a kept signal must be measured again: {signal.what}"
            recipe = "name the signal with its model in a recipe, and use `jprep corpus filter --recipe`"
            raise ConfigError(what, fix=signal.fix if signal.reason is Reason.STEP_CHANGED else recipe)
        columns = signal.measure(batch)
        self.tally.update(signal.tally)
        signal.tally.clear()
        return columns

    @property
    def measurable(self) -> bool:
        """Whether texts can be measured here: not without the path of a model or list, which no manifest has."""
        return not isinstance(self._signal, Unavailable)

    @property
    def _signal(self) -> Any:
        """The signal itself, or `Unavailable`."""
        return self._given or self._rebuilt

    def measure_by(self, signal: Signal) -> None:
        """Receive the same signal with the options that a manifest lacks, such as the path of a model."""
        self._given = signal

    def provide(self, batch: TextBatch) -> None:
        """Give a batch the columns of its documents."""
        import numpy as np

        columns = {name: np.array([doc.signals[name] for doc in batch.docs], np.float64) for name in self._columns}
        batch.provide(self, columns)

    def provide_lines(self, batch: TextBatch) -> None:
        """Give the lines of a batch the columns of its documents' lines."""
        import numpy as np

        columns = {
            name: np.array([value for doc in batch.docs for value in doc.line_signals[name]], np.float64)
            for name in self._columns
        }
        batch.per_line.provide(self, columns)

    @cached_property
    def _rebuilt(self) -> Any:
        return rebuild("signal", self._described)


class RefilterSteps:
    """The steps of one process.

    Args:
        request: what to filter by.
        manifest: the manifest of the corpus.
    """

    def __init__(self, request: FilterRequest, manifest: Manifest) -> None:
        self._kept = [KeptSignal(each) for each in manifest.described_signals]
        self._kept_lines = [KeptSignal(each) for each in manifest.described_line_signals]
        self._made = make_signals(request.signals, request.line_signals)
        self.signals: Sequence[Signal] = (
            *_with_kept(self._kept, of_documents(self._made)),
            *map(LineValues, _with_kept(self._kept_lines, of_lines(self._made))),
        )
        check_columns(self.signals)
        self._filters = {
            source["name"]: self._make(request.source_filters.get(source["name"], request.filters))
            for source in manifest.sources
        }

    def _make(self, refs: Sequence[StepRef]) -> list[Filter]:
        filters: list[Filter] = [make_step("filter", ref) for ref in refs]
        for step in filters:
            step.use_signals(self.signals)
        return filters

    def provide(self, batch: TextBatch) -> None:
        """Give a batch what the corpus keeps of its documents and lines."""
        for signal in self._kept:
            signal.provide(batch)
        for signal in self._kept_lines:
            signal.provide_lines(batch)

    def filters(self, source: str) -> list[Filter]:
        """Return the filters of a source."""
        return self._filters[source]

    def describe(self) -> dict[str, Any]:
        """Return the steps for the fingerprint."""
        sources = [
            {"name": name, "filters": [describe_step(step) for step in steps]} for name, steps in self._filters.items()
        ]
        return {"sources": sources} | describe_signals(self.signals)

    def labels(self) -> list[str]:
        """Return the names of the filters, each once, in order."""
        return list(dict.fromkeys(step.label for steps in self._filters.values() for step in steps))

    def close(self) -> None:
        """Close all steps."""
        for step in self.all():
            step.close()

    def all(self) -> list[Step]:
        """Return all steps."""
        return [*(step for steps in self._filters.values() for step in steps), *self._made]


def _with_kept(kept: Sequence[KeptSignal], made: Sequence[Signal]) -> list[Signal]:
    """Return the kept signals and those of the request that are not kept; a kept one can be measured like its equal."""
    by_key = {signal.key: signal for signal in kept}
    for signal in made:
        if signal.key in by_key:
            by_key[signal.key].measure_by(signal)
    return [*kept, *(signal for signal in made if signal.key not in by_key)]
