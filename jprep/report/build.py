"""Build a report: find the inputs, make their sections, render the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.errors import ConfigError
from jprep.pipeline.recipe import input_places
from jprep.report.inputs import InputKind, ReportInput, find_inputs
from jprep.report.page import MAX_BYTES, render
from jprep.report.registry import BUILDERS, section_builder
from jprep.report.section import NO_OPTIONS, ReportContext, ReportOptions, Section


class Report(NamedTuple):
    """A report.

    Attributes:
        inputs: what it is about.
        sections: its sections.
    """

    inputs: list[ReportInput]
    sections: list[Section]

    def html(self, limit: int = MAX_BYTES) -> str:
        """Return the page: one document that loads nothing from elsewhere, of at most `limit` bytes of UTF-8.

        Raises:
            MachineError: Jinja2 or matplotlib is not installed.
        """
        return render(self.sections, [each for each in self.inputs if each.unfinished], limit)

    def figures(self) -> dict[str, Any]:
        """Return the figures of all sections, for JSON."""
        sections = [{"kind": each.kind, "title": each.title} | dict(each.figures) for each in self.sections]
        unfinished = [msgspec.to_builtins(each) | {"path": each.label} for each in self.inputs if each.unfinished]
        return {"sections": sections, "unfinished": unfinished}


def build_report(
    paths: Iterable[str | Path], options: ReportOptions = NO_OPTIONS, *, places: Iterable[str | Path] = ()
) -> Report:
    """Return the report on outputs of jprep.

        Path("report.html").write_text(build_report(["work/jawiki"]).html(), encoding="utf-8")

    Args:
        paths: directories of corpora, tokenizers, datasets, runs and comparisons, or of several of these.
        options: further tokenizers, texts and prompts.
        places: recipes, files and directories that say where the inputs of corpora are; a corpus does not record it.

    Raises:
        ConfigError: a path holds nothing to report on, or something unfinished; or an option has no effect.
        DamagedError: a file of an output is missing or damaged; the error names it.
        MachineError: a library of the extra `report` is not installed.
    """
    inputs = find_inputs(Path(path) for path in paths)
    finished = [each for each in inputs if not each.unfinished and each.kind in BUILDERS]
    if not finished:
        fix = "finish it with the command that started it, for example `jprep run`"
        raise ConfigError("nothing here is finished yet", where=inputs[0].label, fix=fix)
    context = ReportContext(finished, input_places(places), options)
    _refuse_unused(context)
    sections = [
        section
        for kind in BUILDERS
        if (own := context.of_kind(kind))
        for section in section_builder(kind)(own, context)
    ]
    return Report(inputs, sections)


def _refuse_unused(context: ReportContext) -> None:
    """Refuse options about kinds of outputs that the report does not have."""
    options = context.options
    uses: tuple[tuple[str, Sequence[object], tuple[InputKind, ...]], ...] = (
        ("--inputs", context.places, ("corpus",)),
        ("--beside", options.beside, ("tokenizer",)),
        ("--text", options.texts, ("tokenizer",)),
        ("--samples", options.prompts, ("run", "folds")),
    )
    for option, values, kinds in uses:
        if values and not any(map(context.of_kind, kinds)):
            what = f"{option} has no effect: there is no {kinds[0]} among the paths"
            raise ConfigError(what, fix=f"leave it out, or add the directory of a {kinds[0]}")
