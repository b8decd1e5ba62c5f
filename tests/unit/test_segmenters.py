"""The segmenters that run in this process, and what they share."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import WORD
from jprep.corpus.segmenters import inprocess
from jprep.corpus.segmenters.inprocess import InProcess
from jprep.corpus.segmenters.mecab import JumandicSegmenter, UnidicSegmenter
from jprep.corpus.segmenters.none import NoSegmenter
from jprep.corpus.segmenters.pieces import pieces, restore
from jprep.corpus.segmenters.sudachi import SudachiSegmenter
from jprep.errors import MachineError
from jprep.testing.conformance.segmenter import SegmenterSuite, word_f1

SHARED = Path(os.environ.get("JPREP_SHARED") or Path(__file__).parents[2].parent / "shared")

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=WORD))
MOSTLY_SPACE = st.text(st.sampled_from("東京タ a \t\n\r\v\f\0\u3000\u00a0。、"), max_size=40)


class TestJumandic(SegmenterSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def segmenter(cls):
        return JumandicSegmenter()

    def test_words_are_jumans(self, segmenter):
        assert segmenter.segment(["本を読んでいた。"]) == [WORD.join(["本", "を", "読んで", "いた", "。"])]

    def test_white_space_is_a_word_of_its_own(self, segmenter):
        assert segmenter.segment(["東京  タワー\t"]) == [WORD.join(["東京", " ", " ", "タワー", "\t"])]

    @given(text=TEXT | MOSTLY_SPACE)
    @settings(deadline=None)
    def test_any_text_is_given_back_whole(self, segmenter, text):
        assert segmenter.segment([text])[0].replace(WORD, "") == text

    def test_what_follows_more_white_space_than_mecab_counts_is_not_lost(self, segmenter):
        assert segmenter.segment([" " * 70_000 + "東京タワー"])[0].endswith(f"東京{WORD}タワー")

    @pytest.mark.parametrize("sign", ["{{", "[[", "<", "ア", "ａ", "1", "한", "_-", "\u3000", "\r"])
    def test_a_run_of_one_kind_takes_linear_time(self, segmenter, sign, monkeypatch):
        asked = []
        mark = segmenter.mark
        monkeypatch.setattr(segmenter, "mark", lambda text: asked.append(len(text)) or mark(text))
        text = f"東京の{sign * 30_000}塔"
        assert segmenter.segment([text])[0].replace(WORD, "") == text
        assert max(asked) <= 2 * segmenter.max_run
        assert sum(asked) <= len(text)

    def test_an_ordinary_text_is_asked_whole_however_long_it_is(self, segmenter, monkeypatch):
        asked = []
        monkeypatch.setattr(segmenter, "mark", lambda text: asked.append(text) or text)
        text = "https://example.org/a?b=1 は、東京タワーの写真（1958年）を載せる。" * 50
        assert segmenter.segment([text]) == [text] and asked == [text]

    def test_the_dictionary_is_in_the_provenance(self, segmenter):
        assert segmenter.provenance()["jumandic/sys.dic"].startswith("sha256:")

    @pytest.mark.parametrize(("corpus", "least"), [("kwdlc", 0.960), ("wac", 0.949)])
    def test_word_f1_on_gold(self, segmenter, corpus, least):
        path = SHARED / "data" / "gold" / corpus / "dev.seg.txt.gz"
        if not path.exists():
            pytest.skip(f"{path} is not here: set JPREP_SHARED")
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            gold = [line.rstrip("\n").split(" ") for line in file]
        found = [words.split(WORD) for words in segmenter.segment(["".join(words) for words in gold])]
        assert word_f1(gold, found) >= least


class TestUnidic(SegmenterSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def segmenter(cls):
        pytest.importorskip("unidic_lite", reason="the extra `unidic` is not installed")
        return UnidicSegmenter()


@pytest.mark.parametrize("mode", ["A", "B", "C"])
class TestSudachi(SegmenterSuite):
    @pytest.fixture
    def segmenter(self, mode):
        pytest.importorskip("sudachipy", reason="the extra `sudachi` is not installed")
        return SudachiSegmenter(SudachiSegmenter.Config(mode=mode))

    def test_the_mode_is_the_words_length(self, segmenter, mode):
        words = segmenter.segment(["国家公務員"])[0].split(WORD)
        assert len(words) == {"A": 3, "B": 2, "C": 1}[mode]

    def test_characters_that_normalise_to_many_are_taken(self, segmenter, mode):
        text = "\ufdfa" * 5_000
        assert segmenter.segment([text])[0].replace(WORD, "") == text
        assert not segmenter.tally


class TestNone(SegmenterSuite):
    @pytest.fixture
    def segmenter(self):
        return NoSegmenter()


@pytest.mark.parametrize(
    ("kind", "package", "fix"),
    [
        (JumandicSegmenter, "jumandic", "pip install fugashi jumandic"),
        (UnidicSegmenter, "unidic_lite", "pip install 'jprep[unidic]'"),
        (SudachiSegmenter, "sudachipy", "pip install 'jprep[sudachi]'"),
    ],
)
def test_a_missing_package_names_its_pip_command(monkeypatch, kind, package, fix):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MachineError, match="cannot be imported") as caught:
        kind()
    assert caught.value.fix == fix


class Liar(InProcess):
    """An analyser that changes its text."""

    name, version, max_bytes = "liar", 1, 100

    def mark(self, text):
        return text.upper()


def test_an_analyser_that_changes_its_text_is_not_believed():
    liar = Liar()
    assert liar.segment(["abc", "ABC"]) == ["abc", "ABC"]
    assert liar.tally == {"unsegmented.changed": 1}


@given(text=TEXT | MOSTLY_SPACE, size=st.integers(4, 60))
def test_pieces_join_to_the_text_and_none_is_too_long(text, size):
    cut = list(pieces(text, size))
    assert "".join(cut) == text
    assert all(0 < len(piece.encode()) <= size for piece in cut)
    assert all(len(piece) == 1 for piece in cut if "\n" in piece or "\0" in piece)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("一二。三四五、六七", ["一二。", "三四五、", "六七"]),
        ("一、二三四五六七", ["一、", "二三四五六", "七"]),
        ("一二三四五六七八", ["一二三四五", "六七八"]),
        ("ab。cd efghi jklmnopqrstu", ["ab。", "cd efghi ", "jklmnopqrstu"]),
    ],
)
def test_pieces_end_at_sentences_then_at_commas_and_spaces(text, cut):
    assert list(pieces(text, 15)) == cut


@pytest.mark.parametrize(
    ("text", "words", "restored"),
    [
        ("東京 タワー", ["東京", "タワー"], ["東京", " ", "タワー"]),
        (" \t東京 ", ["東京"], [" ", "\t", "東京", " "]),
        ("東京", ["東", "", "京"], ["東", "京"]),
        ("東京", ["東"], None),
        ("東京", ["東", "都"], None),
        ("東京", ["京"], None),
        ("  ", [], [" ", " "]),
    ],
)
def test_words_are_found_in_their_text_again(text, words, restored):
    assert restore(text, words) == restored


def test_a_file_that_changes_has_another_hash(tmp_path):
    path = tmp_path / "sys.dic"
    path.write_bytes(b"one")
    first = inprocess.sha256(path)
    path.write_bytes(b"three")
    assert inprocess.sha256(path) != first
