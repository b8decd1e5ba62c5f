"""The model of a report: sections, each with its figures and a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from jprep.report.inputs import ReportInput


class Section(NamedTuple):
    """A section of a report.

    Attributes:
        title: its heading; text from outside is escaped by the page.
        kind: names its anchor: `corpus`, `tokenizer`, …
        template: file in `jprep/report/templates`, rendered with `values` and with `anchor`, the prefix of its ids.
        values: names that the template uses.
        figures: what `--json` prints.
        highlights: a few figures by name, for the overview.
        parts: id (without the anchor) and title of each part, for the table of contents.
        notes: what was cut or sampled, one sentence each.
    """

    title: str
    kind: str
    template: str
    values: Mapping[str, Any]
    figures: Mapping[str, Any]
    highlights: Mapping[str, float | str] = {}
    parts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()


class ReportContext(NamedTuple):
    """What a section can know about the whole report.

    Attributes:
        inputs: everything that the report is about, finished.
        places: files and directories that the user named, where inputs of corpora are.
    """

    inputs: Sequence[ReportInput]
    places: Sequence[str] = ()

    def of_kind(self, kind: str) -> list[ReportInput]:
        """Return the inputs of a kind, e.g. the corpora whose texts a tokenizer's section cuts."""
        return [each for each in self.inputs if each.kind == kind]


class SectionBuilder(Protocol):
    """Makes the sections for all inputs of a kind, so that several can be shown together."""

    def __call__(self, inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
        """Return the sections.

        Raises:
            JprepError: an input is damaged; the error names the file.
        """
