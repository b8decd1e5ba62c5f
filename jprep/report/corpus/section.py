"""The section of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jprep.corpus.store import Manifest, read_manifest
from jprep.report.corpus import histograms, provenance
from jprep.report.corpus.changes import changes
from jprep.report.corpus.document_scan import DocumentScan, scan_documents
from jprep.report.corpus.funnel import FunnelStep, funnel
from jprep.report.corpus.reject_scan import RejectScan, scan_rejects
from jprep.report.inputs import ReportInput
from jprep.report.section import ReportContext, Section

_GATES = 40  # reasons of which examples are shown
_PARTS = (
    ("funnel", "From input to corpus"),
    ("sources", "Sources"),
    ("lengths", "Lengths"),
    ("scripts", "Characters"),
    ("measures", "Filters"),
    ("changes", "Changed characters"),
    ("duplicates", "Duplicates"),
    ("gates", "Dropped documents"),
    ("kept", "Kept documents"),
    ("provenance", "Provenance"),
)


def build(inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
    """Return a section for each corpus."""
    return [_section(each) for each in inputs]


def _section(given: ReportInput) -> Section:
    manifest = read_manifest(given.path)
    steps = funnel(manifest)
    gates = _gates(steps)
    rejects = scan_rejects(given.path, manifest, gates)
    scan = scan_documents(given.path, manifest)
    measured = scan.measures.measured()
    plots = {
        "sources": histograms.source_plot(scan),
        "length": histograms.length_plot(scan, histograms.length_limits(measured)),
        "scripts": histograms.script_plots(scan),
        "measures": histograms.measure_plots(measured),
    }
    return Section(
        title=f"{manifest.name} ({given.label})" if manifest.name != given.label else manifest.name,
        kind="corpus",
        template="corpus.html",
        values=_values(manifest, steps, gates, rejects, scan, plots),
        figures=_figures(given, manifest, steps, scan, rejects, plots),
        highlights={name: manifest.totals.get(name, 0) for name in ("documents", "characters")},
        parts=_PARTS,
        notes=_notes(manifest, scan, gates, steps),
    )


def _gates(steps: Sequence[FunnelStep]) -> list[str]:
    """Return the reasons whose examples are shown: the most frequent ones, in the order of the steps."""
    reasons = [reason for step in steps for reason in step.reasons]
    most = sorted(reasons, key=lambda reason: -reason.documents)[:_GATES]
    return [reason.key for reason in reasons if reason in most]


def _values(
    manifest: Manifest,
    steps: list[FunnelStep],
    gates: list[str],
    rejects: RejectScan,
    scan: DocumentScan,
    plots: dict[str, Any],
) -> dict[str, Any]:
    return {
        "manifest": manifest,
        "steps": steps,
        "plots": plots,
        "read_changes": changes(manifest.counts, ("reader", "lines")),
        "normalizer_changes": changes(manifest.counts, ("normalizer",)),
        "gates": [
            (reason, rejects.examples[reason.key]) for step in steps for reason in step.reasons if reason.key in gates
        ],
        "rejects": rejects,
        "duplicates": manifest.rejects.get("dedup.documents/duplicate", 0),
        "scan": scan,
        "sources": provenance.sources(manifest),
        "made_by": provenance.steps(manifest),
        "libraries": provenance.libraries(manifest),
    }


def _figures(
    given: ReportInput,
    manifest: Manifest,
    steps: Sequence[FunnelStep],
    scan: DocumentScan,
    rejects: RejectScan,
    plots: dict[str, Any],
) -> dict[str, Any]:
    return {
        "path": given.label,
        "name": manifest.name,
        "signature": manifest.signature,
        "totals": manifest.totals,
        "funnel": [
            {"step": step.name, "before": step.before, "dropped": step.dropped, "after": step.after}
            | {"reasons": {reason.name: reason.documents for reason in step.reasons}}
            | {"lines_dropped": step.lines, "characters_dropped": step.characters}
            for step in steps
        ],
        "sources": plots["sources"].figures,
        "lengths": plots["length"].figures,
        "sample": scan.measures.documents,
        "characters": {plot.name: plot.figures for plot in plots["scripts"]},
        "measures": {plot.name: plot.figures for plot in plots["measures"]},
        "duplicates": {str(times): texts for times, texts in rejects.times.items()},
        "counts": manifest.counts,
    }


def _notes(manifest: Manifest, scan: DocumentScan, gates: Sequence[str], steps: Sequence[FunnelStep]) -> list[str]:
    documents = manifest.totals.get("documents", 0)
    notes = [*scan.measures.problems]
    if scan.measures.documents < documents:
        notes.append(
            f"Kinds of characters and the filters' measures are those of {scan.measures.documents:,} of the"
            f" {documents:,} documents, chosen by a hash of their ids; sources and lengths are those of all."
        )
    reasons = sum(len(step.reasons) for step in steps)
    if reasons > len(gates):
        notes.append(f"Examples are shown for the {len(gates)} most frequent of {reasons} reasons.")
    notes.append("Examples are the documents with the smallest hashes of their ids, at most twenty for each reason.")
    return notes
