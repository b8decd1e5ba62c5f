"""Segmenters that call a library, and their base class."""

from __future__ import annotations

import gzip
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import WORD
from jprep.corpus.segmenters import library_segmenter
from jprep.corpus.segmenters.library_segmenter import LibrarySegmenter
from jprep.corpus.segmenters.mecab import JumandicSegmenter, UnidicSegmenter
from jprep.corpus.segmenters.none import NoSegmenter
from jprep.corpus.segmenters.spaces import WHITE_SPACE, SpacesSegmenter
from jprep.corpus.segmenters.sudachi import SudachiSegmenter
from jprep.corpus.segmenters.text_pieces import restore_spaces, split_text
from jprep.errors import MachineError
from jprep.testing.conformance.segmenter import SegmenterSuite, word_f1

SHARED = Path(os.environ.get("JPREP_SHARED") or Path(__file__).parents[3].parent / "shared")

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

    @pytest.mark.parametrize(
        "words",
        [
            ["A", ",", "\u3000", "B"],
            ["東京", "\u3000", "-", "\u3000", "タワー"],
            ["\u3000", "\u3000", "東京", "\u3000"],
        ],
    )
    def test_an_ideographic_space_is_a_word_of_its_own(self, segmenter, words):
        """MeCab joins it with the signs beside it."""
        assert segmenter.segment(["".join(words)]) == [WORD.join(words)]

    @given(text=TEXT | MOSTLY_SPACE)
    @settings(deadline=None)
    def test_joined_words_are_the_text(self, segmenter, text):
        assert segmenter.segment([text])[0].replace(WORD, "") == text

    def test_text_after_long_white_space_is_kept(self, segmenter):
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

    def test_long_text_is_segmented_in_one_call(self, segmenter, monkeypatch):
        asked = []
        monkeypatch.setattr(segmenter, "mark", lambda text: asked.append(text) or text)
        text = "https://example.org/a?b=1 は、東京タワーの写真（1958年）を載せる。" * 50
        assert segmenter.segment([text]) == [text] and asked == [text]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("大塚（おおつか）", "大塚|（|おおつか|）"),
            ("都市化(としか)とは", "都市|化|(|とし|か|)|と|は"),
            ("軍令部（ぐんれいぶ、英: x）と電気（でんき）", "軍令部|（|ぐんれいぶ|、|英|:| |x|）|と|電気|（|でんき|）"),
            ("本（ただし、古い）", "本|（|ただし|、|古い|）"),
            ("（おおつか）", "（|おお|つ|か|）"),
        ],
    )
    def test_a_reading_in_brackets_has_the_words_that_it_belongs_to(self, segmenter, text, words):
        assert segmenter.segment([text])[0].replace(WORD, "|") == words

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

    def test_mode_determines_word_length(self, segmenter, mode):
        words = segmenter.segment(["国家公務員"])[0].split(WORD)
        assert len(words) == {"A": 3, "B": 2, "C": 1}[mode]

    def test_characters_with_long_normalization(self, segmenter, mode):
        text = "\ufdfa" * 5_000
        assert segmenter.segment([text])[0].replace(WORD, "") == text
        assert not segmenter.tally


class TestNone(SegmenterSuite):
    @pytest.fixture
    def segmenter(self):
        return NoSegmenter()


class TestSpaces(SegmenterSuite):
    @pytest.fixture
    def segmenter(self):
        return SpacesSegmenter()

    def test_words_are_those_between_spaces(self, segmenter):
        text = "今日 は\u3000いい  天気\tです"
        words = segmenter.segment([text])[0].split(WORD)
        assert words == ["今日", " ", "は", "\u3000", "いい", " ", " ", "天気", "\t", "です"]
        assert [word for word in words if not word.isspace()] == text.split()

    @given(text=TEXT | MOSTLY_SPACE)
    @settings(deadline=None)
    def test_joined_words_are_the_text(self, text):
        segmented = SpacesSegmenter().segment([text])[0]
        assert segmented.replace(WORD, "") == text
        assert not [word for word in segmented.split(WORD) if len(word) > 1 and re.search(f"[{WHITE_SPACE}]", word)]


@pytest.mark.parametrize(
    ("kind", "package", "fix"),
    [
        (JumandicSegmenter, "jumandic", "pip install 'jprep[jumandic]'"),
        (UnidicSegmenter, "unidic_lite", "pip install 'jprep[unidic]'"),
        (SudachiSegmenter, "sudachipy", "pip install 'jprep[sudachi]'"),
    ],
)
def test_a_missing_package_names_its_pip_command(monkeypatch, kind, package, fix):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MachineError, match="which cannot be imported") as caught:
        kind()
    assert caught.value.fix == fix


class Liar(LibrarySegmenter):
    """A library that changes its text."""

    name, version, max_bytes = "liar", 1, 100

    def mark(self, text):
        return text.upper()


def test_library_that_changes_the_text_is_detected():
    liar = Liar()
    assert liar.segment(["abc", "ABC"]) == ["abc", "ABC"]
    assert liar.tally == {"unsegmented.changed": 1}


class Japanese(LibrarySegmenter):
    """A library that takes the characters of EUC-JP only."""

    name, version, max_bytes = "japanese-only", 1, 100

    def mark(self, text):
        text.encode("euc_jp")
        return WORD.join(text)


def test_a_text_that_a_library_cannot_encode_is_halved():
    segmenter = Japanese()
    assert segmenter.segment(["日本語😀です"]) == [WORD.join("日本語😀です")]
    assert segmenter.tally["halved.undecodable"] > 0


class Pairs(LibrarySegmenter):
    """A library in Python: it drops spaces, ends at a NUL, and takes lone surrogates."""

    name, version, max_bytes, max_run = "pairs", 1, 60, 8

    def mark(self, text):
        text = text.partition("\0")[0]
        return WORD.join(filter(None, (text[at : at + 2].strip() for at in range(0, len(text), 2))))


class TestLibraryInPython(SegmenterSuite):
    @pytest.fixture
    def segmenter(self):
        return Pairs()


@given(text=TEXT | MOSTLY_SPACE, size=st.integers(4, 60))
def test_pieces_join_to_the_text_within_the_limit(text, size):
    cut = list(split_text(text, size))
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
    assert list(split_text(text, 15)) == cut


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
def test_words_are_aligned_with_the_text(text, words, restored):
    assert restore_spaces(text, words) == restored


def test_changed_file_is_hashed_again(tmp_path):
    path = tmp_path / "sys.dic"
    path.write_bytes(b"one")
    first = library_segmenter.file_hash(path)
    path.write_bytes(b"three")
    assert library_segmenter.file_hash(path) != first
