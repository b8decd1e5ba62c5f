"""The model of the distribution `jprep-words`: its size, its card, and its words on text of ours and on gold."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.comparison import compare
from jprep.corpus.segmenters.mecab import JumandicSegmenter
from jprep.corpus.segmenters.pointwise import Pointwise
from jprep.corpus.segmenters.pointwise.model_file import MODELS, find_model, read_model
from jprep.corpus.segmenters.pointwise.training.labelled import read_words
from jprep.testing.conformance.segmenter import SegmenterSuite
from tests.conftest import ROOT, SHARED

SENTENCES = """
東京 タワー は １９５８ 年 に 完成 した 。
彼女 は 図書 館 で 静かに 本 を 読んで いた 。
この ほか 、 新しい 電車 が 走り 始めた 。
雨 が 降った ので 、 試合 は 中止 に なった 。
祖母 から もらった 時計 は 、 今 でも 正確に 動いて いる 。
"""
GOLD = SHARED / "data" / "gold"


@pytest.fixture(scope="module")
def model() -> Path:
    if not entry_points(group=MODELS):
        pytest.skip("jprep-words is not installed: pip install ./models/words")
    return find_model("")


@pytest.fixture(scope="module")
def installed(model: Path) -> Pointwise:
    return Pointwise()


class TestContract(SegmenterSuite):
    @pytest.fixture
    def segmenter(self, model: Path) -> Pointwise:
        return Pointwise()


def test_it_is_the_one_in_this_checkout_and_small(model: Path) -> None:
    assert model == ROOT / "models/words/jprep_words/words.model"
    assert model.stat().st_size <= 8_000_000


def test_its_card_states_the_licence_and_every_input(model: Path) -> None:
    card = read_model(model).card
    assert card.license == "CC BY-SA 4.0" and "README" in card.note
    listed = (ROOT / "models/words/README.md").read_text(encoding="utf-8")
    inputs = {each["file"] for kind in ("words", "text") for each in card.made_from[kind]}
    assert inputs and all(f"`{name}`" in listed for name in inputs)


def test_words_of_plain_sentences(installed: Pointwise) -> None:
    expected = [line.split() for line in SENTENCES.strip().splitlines()]
    assert [words.split(WORD) for words in installed.segment(["".join(words) for words in expected])] == expected


@pytest.mark.parametrize(("name", "least"), [("kwdlc", 0.98), ("wac", 0.97)])
def test_it_is_nearer_to_gold_than_the_default(installed: Pointwise, name: str, least: float) -> None:
    if not (dev := GOLD / name / "dev.seg.txt.gz").exists():
        pytest.skip(f"no gold here: {dev}")
    sentences = list(read_words(str(dev)))
    found = compare(sentences, installed).first.f1
    assert found > max(least, compare(sentences, JumandicSegmenter()).first.f1 + 0.01)
