"""Construct the steps that a manifest describes, and apply them to one record at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from jprep.corpus.config import make_described_step
from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.originals.named_steps import named_step
from jprep.corpus.originals.records import FilterResult, Original, Reason, Unavailable
from jprep.corpus.processing import drop_lines, nonblank_lines, reject, replace_text
from jprep.corpus.step import Filter, Normalizer, Splitter, Step, provenance_of
from jprep.errors import JprepError


def rebuild(kind: str, described: Mapping[str, Any]) -> Any:
    """Return a step as a manifest describes it, or `Unavailable`.

    Options that depend on the machine are not recorded. They are those of a recipe of this process that has the step,
    or else have their defaults.

    Args:
        kind: kind of the step, e.g. `reader`.
        described: its name, version, config and provenance.
    """
    label = f"the {kind} {described['name']}"
    try:
        if named := named_step(kind, described):
            return named
        step: Step = make_described_step(kind, described)
        signals = [rebuild("signal", each) for each in described.get("signals", [])]
        if missing := next((each for each in signals if isinstance(each, Unavailable)), None):
            return missing
        if isinstance(step, Filter):
            step.use_signals(signals)
        provenance = provenance_of(step)
    except JprepError as error:
        return Unavailable(Reason.STEP_MISSING, f"{label} cannot be used here: {error.what}", error.fix)
    if step.version != described["version"]:
        versions = f"version {step.version} here, and the corpus was built with version {described['version']}"
        return Unavailable(Reason.STEP_CHANGED, f"{label} has {versions}", "build the corpus again with this jprep")
    if provenance != described.get("provenance", {}):
        what = f"{label} uses other tables or libraries here than when the corpus was built"
        return Unavailable(Reason.STEP_CHANGED, what, "build the corpus again with this jprep")
    return step


class SourceSteps:
    """The steps between the reader of a source and deduplication.

    Args:
        made_from: `made_from["documents"]` of the manifest.
        source: the source's entry in it.
    """

    def __init__(self, made_from: Mapping[str, Any], source: Mapping[str, Any]) -> None:
        self._made_from, self._source = made_from, source

    @cached_property
    def _steps(self) -> tuple[list[Normalizer], Splitter, list[Filter]] | Unavailable:
        made_from = self._made_from
        own = self._source.get("normalizers", made_from["normalizers"])
        normalizers = [rebuild("normalizer", step) for step in own]
        splitter = rebuild("splitter", made_from["splitter"])
        filters = [rebuild("filter", step) for step in self._source["filters"]]
        for step in (*normalizers, splitter, *filters):
            if isinstance(step, Unavailable):
                return step
        return normalizers, splitter, filters

    def trace(self, item: Document | Reject, record: str, limit: int) -> Original:
        """Return the way of one record.

        Args:
            item: what the reader made of it.
            record: the record as it stands in the input.
            limit: maximum characters of each text in the result.
        """
        if isinstance(item, Reject):
            name = self._source["name"]
            return Original(item.id, name, item.title, "", record[:limit], len(record), reject=item)
        common = (item.id, item.source, item.title, item.url, record[:limit], len(record), item.text[:limit])
        if isinstance(self._steps, Unavailable):
            return Original(*common, problem=self._steps.what)
        normalizers, splitter, filters = self._steps
        normalized = () if self._source.get("as_is") else _normalize(item, normalizers, limit)
        if not item.text:
            return Original(*common, normalized=normalized, reject=reject(item, "normalizer", "empty"))
        item.words = splitter.mark(item.text)
        results, rejected = _filter(item, filters, splitter)
        text, words = item.text[:limit], item.words[:limit]
        return Original(*common, normalized, text, words, results, rejected)

    def close(self) -> None:
        """Close the steps."""
        steps = self.__dict__.pop("_steps", None)
        if isinstance(steps, tuple):
            for step in (*steps[0], steps[1], *steps[2]):
                step.close()


def _normalize(doc: Document, normalizers: Sequence[Normalizer], limit: int) -> tuple[tuple[str, str], ...]:
    """Normalize a document in place; return the text after each normalizer."""
    text, found = doc.text, list[tuple[str, str]]()
    for normalizer in normalizers:
        text = normalizer.apply(text)
        found.append((normalizer.name, text[:limit]))
    doc.text = "\n".join(nonblank_lines(text.split("\n")))
    return tuple(found)


def _filter(
    doc: Document, filters: Sequence[Filter], splitter: Splitter
) -> tuple[tuple[FilterResult, ...], Reject | None]:
    """Apply the filters; drop lines and replace the text in place up to the first filter that drops the document."""
    results, rejected = list[FilterResult](), None
    for step in filters:
        verdict = step.judge(doc)
        measured = (dict(step.measure(doc)), dict(step.thresholds()))
        results.append(FilterResult(step.label, verdict.keep, verdict.reason, verdict.lines, *measured))
        if rejected:
            continue
        excerpt = reject(doc, f"filter.{step.label}", verdict.reason)
        if verdict.lines:
            drop_lines(doc, verdict.lines, step.label, Tally())
        if verdict.keep and verdict.text is not None:
            replace_text(doc, verdict.text, splitter)
        if not verdict.keep or not doc.text:
            rejected = excerpt if not verdict.keep else reject(doc, f"filter.{step.label}", verdict.reason)
    return tuple(results), rejected
