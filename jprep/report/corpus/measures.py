"""Measure sampled documents: kinds of characters, and what the filters of the recipe measure, with their thresholds."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from jprep.corpus.document import Document
from jprep.corpus.filters.characters import CharacterKinds, count_kinds
from jprep.corpus.originals import Unavailable
from jprep.corpus.originals.rebuilt_steps import rebuild
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Filter, Threshold

if TYPE_CHECKING:
    from jprep.corpus.store import Manifest

SCRIPTS = ("kana", "kanji", "latin", "digit", "punctuation", "symbol", "other")
"""Kinds of characters; see `CharacterKinds`."""
_SIGNAL = "signal"


class Measured(NamedTuple):
    """The values of one measure on the sample.

    Attributes:
        step: name of the filter; `signal` for a signal that the corpus keeps and no filter judges.
        name: name of the measure.
        values: a value for each document of the sample that has one.
        thresholds: the limits of the filter, each once, where the sources differ.
    """

    step: str
    name: str
    values: array[float]
    thresholds: list[Threshold]


class SampleMeasures:
    """Collects what is measured on the sampled documents of a corpus.

    Args:
        manifest: the manifest of the corpus, whose filters measure.

    Attributes:
        documents: number of documents measured.
        characters: number of characters by kind, of all of them.
        shares: share of each kind of character, one value for each document.
        problems: why a filter cannot measure, one sentence each.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.documents = 0
        self.characters: Counter[str] = Counter()
        self.shares: dict[str, array[float]] = {name: array("d") for name in SCRIPTS}
        self.problems: list[str] = []
        self._values: dict[tuple[str, str], array[float]] = defaultdict(lambda: array("d"))
        self._made: dict[str, Filter | None] = {}
        self._filters: dict[str, list[Filter]] = {
            source["name"]: [step for each in source["filters"] if (step := self._make(each))]
            for source in manifest.made_from["documents"]["sources"]
        }

    @property
    def needs_words(self) -> bool:
        """Whether a filter may measure sentences, which only the column `words` tells."""
        steps = [step for each in self._filters.values() for step in each]
        limits = [step.thresholds().get("sentences") for step in steps]
        return any(step.signals() for step in steps) or any(limit and limit != (None, None) for limit in limits)

    def _make(self, described: dict[str, Any]) -> Filter | None:
        key = repr(described)
        if key not in self._made:
            step = rebuild("filter", described)
            self._made[key] = None if isinstance(step, Unavailable) else step
            if isinstance(step, Unavailable):
                self.problems.append(f"The documents are not measured by a filter: {step.what}.")
        return self._made[key]

    def add(self, docs: Sequence[Document]) -> None:
        """Measure documents."""
        for source, own in groupby(docs, lambda doc: doc.source):
            self._add_to(self._filters.get(source, []), list(own))

    def _add_to(self, steps: list[Filter], docs: list[Document]) -> None:
        batch = TextBatch(docs)
        measured = [step.measure_all(batch) for step in steps]
        for index, (doc, kinds) in enumerate(zip(docs, count_kinds(batch), strict=True)):
            self.documents += 1
            self._add_scripts(kinds)
            for step, measures in zip(steps, measured, strict=True):
                for name, value in measures[index].items():
                    self._values[step.label, name].append(value)
            for name, value in doc.signals.items():
                if not math.isnan(value):
                    self._values[_SIGNAL, name].append(value)

    def _add_scripts(self, counts: CharacterKinds) -> None:
        for name in SCRIPTS:
            count: int = getattr(counts, name)
            self.characters[name] += count
            if counts.visible:
                self.shares[name].append(count / counts.visible)

    def measured(self) -> list[Measured]:
        """Return what the filters measured, in the order of the filters."""
        limits: dict[tuple[str, str], list[Threshold]] = defaultdict(list)
        for steps in self._filters.values():
            for step in steps:
                for name, limit in step.thresholds().items():
                    if limit not in limits[step.label, name]:
                        limits[step.label, name].append(limit)
        judged = {name for step, name in self._values if step != _SIGNAL}
        keys = [key for key in sorted(self._values, key=self._order) if key[0] != _SIGNAL or key[1] not in judged]
        return [Measured(*key, self._values[key], limits.get(key, [])) for key in keys]

    def _order(self, key: tuple[str, str]) -> int:
        names = [step.label for step in self._made.values() if step]
        return names.index(key[0]) if key[0] in names else len(names)
