"""The way from the records of the input to the documents of the corpus: what each step dropped, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jprep.corpus.reasons import explain, filter_label, step_options
from jprep.corpus.store import Manifest

# The keys of what a corpus is made from, one of which has a value if a kind of deduplication is used.
_DEDUP_KEYS = {
    "documents": ("documents",),
    "near": ("near",),
    "lines": ("line_min_chars", "paragraphs"),
    "sentences": ("sentences",),
}
_DEDUP_TITLES = {
    "documents": "duplicate documents",
    "near": "near-duplicates",
    "lines": "repeated paragraphs",
    "sentences": "repeated sentences",
}


class Reason(NamedTuple):
    """Why a step dropped documents.

    Attributes:
        key: `step/reason`, as in the manifest.
        name: the reason.
        phrase: what it means, or "".
        documents: number of documents.
    """

    key: str
    name: str
    phrase: str
    documents: int


class FunnelStep(NamedTuple):
    """A step.

    Attributes:
        name: e.g. `filter.length`.
        title: its name in words.
        before: documents that reach it.
        dropped: documents that it dropped.
        reasons: why, the most frequent first.
        lines: paragraphs that it dropped from documents that it kept.
        sentences: sentences, likewise.
        characters: characters of these paragraphs and sentences.
    """

    name: str
    title: str
    before: int
    dropped: int
    reasons: list[Reason]
    lines: int
    sentences: int
    characters: int

    @property
    def after(self) -> int:
        """Documents that pass the step."""
        return self.before - self.dropped


def funnel(manifest: Manifest) -> list[FunnelStep]:
    """Return the steps of a corpus in their order; those that dropped nothing, too."""
    dropped = _by_step(manifest.rejects)
    before = manifest.totals.get("documents", 0) + sum(manifest.rejects.values())
    steps = list[FunnelStep]()
    for name in _names(manifest, dropped):
        reasons = _reasons(name, dropped.get(name, {}), step_options(manifest.made_from, name))
        parts = [
            sum(manifest.counts.get(f"{name}.{what}_{done}", 0) for done in ("dropped", "cut"))
            for what in ("lines", "sentences", "characters")
        ]
        count = sum(reason.documents for reason in reasons)
        steps.append(FunnelStep(name, _title(name), before, count, reasons, *parts))
        before -= count
    return steps


def _by_step(rejects: Mapping[str, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for key, count in rejects.items():
        step, _, reason = key.partition("/")
        found.setdefault(step, {})[reason] = count
    return found


def _names(manifest: Manifest, dropped: Iterable[str]) -> list[str]:
    """Return the names of all steps that can drop documents, in the order in which they work."""
    read = manifest.made_from["documents"]
    readers = [f"reader.{source['reader']['name']}" for source in read["sources"]]
    later = [name for filtered in manifest.made_from.get("filtered", []) for name in _filters(filtered)]
    tests = [f"decontaminate.{each['name']}" for each in read.get("decontaminate", {}).get("test_sets", [])]
    dedup = read.get("dedup", {})
    kinds = [kind for kind, keys in _DEDUP_KEYS.items() if any(map(dedup.get, keys))]
    known = [*readers, "normalizer", *_filters(read), *tests, *(f"dedup.{kind}" for kind in kinds)]
    return list(dict.fromkeys([*known, *later, *dropped]))


def _filters(made_from: Mapping[str, Any]) -> list[str]:
    """Return the names of the filters of all sources."""
    longest_first = sorted(made_from["sources"], key=lambda source: -len(source["filters"]))
    return [f"filter.{filter_label(step)}" for source in longest_first for step in source["filters"]]


def _reasons(step: str, counts: Mapping[str, int], options: Mapping[str, Sequence[Any]]) -> list[Reason]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Reason(f"{step}/{name}", name, explain(step, name, options), count) for name, count in ordered]


def _title(name: str) -> str:
    kind, _, own = name.partition(".")
    if kind == "dedup":
        return _DEDUP_TITLES.get(own, name)
    return {"normalizer": "normalize"}.get(kind, {"reader": "read", "filter": "filter"}.get(kind, kind) + f": {own}")
