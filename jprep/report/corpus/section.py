"""The section of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jprep.corpus.store import Manifest, read_manifest
from jprep.report.corpus import histograms, provenance
from jprep.report.corpus.changes import changes
from jprep.report.corpus.document_scan import EXCERPT, DocumentScan, scan_documents
from jprep.report.corpus.funnel import FunnelStep, Reason, funnel
from jprep.report.corpus.histograms import Plot
from jprep.report.corpus.masking import NOTE, Masking
from jprep.report.corpus.pages import SHOWN, Traced, changed_pairs, trace_documents
from jprep.report.corpus.reject_scan import EXAMPLES, RejectScan, scan_rejects
from jprep.report.corpus.replacements import Replacement, replacements
from jprep.report.inputs import ReportInput
from jprep.report.section import ReportContext, Section

_GATES = 40  # reasons of which examples are shown
_PARTS = (
    ("funnel", "From input to corpus"),
    ("sources", "Sources"),
    ("lengths", "Lengths"),
    ("characters", "Characters"),
    ("filters", "Filters"),
    ("changes", "Changed characters"),
    ("duplicates", "Duplicates"),
    ("dropped", "Dropped documents"),
    ("kept", "Kept documents"),
    ("pages", "Pages side by side"),
    ("provenance", "Provenance"),
)


class _Facts(NamedTuple):
    """What is known of a corpus."""

    manifest: Manifest
    steps: list[FunnelStep]
    gates: list[Reason]
    rejects: RejectScan
    scan: DocumentScan
    traced: Traced
    replaced: list[Replacement]
    masked: bool


class _Plots(NamedTuple):
    sources: Plot
    length: Plot
    scripts: list[Plot]
    measures: list[Plot]


def build(inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
    """Return a section for each corpus.

    Raises:
        DamagedError: a file of a corpus is missing or damaged.
    """
    return [_section(each, context, f" ({each.label})" if len(inputs) > 1 else "") for each in inputs]


def _section(given: ReportInput, context: ReportContext, which: str) -> Section:
    """Return a section; `which` distinguishes the titles of several."""
    facts = _gather(given, context)
    plots, manifest = _draw(facts), facts.manifest
    return Section(
        title=f"Corpus {manifest.name}{which}",
        kind="corpus",
        template="corpus.html",
        values=_values(given, facts, plots),
        figures=_figures(given, facts, plots),
        highlights={name: manifest.totals.get(name, 0) for name in ("documents", "characters")},
        parts=_PARTS,
        notes=_notes(facts),
    )


def _gather(given: ReportInput, context: ReportContext) -> _Facts:
    manifest = read_manifest(given.path)
    steps = funnel(manifest)
    gates = _gates(steps)
    masking = Masking(manifest)
    rejects = masking.rejects(scan_rejects(given.path, manifest, [reason.key for reason in gates]))
    scan = scan_documents(given.path, manifest)
    traced = trace_documents(given.path, manifest, scan.traceable, context.places, masking)
    replaced = replacements(changed_pairs(traced.originals))
    return _Facts(manifest, steps, gates, rejects, masking.documents(scan), traced, replaced, masking.needed)


def _gates(steps: Sequence[FunnelStep]) -> list[Reason]:
    """Return the reasons whose examples are shown: the most frequent ones, in the order of the steps."""
    reasons = [reason for step in steps for reason in step.reasons]
    most = sorted(reasons, key=lambda reason: -reason.documents)[:_GATES]
    return [reason for reason in reasons if reason in most]


def _draw(facts: _Facts) -> _Plots:
    measured = facts.scan.measures.measured()
    return _Plots(
        histograms.source_plot(facts.scan),
        histograms.length_plot(facts.scan, histograms.length_limits(measured)),
        histograms.script_plots(facts.scan),
        histograms.measure_plots(measured),
    )


def _values(given: ReportInput, facts: _Facts, plots: _Plots) -> dict[str, Any]:
    manifest = facts.manifest
    return facts._asdict() | {
        "label": given.label,
        "totals": _totals(manifest.totals),
        "documents": manifest.totals.get("documents", 0),
        "records": facts.steps[0].before if facts.steps else 0,
        "plots": plots,
        "normalizer_changes": changes(manifest.counts, ("normalizer",)),
        "read_changes": changes(manifest.counts, ("reader", "lines")),
        "duplicates": manifest.rejects.get("dedup.documents/duplicate", 0),
        "sources": provenance.sources(manifest),
        "made_by": provenance.steps(manifest),
        "libraries": provenance.libraries(manifest),
        "page_characters": SHOWN,
    }


def _totals(totals: dict[str, int]) -> dict[str, int | str]:
    """Return the figures at the head of the section."""
    shown = {name: totals[name] for name in ("documents", "sentences", "words", "characters") if totals.get(name)}
    return {"documents": 0} | shown | {"text": _size(totals.get("bytes", 0))}


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"


def _figures(given: ReportInput, facts: _Facts, plots: _Plots) -> dict[str, Any]:
    manifest = facts.manifest
    return {
        "path": given.label,
        "signature": manifest.signature,
        "totals": manifest.totals,
        "funnel": [_step_figures(step) for step in facts.steps],
        "sources": plots.sources.figures,
        "lengths": plots.length.figures,
        "sample": facts.scan.measures.documents,
        "characters": {plot.name: plot.figures for plot in plots.scripts},
        "measures": {plot.name: plot.figures for plot in plots.measures},
        "duplicates": {str(times): texts for times, texts in facts.rejects.times.items()},
        "replacements": [each._asdict() for each in facts.replaced],
        "counts": manifest.counts,
    }


def _step_figures(step: FunnelStep) -> dict[str, Any]:
    counts = {"before": step.before, "dropped": step.dropped, "after": step.after}
    reasons = {reason.name: reason.documents for reason in step.reasons}
    parts = {"lines": step.lines, "sentences": step.sentences, "characters": step.characters}
    return {"step": step.name} | counts | {"reasons": reasons} | parts


def _notes(facts: _Facts) -> list[str]:
    measured, documents = facts.scan.measures.documents, facts.manifest.totals.get("documents", 0)
    reasons = sum(len(step.reasons) for step in facts.steps)
    notes = [*facts.scan.measures.problems, *([NOTE] if facts.masked else [])]
    if measured < documents:
        notes.append(
            f"Kinds of characters and what the filters measure are those of {measured:,} of the {documents:,}"
            " documents, chosen by a hash of their ids. Sources and lengths are those of all documents."
        )
    if reasons > len(facts.gates):
        notes.append(f"Examples are shown for the {len(facts.gates)} most frequent of {reasons} reasons.")
    notes.append(f"Examples are the documents whose ids have the smallest hashes, at most {EXAMPLES} for each reason.")
    notes.append(f"Long texts are cut: examples after {EXCERPT} characters, pages after {SHOWN:,}.")
    return notes
