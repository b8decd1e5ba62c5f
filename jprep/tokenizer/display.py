"""What Jupyter and a Python prompt display of a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jprep.errors import JprepError
from jprep.html.notebook import TITLE_LIMIT, Cell, Fragment, columns, display, figures, heading, note, section
from jprep.html.text import shortened
from jprep.io.escaping import one_line
from jprep.tokenizer.cut_text import cut

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

SAMPLE = (
    "春\x1fの\x1f朝\x1f、\x1f東京\x1f駅\x1fから\x1f新幹線\x1fで\x1f2\x1f時間\x1f半\x1f。\x1f"
    "読み\x1f終え\x1fた\x1f小説\x1fは\x1f『\x1fSnow\x1f Country\x1f』\x1fで\x1fある\x1f😀\x1f。"
)
"""A text with its words marked, so that tokenizers under hard boundaries need no segmenter to cut it."""


def describe(tokenizer: Tokenizer) -> str:
    """Return a tokenizer in one line."""
    name = shortened(tokenizer.card.name, TITLE_LIMIT)
    kind = "from elsewhere" if tokenizer.card.external else tokenizer.card.config.model
    return one_line(f"<Tokenizer {name!r} in {str(tokenizer.folder)!r}: {kind}, {tokenizer.vocab_size:,} ids>")


def tokenizer_html(tokenizer: Tokenizer) -> str:
    """Return kind, size, special tokens, scores and a sample text of a tokenizer as HTML."""
    card = tokenizer.card
    scores: dict[str, Cell] = {name: _score(value) for name, value in card.figures.items()}
    return display(
        heading("Tokenizer", card.name, tokenizer.folder),
        columns(
            section("Kind", figures(_kind(tokenizer))),
            *([section("Scores on a sample of its corpus", figures(scores))] if scores else []),
        ),
        section("A text cut by it", _sample(tokenizer)),
        note(card.signature),
    )


def _score(value: float) -> Cell:
    return value if isinstance(value, int) else f"{value:,.4g}"


def _kind(tokenizer: Tokenizer) -> dict[str, Cell]:
    card = tokenizer.card
    trained: dict[str, Cell] = {
        "model": card.config.model,
        "boundaries": card.config.boundaries,
        "normalizers": ", ".join(step["name"] for step in card.normalizers) or "none",
        "trained on": ", ".join(str(source.get("name", "")) for source in card.sources) or "not stated",
    }
    about: dict[str, Cell] = {"made by": "another program"} if card.external else trained
    return about | {"ids": tokenizer.vocab_size, "special tokens": " ".join(tokenizer.special.tokens) or "none"}


def _sample(tokenizer: Tokenizer) -> Fragment:
    """Return the sample cut by the tokenizer; a display raises no error, so what failed is shown in its place."""
    try:
        return cut(tokenizer, SAMPLE).fragment()
    except JprepError as error:
        return note(f"cannot be shown: {error}")
