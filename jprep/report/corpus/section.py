"""The section of a corpus."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.corpus.store import read_manifest
from jprep.report.inputs import ReportInput
from jprep.report.section import ReportContext, Section


def build(inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
    """Return a section for each corpus."""
    return [_section(each) for each in inputs]


def _section(given: ReportInput) -> Section:
    manifest = read_manifest(given.path)
    return Section(
        title=f"{manifest.name} ({given.label})",
        kind="corpus",
        template="corpus.html",
        values={"totals": manifest.totals},
        figures={"path": given.label, "totals": manifest.totals},
        highlights={name: manifest.totals.get(name, 0) for name in ("documents", "characters")},
    )
