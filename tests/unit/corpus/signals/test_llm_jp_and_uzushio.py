"""The measures of LLM-jp and Uzushio, and compression."""

from __future__ import annotations

import math
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.published.compression import DeflateSignal, Lz4Signal
from jprep.corpus.signals.published.llm_jp import LlmJpSignals
from jprep.corpus.signals.published.uzushio import UzushioSignals
from jprep.corpus.step import Signal


def measured(signal: Signal, *texts: str, url: str = "") -> dict[str, list[float]]:
    found = signal.measure(TextBatch([Document(str(number), "s", "", url, text) for number, text in enumerate(texts)]))
    assert tuple(found) == signal.columns
    return {name: values.tolist() for name, values in found.items()}


def test_llm_jp_looks_for_kana_in_fifty_characters() -> None:
    found = measured(LlmJpSignals(), "漢" * 49 + "ア", "漢" * 50 + "あ", "ー", "ヴ", "")
    assert found["llm_jp_kana_at_start"] == [1, 0, 0, 0, 0]


def test_llm_jp_counts_characters_per_full_stop() -> None:
    found = measured(LlmJpSignals(), "あ。いう。", "あ！", "")["llm_jp_mean_sentence"]
    assert found[:2] == [2.5, math.inf] and math.isnan(found[2])


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("https://www.example.jp/a", 1),
        ("http://EXAMPLE.COM:80/", 1),
        ("https://example.cn/", 0),
        ("https://ja.wikipedia.org/wiki/x", 0),
        ("http://[broken", 0),
        ("no address", 0),
    ],
)
def test_llm_jp_judges_the_domain(url: str, value: int) -> None:
    signal = LlmJpSignals(LlmJpSignals.Config(domains=["jp", "com", "org"]))
    assert measured(signal, "あ", url=url)["llm_jp_domain"] == [value]


def test_a_document_without_a_url_has_no_domain() -> None:
    assert math.isnan(measured(LlmJpSignals(), "あ")["llm_jp_domain"][0])


def test_deflate_is_zlib_at_its_level() -> None:
    text = "いろはにほへと" * 50
    size = len(text.encode())
    assert measured(DeflateSignal(), text)["deflate_ratio"] == [len(zlib.compress(text.encode(), 9)) / size]
    assert math.isnan(measured(DeflateSignal(), "")["deflate_ratio"][0])


def test_lz4_ignores_line_feeds_and_reads_one_mebibyte() -> None:
    pattern = "".join(map(chr, range(0x4E00, 0x4E00 + 2000)))
    text = (pattern * 200)[: (1 << 20) // 3]
    one, lines, longer, empty = measured(Lz4Signal(), text, text[:9] + "\n" + text[9:], text + "a" * 900_000, "\n")[
        "lz4_ratio"
    ]
    assert one == lines == pytest.approx(longer, rel=1e-3)
    assert math.isnan(empty)


def test_lz4_compresses_like_lz4_java() -> None:
    """659 bytes as from `LZ4_compress_default` of LZ4 1.9.4; its streaming interface finds 657."""
    text = "".join(f"第{number * 7919 % 997}の駅で降りて{number * 104729 % 89}分ほど歩く。" for number in range(60))
    assert measured(Lz4Signal(), text)["lz4_ratio"] == [659 / 2626]


def test_random_text_does_not_shrink_under_lz4() -> None:
    assert measured(Lz4Signal(), "".join(map(chr, range(0x4E00, 0x5000))))["lz4_ratio"][0] > 0.95


@given(st.lists(st.text(st.sampled_from("あゟ゙ア漢𠮷😀a\n")), max_size=4))
def test_uzushio_counts_code_units(texts: list[str]) -> None:
    found = measured(UzushioSignals(), *texts)
    units = [len(text.replace("\n", "").encode("utf-16-le")) // 2 for text in texts]
    hiragana = [sum("\u3040" <= char <= "\u309f" for char in text) for text in texts]
    assert found["uzushio_length"] == units
    assert found["uzushio_hiragana_share"] == [
        part / max(whole, 1) for part, whole in zip(hiragana, units, strict=True)
    ]
