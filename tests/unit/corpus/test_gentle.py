"""The normalizer `gentle`: one width for each character, nothing deleted that has a meaning."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.normalizers.gentle import FORMS, JOINED, GentleNormalizer
from jprep.testing.conformance.normalizer import NormalizerSuite

SPECIAL = "".join(characters for characters, _ in FORMS.values())
NEIGHBOURS = "かガハぱうヽ゛゜\u3099\u309aＡa1 　\u00a0\t\n\n—―–−〜~・|漢한ー"
texts = st.text(st.sampled_from(SPECIAL + NEIGHBOURS * 3)) | st.text()


class TestGentle(NormalizerSuite):
    step = GentleNormalizer
    pairs = (("Ｌｉｎｕｘ　と ｶﾞ", "Linux と ガ"),)


def normalize(text: str, latin_spaces: str = "keep") -> tuple[str, Counter[str]]:
    step = GentleNormalizer(GentleNormalizer.Config(latin_spaces=latin_spaces))  # type: ignore[arg-type]
    return step.apply(text), Counter(step.tally)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("ＡＢＣ（１２３）！？", "ABC(123)!?"),
        ("＂＇＼｀", "\"'\\`"),
        ("ｶﾞｷﾞ｢ﾊﾟﾝ｣､ﾃﾞﾞ｡", "ガギ「パン」、デ゛。"),
        ("か\u3099は゜ウ゛う゛ヽ゛あ゛", "がぱヴゔヾあ゛"),
        ("￥１００、￠￡￢￩", "¥100、¢£¬←"),
        ("東京～大阪、０３‐１２３４‑５", "東京〜大阪、03-1234-5"),
    ],
)
def test_forms(text: str, normalized: str) -> None:
    assert normalize(text)[0] == normalized


@pytest.mark.parametrize(
    "text",
    [
        "彼は――そう、私も——言った。",
        "1990–2000年、10〜20人、−5度、ええ〜っ、スーーパー",
        "Linux と Windows を使う。山田 太郎 さん。第1章 序論。神戸 - Kobe",
        "안녕 하세요 세계",
        "    if x == 1:  # 値\n\treturn 'a  b'",
        "| 名前  | 値 |\n|-------|----|\n| 川    | 31 |",
        "“引用” ‘a’ ¥100 ㈱ ① ㌔ ﬁ 神\ufa19 髙 ʼ … ‥ ─ ━ ・・",
    ],
)
def test_what_has_a_meaning_stays(text: str) -> None:
    assert normalize(text) == (text, {})


@given(texts, st.sampled_from(["keep", "remove"]))
def test_a_second_pass_changes_nothing(text: str, latin_spaces: str) -> None:
    once, _ = normalize(text, latin_spaces)
    assert normalize(once, latin_spaces) == (once, {})


@given(texts, st.sampled_from(["keep", "remove"]))
def test_counts_add_up(text: str, latin_spaces: str) -> None:
    result, tally = normalize(text, latin_spaces)
    assert len(text) - len(result) == tally["voicing_marks.removed"] + tally["spaces.removed"]
    assert sum(map(text.count, SPECIAL)) == sum(n for name, n in tally.items() if name.endswith(".replaced"))
    assert tally["lines_changed"] == sum(a != b for a, b in zip(text.split("\n"), result.split("\n"), strict=True))


@given(texts)
def test_text_keeps_its_compatibility_form(text: str) -> None:
    """Only widths, hyphens and voicing marks change, and NFKC equates nearly all of these."""
    unify = str.maketrans({"〜": "~", "‐": "-", "゛": "\u3099", "゜": "\u309a"})

    def folded(source: str) -> str:
        source = source.translate(unify).replace("～", "~").replace("‑", "-")
        return unicodedata.normalize("NFKC", source.replace("ﾞ", "\u3099").replace("ﾟ", "\u309a"))

    assert folded(normalize(text)[0]) == folded(text)


def test_spaces_beside_latin_words_go_on_both_sides_or_on_neither() -> None:
    text = "日本の Linux と Windows 11 を、 Mac  で 使う。 A 山田 太郎  |a"
    assert normalize(text)[0] == text
    removed, tally = normalize(text, "remove")
    assert removed == "日本のLinuxとWindows 11を、 Mac  で 使う。 A山田 太郎  |a"
    assert tally == {"spaces.removed": 5, "lines_changed": 1}


def test_no_form_and_no_joined_kana_changes_again() -> None:
    forms = {form for _, each in FORMS.values() for form in each}
    assert not forms & set(SPECIAL)
    assert not set(JOINED.values()) & {pair[0] for pair in JOINED}
