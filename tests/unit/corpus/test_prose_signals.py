"""The signal prose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.prose.code import code_mask
from jprep.corpus.signals.prose.signal import ProseSignals

PROSE = "朝から雨が降っていたので、駅まで傘を差して歩いた。友人はもう改札の前で待っていて、手を振っている。"


def batch(*texts: str) -> TextBatch:
    return TextBatch([Document(str(index), "web", "", "", text, "", {}) for index, text in enumerate(texts)])


def measure(*texts: str) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in ProseSignals().measure(batch(*texts)).items()}


def code_of(text: str) -> str:
    """Return the characters of a text that belong to code."""
    laid_out = batch(text)
    return "".join(
        char for char, code in zip(laid_out.joined, code_mask(laid_out), strict=True) if code and char != "\n"
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("次のように書く。\n```python\nprint(1)\n説明\n```\n以上。", "```pythonprint(1)説明```"),
        ("次のように書く。\nint main() { return 0; }\n以上。", "int main() { return 0; }"),
        ("値は`x`と`y`です。", "`x``y`"),
        ("値は`xです。\n次も`です。", ""),
        ("詳しくは[こちら](https://example.com/a)へ。", "(https://example.com/a)"),
        ("次の[表](c\nd)を見る。", "(c"),
        ("これは普通の文です（括弧も、記号もある）。", ""),
        ("It is a plain English sentence without any code", ""),
        ("", ""),
    ],
)
def test_finds_code(text: str, code: str) -> None:
    assert code_of(text) == code


def test_fences_do_not_pair_with_those_of_another_document() -> None:
    closed, unclosed = "```\nコード\n```", f"```\nコード\n```\n{PROSE}\n~~~お知らせ~~~\n{PROSE}"
    three = batch(f"~~~お知らせ~~~\n{PROSE}", unclosed, closed)
    mask = code_mask(three)
    assert three.sums(mask).tolist() == [0, len("```\nコード\n```\n"), len(closed)]


def test_a_decorated_title_is_no_fence() -> None:
    decorated = f"~~~お知らせ~~~\n{PROSE}\n~~~ 連絡先 ~~~\n{PROSE}"
    fenced = f"~~~python\n{PROSE}\n~~~~\n{PROSE}"
    both = batch(decorated, fenced)
    assert both.sums(code_mask(both)).tolist() == [0, len(f"~~~python\n{PROSE}\n~~~~\n")]


def test_repetition_does_not_grow_with_length() -> None:
    numbered = "".join(f"{n}番目の箱には{n * 7919 % 10007}個の石が入っている。" for n in range(3000))
    short, long = measure(numbered[:4000], numbered)["repeated_share"]
    assert long == pytest.approx(short, abs=0.05)
    assert measure("続きを読む" * 20)["repeated_share"][0] > 0.9
    assert measure(PROSE)["repeated_share"] == [0]


def test_grammar_tells_sentences_from_keywords() -> None:
    keywords = "格安 航空券 予約 比較 最安値 国内 海外 旅行 ホテル 温泉 口コミ 人気 送料 無料 限定 特価 通販 会員"
    prose, listed = measure(PROSE, keywords)["grammar_share"]
    assert prose > 0.2
    assert listed < 0.09


def test_one_line_of_prose_counts_if_it_is_long_enough() -> None:
    names = "\n".join(["佐藤商店", "鈴木工業", "高橋製作所", "田中運輸", "伊藤電機"] * 8)
    listed, article, short = measure(names, f"{PROSE}\n{names}", f"雨が降った。\n{names}")["best_grammar_share"]
    assert article == measure(PROSE)["grammar_share"][0] > 0.2
    assert listed < short < 0.1


def test_affinity_tells_words_from_random_kana() -> None:
    random = "".join(
        np.random.default_rng(1).choice(list("あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほ"), 80)
    )
    story, noise = measure("むかし、あるところに、ちいさなおんなのこがすんでいました。", random)["kana_affinity"]
    assert story > 0 > -0.5 > noise


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "gbk"])
def test_finds_text_of_a_wrong_encoding(encoding: str) -> None:
    wrong = PROSE.encode().decode(encoding, "replace")
    right, broken = measure(PROSE, wrong)["unusual_share"]
    assert right == 0
    assert broken > 0.15


def test_shares_of_nothing_do_not_apply() -> None:
    values = measure("", "\n", "x = [1, 2];")
    assert np.isnan(values["prose_japanese_share"]).all()
    assert np.isnan(values["code_share"][0])
    assert values["code_share"][2] == 1


def test_no_documents() -> None:
    assert set(map(len, measure().values())) == {0}


TEXTS = st.text(st.sampled_from("あのはがを漢字カナ。、 \n`~[](){};=x1!★ｱ縺\ufffd😀"), max_size=60)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_a_document_is_measured_alike_in_every_batch(texts: list[str]) -> None:
    together = measure(*texts)
    for index, text in enumerate(texts):
        alone = measure(text)
        assert {name: repr(values[index]) for name, values in together.items()} == {
            name: repr(values[0]) for name, values in alone.items()
        }
