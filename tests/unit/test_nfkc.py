"""NFKC per line, with its counts."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.normalizers.nfkc import NfkcNormalizer
from jprep.testing.conformance.normalizer import NormalizerSuite

SCALARS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
SPECIAL = "ａｶﾞﾞﾊﾟか\u3099\u309a㍿①ﷺ\ufa19ſ\u0323\u0307\uac01\u1100\u1161\n\n\r\u2028\u0085　\xa0é\u0958𝐀\U0002f800"
texts = st.text(st.sampled_from(SPECIAL)) | st.text()


class TestNfkc(NormalizerSuite):
    step = NfkcNormalizer
    pairs = (("ﾊﾝｶｸと ㍿", "ハンカクと 株式会社"),)


def normalize(text: str) -> tuple[str, dict[str, int]]:
    step = NfkcNormalizer()
    return step.apply(text), dict(step.tally)


@given(texts)
def test_each_line_is_its_nfkc_and_counts_add_up(text: str) -> None:
    result, tally = normalize(text)
    assert result.split("\n") == [unicodedata.normalize("NFKC", line) for line in text.split("\n")]
    changed = sum(a != b for a, b in zip(text.split("\n"), result.split("\n"), strict=True))
    assert tally.get("lines_changed", 0) == changed
    growth = sum(len(unicodedata.normalize("NFKC", c)) - 1 for c in text)
    assert len(result) - len(text) == growth - tally.get("composed.removed", 0)


def test_no_character_becomes_a_line_feed() -> None:
    lines = "\n".join(c for c in SCALARS if c != "\n")
    assert normalize(lines)[0].count("\n") == lines.count("\n")


def test_every_replaced_character_is_counted() -> None:
    text = "".join(SCALARS)
    tally = normalize(text)[1]
    changed = sum(unicodedata.normalize("NFKC", c) != c for c in SCALARS)
    assert sum(n for name, n in tally.items() if name.endswith(".replaced")) == changed


@pytest.mark.parametrize(
    ("text", "result", "counts"),
    [
        ("ＡＢ！", "AB!", {"wide.replaced": 3}),
        ("ｶﾞ", "ガ", {"narrow.replaced": 2, "composed.removed": 1}),
        ("か\u3099", "が", {"composed.removed": 1}),
        ("㍿①", "株式会社1", {"square.replaced": 1, "circle.replaced": 1}),
        ("\ufa19", "神", {"canonical.replaced": 1}),
        ("a\u0307\u0323", "a\u0323\u0307".replace("a\u0323", "ạ"), {"composed.removed": 1}),
        ("行\u2028行\u0085", "行\u2028行\u0085", {}),
    ],
)
def test_each_count(text: str, result: str, counts: dict[str, int]) -> None:
    assert normalize(text) == (result, {**counts, "lines_changed": 1} if counts else {})


def test_a_text_that_stays_is_the_same_object() -> None:
    text = "そのまま。\nabc"
    assert NfkcNormalizer().apply(text) is text


def test_lone_surrogates_stay() -> None:
    assert normalize("Ａ\ud800") == ("A\ud800", {"wide.replaced": 1, "lines_changed": 1})


def test_provenance() -> None:
    assert NfkcNormalizer().provenance() == {"unidata_version": unicodedata.unidata_version}
