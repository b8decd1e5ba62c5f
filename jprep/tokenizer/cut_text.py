"""A text as a tokenizer cuts it, for people to look at."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from jprep.corpus.document import SENTENCE, UNMARK, WORD
from jprep.html.notebook import Fragment, display, note
from jprep.html.text import html, shortened, visible
from jprep.tokenizer.evaluation.jprep_tokenizer import JprepAdapter

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

_TOKEN = (
    "display:inline-block;margin:1px 0;padding:0 3px;border:1px solid rgba(128,128,128,.55);border-radius:3px;"
    "white-space:pre-wrap;background:{}"
)
_COLOURS = ("rgba(66,133,244,.16)", "rgba(128,128,128,.08)")
_UNKNOWN = "rgba(217,83,43,.4)"
_SHOWN, _LONGEST = 600, 60
"""Tokens that are displayed, and characters of each: a text may have millions."""


class Token(NamedTuple):
    """A token of a text.

    Attributes:
        text: the characters that it covers; "" for one that covers no character of its own, as further bytes do.
        id: its id.
        piece: its piece, as in the exported files.
        start: index of its first character in the text.
        end: index after its last character.
    """

    text: str
    id: int
    piece: str
    start: int
    end: int


class CutText:
    """A text cut into tokens; Jupyter displays it with the boundaries marked.

    Attributes:
        text: the text, as normalized before it was encoded.
        tokens: its tokens, in order.
        unknown: id of the unknown token; None if there is none.
    """

    def __init__(self, text: str, tokens: list[Token], unknown: int | None) -> None:
        self.text, self.tokens, self.unknown = text, tokens, unknown

    def __repr__(self) -> str:
        shown = "|".join(_shown(token) for token in self.tokens[:_SHOWN])
        return f"<{len(self.tokens):,} tokens of {len(self.text):,} characters: {visible(shortened(shown, _SHOWN))}>"

    def _repr_html_(self) -> str:
        """Return what Jupyter displays."""
        return display(self.fragment())

    def fragment(self) -> Fragment:
        """Return the tokens as boxes, the unknown ones in another colour, and their number."""
        boxes = "<wbr>".join(self._box(number, token) for number, token in enumerate(self.tokens[:_SHOWN]))
        rest = len(self.tokens) - _SHOWN
        more = f" and {rest:,} more tokens" if rest > 0 else ""
        rate = f", {len(self.text) / len(self.tokens):.2f} characters a token" if self.tokens else ""
        size = note(f"{len(self.text):,} characters, {len(self.tokens):,} tokens{rate}")
        return Fragment(f'<div lang="ja">{boxes}{more}</div>{size.markup}')

    def _box(self, number: int, token: Token) -> str:
        colour = _UNKNOWN if token.id == self.unknown else _COLOURS[number % 2]
        title = f"{shortened(token.piece, _LONGEST)} = {token.id}" + (" (unknown)" if token.id == self.unknown else "")
        return f'<span style="{_TOKEN.format(colour)}" title="{html(title)}">{html(_shown(token))}</span>'


def _shown(token: Token) -> str:
    """Return how a token looks: its text with spaces and newlines made visible, or its piece if it covers none."""
    return shortened(token.text, _LONGEST).replace(" ", "␣").replace("\n", "↵") or shortened(token.piece, _LONGEST)


def cut(tokenizer: Tokenizer, text: str) -> CutText:
    """Cut a text that is normalized; under hard boundaries, its words are marked by U+001F.

    Args:
        tokenizer: the tokenizer.
        text: the text.

    Raises:
        JprepError: the tokens do not cover the text.
    """
    marked = tokenizer.card.config.boundaries == "hard" and not tokenizer.card.external
    text = text.replace(SENTENCE, "") if marked else text.translate(UNMARK)
    encode = tokenizer.encode_with_spans if tokenizer.has_spans else JprepAdapter(tokenizer).encode
    found, plain = encode([text]), text.replace(WORD, "")
    spans = zip(found.ids.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True)
    tokens: list[Token] = []
    for (start, end), group in groupby(spans, key=lambda each: each[1:]):
        ids = [number for number, *_ in group]
        whole = plain[start:end] if len(ids) == 1 else ""  # several tokens are the bytes of one character
        tokens += [Token(whole, number, tokenizer.piece_of(number), start, end) for number in ids]
    return CutText(plain, tokens, tokenizer.unk)
