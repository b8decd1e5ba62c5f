"""The section about tokenizers: cuts, use of the vocabulary, hostile pieces, large vocabularies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from jprep import load_recipe
from jprep.corpus.api import Corpus
from jprep.errors import ConfigError
from jprep.report.build import build_report
from jprep.report.section import ReportOptions
from jprep.report.tokenizers.cutting import PreparedTokenizers
from jprep.report.tokenizers.sample_texts import SAMPLES
from jprep.report.tokenizers.texts import KindOfText, sample_kinds
from jprep.report.tokenizers.usage import usage
from jprep.report.visible_pieces import shown_piece
from jprep.samples import write_sample
from jprep.tokenizer.evaluation.input_text import EvaluationText
from jprep.tokenizer.evaluation.loading import load_adapters
from tests.unit.report.pages import HOSTILE, SHOWN, page_of
from tests.unit.tokenizer.test_evaluation import ToyTokenizer
from tests.unit.tokenizer.vocabularies import finished, small

KINDS = ("bpe", "unigram", "byte-bpe", "wordpiece")


def word_level(folder: Path, words: list[str]) -> Path:
    """Write a tokenizer.json whose pieces are whole words."""
    vocab = {word: number for number, word in enumerate(["[UNK]", *words])}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
    }  # fmt: skip
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def text_of(*paragraphs: str, words: bool = False) -> KindOfText:
    return KindOfText("own", "a test", EvaluationText("own", "", True, words, list(paragraphs)))


@pytest.mark.parametrize("model", KINDS)
def test_the_pieces_of_a_cut_make_up_the_text(model: str, tmp_path: Path) -> None:
    encoders = load_adapters([finished(tmp_path / "tokenizer", small(model, special=["roberta"]))])
    with PreparedTokenizers(encoders) as tokenizers:
        kind = text_of("東京都の日本語は\U0001f5fc鬱")
        [cut] = tokenizers.cut("東京都の日本語は\U0001f5fc鬱", kind.text)
        [scores] = tokenizers.scores(kind)
    assert "".join(piece.text for piece in cut.pieces) == "東京都の日本語は\U0001f5fc鬱"
    assert cut.tokens == scores.tokens
    assert sum(piece.bytes or piece.unknown for piece in cut.pieces) == 2


def test_a_piece_shows_the_word_boundaries_inside_it(tmp_path: Path) -> None:
    encoder = ToyTokenizer({"日本語は": [(0, 0, 3), (1, 3, 4)]})
    with PreparedTokenizers([encoder]) as tokenizers:
        [cut] = tokenizers.cut("日本\x1f語\x1fは", text_of(words=True).text)
    assert [piece.words for piece in cut.pieces] == [["日本", "語"], ["は"]]


def test_usage_counts_every_token(tmp_path: Path) -> None:
    paths = [finished(tmp_path / model, small(model, special=["roberta"])) for model in KINDS]
    kind = text_of("日本語です。", "東京です。鬱")
    with PreparedTokenizers(load_adapters(paths)) as tokenizers:
        found, scores = usage(tokenizers, [kind]), tokenizers.scores(kind)
    for use, expected in zip(found, scores, strict=True):
        assert (use.tokens, use.used, use.unknown, use.partial) == (
            expected.tokens, expected.used, expected.unknown, expected.parts,
        )  # fmt: skip
        assert sum(use.lengths) == use.size and sum(use.used_lengths) == use.tokens
        assert sum(piece.times for piece in use.frequent) == use.tokens
        assert {piece.text for piece in use.frequent}.isdisjoint(use.unused)
    assert [[piece.text for piece in use.unspelt] for use in found][:2] == [["鬱"], ["鬱"]]


def test_a_report_shows_tokenizers_side_by_side(tmp_path: Path) -> None:
    paths = [finished(tmp_path / model, small(model, special=["roberta"])) for model in ("bpe", "unigram")]
    own = tmp_path / "own.txt"
    own.write_text("図書館で日本語の本を読む。\n", encoding="utf-8")
    page = page_of([paths[0]], beside=[str(paths[1])], texts=[own])
    assert page.count("<dt>bpe") == page.count("<dt>unigram") == sum(map(len, SAMPLES.values())) + 1
    assert all(f"<h4>{kind.capitalize()}</h4>" in page for kind in SAMPLES) and "own.txt" in page
    assert "the corpus of the training was not found" in page


def test_hostile_pieces_texts_and_names_are_shown_as_text(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x>"
    folder.mkdir()
    beside, own = word_level(folder, [HOSTILE, "東京"]), tmp_path / "<b>.txt"
    own.write_text(f"{HOSTILE} 東京 {HOSTILE}\n", encoding="utf-8")
    page = page_of([finished(tmp_path / "tokenizer", small("bpe"))], beside=[str(beside)], texts=[own])
    assert SHOWN.replace("[31m", "[31m") in page
    assert "&lt;b&gt;.txt" in page and "<img" not in page


@pytest.mark.soak
def test_a_large_vocabulary_gives_a_small_page(tmp_path: Path) -> None:
    beside = word_level(tmp_path, [f"語{number}" * 20 for number in range(250_000)])
    page = page_of([finished(tmp_path / "tokenizer", small("bpe"))], beside=[str(beside)])
    assert "250,001" in page and len(page.encode()) < 500_000


def test_lengths_are_bounded_for_pieces_of_any_length() -> None:
    class Long(ToyTokenizer):
        size, unknown = 3, -1
        parts = np.zeros(3, bool)

        def spellings(self) -> list[str]:
            return ["a" * 10_000_000, "", "b"]

    with PreparedTokenizers([Long({"ab": [(0, 0, 1), (2, 1, 2)]})]) as tokenizers:
        [found] = usage(tokenizers, [text_of("ab")])
    assert found.lengths[0] == found.lengths[1] == found.lengths[-1] == 1


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    path = finished(tmp_path / "tokenizer", small("bpe"))
    with pytest.raises(ConfigError, match="no such tokenizer"):
        build_report([path], ReportOptions(beside=[str(tmp_path / "missing")]))


def test_samples_have_no_marks_and_no_empty_paragraph() -> None:
    paragraphs = [paragraph for kind in sample_kinds() for paragraph in kind.text.paragraphs]
    assert all(paragraph and paragraph.isprintable() for paragraph in paragraphs)


def test_invisible_characters_of_a_piece_are_named() -> None:
    assert shown_piece("a \u200d\u202e\u3000\n") == "a␣\\u200d\\u202e□↵"
    assert shown_piece("語" * 1000) == "語" * 40 + "… (960 more characters)"


def test_the_corpus_of_the_report_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe(tmp_path / "recipe.toml")
    corpus = Corpus.build(recipe, tmp_path / "corpus").folder
    tokenizer = finished(tmp_path / "tokenizer", small("bpe", special=["roberta"]))
    page = page_of([tokenizer, corpus])
    assert "a sample of the corpus quickstart" in page and "web (the corpus quickstart)" in page
