"""Tokens of a document, by a tokenizer that works on bytes, and the tokenizer beside a corpus."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from jprep.errors import JprepError
from jprep.view.tokens import TokenizerView, find_tokenizer, open_tokenizer


@pytest.fixture
def bytes_tokenizer(tmp_path: Path) -> Path:
    """A tokenizer whose tokens are single bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({character: number for number, character in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_bytes_of_a_character_are_one_piece(bytes_tokenizer: Path) -> None:
    [first, second] = open_tokenizer(bytes_tokenizer).tokens("東\x1fa\x1e b\n京")
    assert [(piece.text, len(piece.ids)) for piece in first] == [("東", 3), ("a", 1), (" ", 1), ("b", 1)]
    assert [(piece.text, len(piece.ids)) for piece in second] == [("京", 3)]


def test_a_page_shows_pieces(hostile: Path, bytes_tokenizer: Path, open_client: Callable[..., TestClient]) -> None:
    page = open_client(hostile, TokenizerView(bytes_tokenizer)).get("/documents/0/2").text
    assert re.search('<span class="token" title="\\d+ \\d+ \\d+">東<sup>3</sup></span>', page)
    page = open_client(hostile, TokenizerView(bytes_tokenizer)).get("/documents/0/0").text
    assert "<script" not in page and ">&lt;</span>" in page


def test_a_tokenizer_beside_the_corpus_is_found(tmp_path: Path) -> None:
    assert find_tokenizer(tmp_path / "corpus") is None
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "card.json").write_text("{}")
    assert find_tokenizer(tmp_path / "corpus") == tmp_path / "tokenizer"


def test_a_wrong_name_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(JprepError):
        open_tokenizer(tmp_path / "none")
