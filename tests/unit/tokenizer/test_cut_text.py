"""A text as a tokenizer cuts it, and what Jupyter displays of a tokenizer."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep import load_tokenizer
from jprep.corpus.document import UNMARK
from jprep.tokenizer.cut_text import CutText, Token, cut
from jprep.tokenizer.tokenizer import Tokenizer
from tests.fakes.html_fragment import Fragment
from tests.unit.tokenizer.vocabularies import finished, small

MODELS = [
    ("bpe", "none"), ("bpe", "hard"), ("unigram", "spaces"), ("byte-bpe", "train"), ("wordpiece", "hard"),
    ("wordpiece", "bert"), ("words", "spaces"),
]  # fmt: skip
TEXT = "日本語\x1fは\x1f東京\x1fで\x1f😀\x1fします\x1f。"


@pytest.mark.parametrize(("model", "boundaries"), MODELS)
def test_tokens_cover_the_text_in_order(tmp_path: Path, model: str, boundaries: str) -> None:
    tokenizer = load_tokenizer(finished(tmp_path / "tokenizer", small(model, boundaries=boundaries)))
    found = cut(tokenizer, TEXT)
    assert found.text == TEXT.replace("\x1f", "")
    assert [token.piece for token in found.tokens] == [tokenizer.piece_of(token.id) for token in found.tokens]
    assert all(token.text in ("", found.text[token.start : token.end]) for token in found.tokens)
    assert all(one.start <= other.start for one, other in pairwise(found.tokens))
    assert {place for token in found.tokens for place in range(token.start, token.end)} == set(range(len(found.text)))
    shown = Fragment(tokenizer._repr_html_()).text
    assert model in shown and boundaries in shown and "characters a token" in shown
    assert repr(tokenizer).endswith(f"{model}, {tokenizer.vocab_size:,} ids>")


@pytest.fixture(scope="module")
def by_bytes(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(finished(tmp_path_factory.mktemp("bytes") / "tokenizer", small("byte-bpe")))


@given(text=st.text(max_size=30))
def test_any_text_is_cut(by_bytes: Tokenizer, text: str) -> None:
    text = text.translate(UNMARK)
    found = by_bytes.cut(text)
    assert [token.id for token in found.tokens] == by_bytes.encode(text)
    Fragment(found._repr_html_())
    assert "\n" not in repr(found)


def test_hostile_tokens_are_shown_as_text() -> None:
    hostile = "<script>\x1b\u202e"
    tokens = [Token(hostile, 7, hostile + '"', 0, 10), Token(" \n", 8, "x", 10, 12), Token("", 1, "<0xE3>", 12, 13)]
    found = CutText(hostile + " \nあ", tokens, 1)
    fragment = Fragment(found._repr_html_())
    assert "<script>\\x1b\\u202e␣↵<0xE3>13 characters, 3 tokens" in fragment.text
    assert repr(found) == "<3 tokens of 13 characters: <script>\\x1b\\u202e|␣↵|<0xE3>>"
    assert "<0xE3&gt; = 1 (unknown)" in found._repr_html_().replace("&lt;", "<")


def test_long_texts_are_shortened() -> None:
    tokens = [Token("あ" * 10_000_000, 1, "p" * 10_000_000, 0, 10_000_000)] * 5_000
    found = CutText("あ", tokens, None)
    markup = found._repr_html_()
    assert len(markup) < 400_000 and len(repr(found)) < 1_000
    assert "and 4,400 more tokens" in Fragment(markup).text
