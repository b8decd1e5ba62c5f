"""The section about a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from jprep.dataset.manifest import read_dataset
from jprep.html import plots
from jprep.report.datasets.figures import DatasetFigures, Lengths, ShownRow, SplitFigures, dataset_figures
from jprep.report.inputs import ReportInput
from jprep.report.section import ReportContext, Section
from jprep.report.visible_pieces import shown_piece

_PARTS = (
    ("splits", "Splits"),
    ("lengths", "Lengths"),
    ("special", "Special tokens"),
    ("rows", "Rows"),
    ("origin", "Origin"),
)
_FILES = 10  # of each source are listed


def build(inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
    """Return a section for each dataset.

    Raises:
        DamagedError: a file has changed since it was packed.
        MachineError: a file cannot be read.
    """
    return [_section(each, f" ({each.label})" if len(inputs) > 1 else "") for each in inputs]


def _section(given: ReportInput, which: str) -> Section:
    """Return a section; `which` distinguishes the captions of several."""
    figures = dataset_figures(given.path, read_dataset(given.path))
    values = {
        "which": which,
        "totals": _totals(figures),
        "splits": _splits(figures.splits),
        "lengths": figures.lengths,
        "length_plot": _length_plot(figures.lengths),
        "special": _special(figures.splits),
        "rows": [_row(row) for row in figures.rows],
        "by_source": _by_source(figures),
        "mixture": _mixture(figures),
        "lineage": _lineage(figures),
        "files": _files(figures),
    }
    return Section(
        title=f"Dataset {figures.manifest.name} ({given.label})",
        kind="dataset",
        template="dataset.html",
        values=values,
        figures={"path": given.label} | _figures(figures),
        highlights={"tokens": _tokens(figures), "documents": sum(each.documents for each in figures.splits)},
        parts=_PARTS,
        notes=_notes(figures),
    )


def _tokens(figures: DatasetFigures) -> int:
    return sum(each.tokens for each in figures.splits)


def _totals(figures: DatasetFigures) -> dict[str, Any]:
    text = sum(each.text_bytes for each in figures.splits)
    disk = sum(each.disk_bytes for each in figures.splits)
    ratios = {
        "bytes of text per token": round(text / max(_tokens(figures), 1), 2),
        "bytes on disk per byte of text": round(disk / max(text, 1), 2),
    }
    documents = sum(each.documents for each in figures.splits)
    return {"tokens": _tokens(figures), "documents": documents, "bytes of text": text, "bytes on disk": disk} | ratios


def _splits(splits: Sequence[SplitFigures]) -> list[list[Any]]:
    return [
        [
            each.name,
            each.documents,
            each.tokens,
            each.sentences,
            each.words,
            each.text_bytes,
            each.disk_bytes,
            round(each.disk_bytes / each.text_bytes, 2) if each.text_bytes else 0,
        ]
        for each in splits
    ]


def _length_plot(lengths: Lengths | None) -> Any:
    if lengths is None:
        return None
    return plots.histogram(
        lengths.edges,
        lengths.counts,
        title="Documents by their length in tokens",
        x_label="tokens of a document",
        log_x=lengths.longest > 50 * max(lengths.shortest, 1),
    )


def _special(splits: Sequence[SplitFigures]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for each in splits for name in each.special))
    rows = [[name, *(f"{100 * each.special.get(name, 0.0):.3g} %" for each in splits)] for name in names]
    return {"headings": ["Token", *(each.name for each in splits)], "rows": rows}


def _row(row: ShownRow) -> ShownRow:
    """Return a row with visible spaces."""
    return row._replace(tokens=[each._replace(text=shown_piece(each.text)) for each in row.tokens])


def _by_source(figures: DatasetFigures) -> list[list[Any]]:
    total = max(sum(figures.by_source.values()), 1)
    about = {source["name"]: source for source in figures.manifest.sources}
    return [
        [name, count, f"{count / total:.1%}", about[name].get("licence") or "–"]
        for name, count in figures.by_source.items()
    ]


def _mixture(figures: DatasetFigures) -> list[list[Any]]:
    """Return the parts of the mixture, and after them the documents that no part takes; nothing without parts."""
    parts, left_out = figures.manifest.mix_parts, figures.manifest.left_out
    total = max(sum(part.tokens for part in parts), 1)
    rows = [[part.name, part.documents, part.tokens, f"{part.tokens / total:.1%}"] for part in parts]
    return [*rows, *([f"in no part, of {each.source}", each.documents, "–", "left out"] for each in left_out)]


def _lineage(figures: DatasetFigures) -> list[list[str]]:
    made_from = figures.manifest.made_from
    config = msgspec.json.encode(made_from.get("config", {})).decode()
    found = {"corpus": figures.corpus, "tokenizer": figures.tokenizer}
    places = {kind: "found nearby" if path else "not found nearby" for kind, path in found.items()}
    return [
        *([kind.capitalize(), made_from[kind]["fingerprint"], places[kind]] for kind in found),
        ["Settings", config, ""],
        ["This dataset", figures.manifest.fingerprint, figures.manifest.signature],
    ]


def _files(figures: DatasetFigures) -> list[list[Any]]:
    return [
        [str(file.get("name", "")), source["name"], file.get("size", 0), file.get("sha256") or "–"]
        for source in figures.manifest.sources
        for file in source.get("files", [])[:_FILES]
    ]


def _figures(figures: DatasetFigures) -> dict[str, Any]:
    lengths = figures.lengths._asdict() if figures.lengths else None
    splits = [each._asdict() for each in figures.splits]
    mixture = {"mix_parts": figures.manifest.mix_parts, "left_out": figures.manifest.left_out}
    parts = msgspec.to_builtins(mixture) if figures.manifest.mix_parts else {}
    return _totals(figures) | {"splits": splits, "lengths": lengths, "by_source": figures.by_source} | parts


def _notes(figures: DatasetFigures) -> list[str]:
    notes = [
        f"Special tokens of {each.name} are counted in {each.counted:,} of {each.tokens:,} tokens."
        for each in figures.splits
        if each.counted < each.tokens
    ]
    if any(len(source.get("files", [])) > _FILES for source in figures.manifest.sources):
        notes.append(f"At most {_FILES} files of each source are listed.")
    if figures.tokenizer is None:
        notes.append("Rows are not shown, because the tokenizer of the dataset was not found nearby.")
    return notes
