"""The section about tokenizers: all given ones side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.corpus.api import Corpus
from jprep.engine.fingerprint import plain
from jprep.html import plots
from jprep.report.inputs import ReportInput
from jprep.report.section import ReportContext, Section
from jprep.report.tokenizers.cutting import CutText, PreparedTokenizers
from jprep.report.tokenizers.texts import SAMPLE_MB, KindOfText, corpus_kinds, corpus_of, sample_kinds
from jprep.report.tokenizers.usage import SHARES, Usage, usage
from jprep.report.visible_pieces import shown_piece
from jprep.tokenizer.card import CARD_JSON, TokenizerCard, read_card
from jprep.tokenizer.evaluation import Scores, TokenizerAdapter
from jprep.tokenizer.evaluation.loading import load_adapters

_TEXTS = 3  # of each kind are cut
_CHARACTERS = 240  # of a text are cut
_KINDS = 24  # rows of a table of kinds
_RATES = {
    "characters_per_token": "Characters per token",
    "boundary_recall": "Word boundaries at which a token begins",
    "unknown_rate": "Unknown tokens",
    "byte_rate": "Tokens for a part of a character",
}
"""Figures by kind of text, with their headings; all but the first are shares."""
_PARTS = (
    ("texts", "Texts cut"),
    ("kinds", "By kind of text"),
    ("pieces", "Pieces"),
    ("unused", "Never used"),
    ("about", "Training"),
)


class Measured(NamedTuple):
    """The scores of each tokenizer on one kind of text, and whether its words are known."""

    kind: KindOfText
    words: bool
    scores: list[Scores]


def build(inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
    """Return one section with all tokenizers side by side, those of the option `beside` after the given ones.

    Raises:
        ConfigError: a tokenizer or a text is not usable.
        DamagedError: a file of a tokenizer has changed.
        MachineError: a library that a tokenizer needs is not installed.
    """
    given = [each.path for each in inputs] + [Path(each) for each in context.options.beside]
    paths = list(dict.fromkeys(given))
    own = sample_kinds(context.options.texts)
    corpus = corpus_of(paths, [each.path for each in context.of_kind("corpus")])
    trained = corpus_kinds(Corpus(corpus)) if corpus else []
    with PreparedTokenizers(load_adapters(paths)) as tokenizers:
        kinds = [*own, *trained][:_KINDS]
        measured = [Measured(kind, tokenizers.knows_words(kind.text), tokenizers.scores(kind)) for kind in kinds]
        uses = usage(tokenizers, trained or own)
        texts = [_cut_texts(tokenizers, kind) for kind in own]
    names = [encoder.name for encoder in tokenizers.encoders]
    values = {
        "names": names,
        "texts": texts,
        "tables": _tables(names, measured),
        "plots": _plots(uses),
        "summary": _summary(tokenizers.encoders, uses),
        "uses": [_shown(each) for each in uses],
        "measured_on": _measured_on(trained),
        "cards": [_card(path, name) for path, name in zip(paths, names, strict=True) if (path / CARD_JSON).is_file()],
    }
    title = f"Tokenizer{'s' * (len(names) > 1)} {', '.join(names)}"
    highlights = _highlights(tokenizers.encoders[0], uses[0])
    figures = {"tokenizers": [_figures(use) for use in uses], "kinds": _kind_figures(measured)}
    return [Section(title, "tokenizer", "tokenizer.html", values, figures, highlights, _PARTS, _notes(trained))]


def _cut_texts(tokenizers: PreparedTokenizers, kind: KindOfText) -> dict[str, Any]:
    paragraphs = [paragraph[:_CHARACTERS] for paragraph in list(kind.text.paragraphs)[:_TEXTS]]
    cuts = [[_shown_cut(cut) for cut in tokenizers.cut(paragraph, kind.text)] for paragraph in paragraphs]
    return {"kind": kind.kind, "origin": kind.origin, "cuts": cuts}


def _shown_cut(cut: CutText) -> CutText:
    """Return a cut text with visible spaces."""
    return cut._replace(pieces=[each._replace(words=list(map(shown_piece, each.words))) for each in cut.pieces])


def _tables(names: Sequence[str], measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return a table for each figure that is not 0 everywhere, with a row for each kind of text."""
    found = []
    for figure, heading in _RATES.items():
        rows = [
            [f"{each.kind.kind} ({each.kind.origin})", *(_cell(figure, scores, each.words) for scores in each.scores)]
            for each in measured
        ]
        if any(scores.figures().get(figure) for each in measured for scores in each.scores):
            found.append({"caption": heading, "headings": ["Text", *names], "rows": rows})
    return found


def _cell(figure: str, scores: Scores, known: bool) -> str:
    value = scores.figures().get(figure)
    if value is None or (figure == "boundary_recall" and not known):
        return "–"
    return f"{value:.2f}" if figure == "characters_per_token" else f"{100 * value:.1f} %"


def _kind_figures(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    return [
        {"kind": each.kind.kind, "origin": each.kind.origin, "tokenizer": scores.tokenizer}
        | {key: scores.figures().get(key) for key in _RATES if key != "boundary_recall" or each.words}
        for each in measured
        for scores in each.scores
    ]


def _plots(uses: Sequence[Usage]) -> list[tuple[Any, str]]:
    """Return the plots, each with its caption."""
    ids = _length_plot({use.tokenizer: use.lengths for use in uses}, "Length of the pieces in the vocabulary", "ids")
    tokens = _length_plot(
        {use.tokenizer: use.used_lengths for use in uses}, "Length of the pieces in the text", "tokens"
    )
    ranks = plots.lines(
        {use.tokenizer: (use.ranks, use.counts) for use in uses},
        title="Frequency of the pieces by rank",
        x_label="rank of the piece",
        y_label="times it occurs",
        log_x=True,
        log_y=True,
    )
    last = len(uses[0].lengths) - 1
    longest = f"; {last}: {last} characters or more" if any(use.lengths[-1] for use in uses) else ""
    return [
        (ids, f"Length of the pieces in the vocabulary. 0: parts of characters{longest}."),
        (tokens, f"Length of the pieces in the text. 0: parts of characters{longest}."),
        (
            ranks,
            "Frequency of the pieces by rank, both logarithmic. A curve that ends early leaves many pieces unused.",
        ),
    ]


def _length_plot(counts: Mapping[str, Sequence[int]], title: str, counted: str) -> Any:
    longest = max((length for row in counts.values() for length, count in enumerate(row) if count), default=1)
    series = {
        name: (list(range(longest + 1)), [count / max(sum(row), 1) for count in row[: longest + 1]])
        for name, row in counts.items()
    }
    return plots.lines(series, title=title, x_label="characters", y_label=f"share of the {counted}", points=True)


def _summary(encoders: Sequence[TokenizerAdapter], uses: Sequence[Usage]) -> dict[str, Any]:
    """Return a table with a column for each tokenizer."""
    rows: list[list[Any]] = [
        ["Model", *(encoder.model for encoder in encoders)],
        ["Ids", *(f"{use.size:,}" for use in uses)],
        ["Ids that occur", *(f"{use.used:,} ({use.used / max(use.size, 1):.0%})" for use in uses)],
        ["Tokens of the text", *(f"{use.tokens:,}" for use in uses)],
        *([f"Pieces in {share:.0%} of the tokens", *(_covering(use, share) for use in uses)] for share in SHARES),
        ["Unknown tokens", *(f"{use.unknown:,}" for use in uses)],
        ["Tokens for a part of a character", *(f"{use.partial:,}" for use in uses)],
    ]
    return {"headings": ["Figure", *(use.tokenizer for use in uses)], "rows": rows}


def _covering(use: Usage, share: float) -> str:
    return f"{use.coverage[share]:,}" if use.tokens else "–"


def _shown(use: Usage) -> dict[str, Any]:
    """Return the lists of pieces, with spaces made visible."""
    return {
        "name": use.tokenizer,
        "frequent": [(shown_piece(piece.text), piece.times) for piece in use.frequent],
        "unused": [shown_piece(piece) for piece in use.unused],
        "unused_count": use.size - use.used,
        "size": use.size,
        "unspelt": [(shown_piece(piece.text), piece.times) for piece in use.unspelt],
        "odd": use.unknown + use.partial,
    }


def _measured_on(trained: Sequence[KindOfText]) -> str:
    if trained:
        return f"a sample of the corpus {trained[0].text.name}"
    return "the sample texts, because the corpus of the training was not found near the tokenizer"


def _card(path: Path, name: str) -> dict[str, Any]:
    card: TokenizerCard = read_card(path)
    config = [(key, _value(value)) for key, value in plain(card.config).items()]
    sources = [[source.get(key) or "–" for key in ("name", "licence", "homepage")] for source in card.sources]
    normalizers = [_step(step) for step in card.normalizers]
    return {"name": name, "card": card, "config": config, "normalizers": normalizers, "sources": sources}


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _step(step: Mapping[str, Any]) -> str:
    options = ", ".join(f"{key} = {_value(value)}" for key, value in step["config"].items())
    return f"{step['name']}, version {step['version']}" + (f": {options}" if options else "")


def _highlights(encoder: TokenizerAdapter, use: Usage) -> dict[str, float | str]:
    characters = sum(length * count for length, count in enumerate(use.used_lengths))
    return {
        "ids": use.size,
        "model": encoder.model,
        "characters per token": round(characters / max(use.tokens, 1), 2),
        "ids that occur": f"{use.used / max(use.size, 1):.0%}",
    }


def _figures(use: Usage) -> dict[str, Any]:
    names = ("tokenizer", "size", "tokens", "used", "unknown", "partial", "lengths", "used_lengths")
    coverage = {f"{share:g}": number for share, number in use.coverage.items()}
    frequent = [[piece.text, piece.times] for piece in use.frequent]
    return {name: getattr(use, name) for name in names} | {"coverage": coverage, "frequent": frequent}


def _notes(trained: Sequence[KindOfText]) -> list[str]:
    sampled = f"Pieces are counted in {_measured_on(trained)}; at most {SAMPLE_MB:g} MB of text are counted."
    words = "Word boundaries are those of the corpus, and of the segmenter pointwise for other texts."
    return [sampled, words, "Lists of pieces that never occur are evenly spaced by id."]
