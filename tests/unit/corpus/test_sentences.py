"""Sentence boundaries: each rule, and properties that hold for any text."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jprep import split_sentences
from jprep.corpus.document import UNMARK
from jprep.corpus.normalizers.neologdn import NeologdnNormalizer
from jprep.corpus.splitters import arrays
from jprep.corpus.splitters.lines import BracketLine, find_ends, plain_ends
from jprep.corpus.splitters.patterns import MAX_BRACKET_CHARS, MAX_INSERTION_CHARS
from jprep.corpus.splitters.rules import _MANY, RuleSplitter
from jprep.corpus.splitters.unsplit import NoSplitter
from jprep.testing.conformance.splitter import SplitterSuite

SHARED = Path(os.environ.get("JPREP_SHARED", Path(__file__).parents[3].parent / "shared"))
BRACKETS = '「」『』（）()｢｣［］[]｛｝{}【】〈〉《》〔〕〖〗≪≫«»“”‘’〝〟"'
PLAIN = "あいとのをがにはそこ漢一アA1。。。！？!?．.、…-=　 \t\u2028"


class TestRules(SplitterSuite):
    step = RuleSplitter
    pairs = (("一。二。", ["一。", "二。"]), ("「一。二。」と\n三。四", ["「一。二。」と", "三。", "四"]))


class TestUnsplit(SplitterSuite):
    step = NoSplitter
    pairs = (("一。二。\n三。", ["一。二。", "三。"]),)


plain = st.text(st.sampled_from(PLAIN + "\n"), max_size=40)
texts = st.text(st.sampled_from(PLAIN + "\n\n" + BRACKETS + "「」（）()" * 4), max_size=60) | st.text()


def split(marked: str) -> list[str]:
    """Return the sentences of a text with ‖ at their ends."""
    return [sentence for line in marked.split("\n") for sentence in line.split("‖") if sentence]


@pytest.mark.parametrize(
    "marked",
    [
        "雨が降る。‖風が吹く。",
        "行く！‖来る？‖帰る!‖寝る?‖起きる｡‖歩く．‖走る.‖終わり",
        "何だって！？‖そうか。。。‖ああ!!‖うん。！",
        "はい。　‖いいえ。 \tでも".replace("\tで", "\t‖で"),
        "改行の前。\nあと。　\n　\n\nもう一つ",
        "円周率は3.14で、ver.2の値は１．５、J.S.バッハは一．二の順。‖以上．．．まだ続く",
        "これは例です．‖次の文です. ‖終わり",
        "彼は「行く。帰る。」と言った。‖（笑うな。泣くな。）",
        "『注文の多い。店』【済。み】〈あ。い〉《う。え》［お。か］〔き。く〕(け。こ)[さ。し]{す。せ}“そ。た”を読む。‖次。",
        "‘ち。つ’を読む。‖次。",
        "入れ子（「あ。『い。』う。」え。）お。‖か。",
        "（全角で開き。半角で閉じる。)の例。‖次。",
        "「そうだ。」‖「違う。」‖彼は黙った。",
        "「そうだ。」と彼は言い、「違う。」は取り消した。",
        "「行けー！」「やれー！」などの声。‖『急げ！』編を見る。",
        "出た。‖（ただし例外もある。）‖次の文。",
        "例外（特にない。）を除く。",
        "引用だ。）‖閉じ忘れ。」 ‖次",
        "ヤフー！の株、誰か？と問う、やった！って話、本当？、嘘！…まあ。",
        "Yahoo!ニュースを見た!‖とても良い。‖生年?-没年? - 不明。 ‖a != b",
        "えっ！‖とにかく行く！‖のんびりする？‖にんじんを！‖がんばれ",
        "大事件である。を引く",
        "馬鹿者！　と、心で叱る。‖なぜだ？ と言う!　‖とても",
        "例である．‖2節で示した．‖Webの表．2、これらの.357、学ぶ.txt、い.1、する.jpを見た。",
        'もう帰る。‖行く。"\n行く。" \n"来る。"\n（済んだ。"）\n終わる。""',
        "https://a.jp/?id=3とa.php?b[]=3&c=4を見る。‖本当?‖なら=を書く。‖100?‖この式=は",
        "恐しい海だ！‖――さすがの彼も",
    ],
)
@pytest.mark.parametrize("normalized", [False, True])
def test_rules(marked: str, normalized: bool) -> None:
    if normalized and "‘" in marked:
        pytest.skip("neologdn makes ‘ ’ a grave accent and an apostrophe, which are no brackets")
    if normalized:
        marked = "\n".join("‖".join(map(NeologdnNormalizer().apply, line.split("‖"))) for line in marked.split("\n"))
    assert split_sentences(marked.replace("‖", "")) == split(marked)


def test_unclosed_bracket_does_not_affect_other_sentences() -> None:
    assert split_sentences("彼は「こう言った。そして。帰った。") == ["彼は「こう言った。", "そして。", "帰った。"]
    assert split_sentences("彼は（笑「そう。だ。」と言う。次。") == ["彼は（笑「そう。だ。」と言う。", "次。"]
    assert split_sentences("前。」後。「中。外」。次。") == ["前。」", "後。", "「中。外」。", "次。"]


def test_brackets_end_at_line_ends() -> None:
    assert split_sentences("「あ。い\nう。え」お。か") == ["「あ。", "い", "う。", "え」お。", "か"]


def test_long_bracket_contains_sentences() -> None:
    inside = "う。" * (MAX_BRACKET_CHARS // 2)
    assert split_sentences(f"「{inside}」と") == [f"「{inside}」と"]
    assert split_sentences(f"「{inside}え」と") == ["「う。", *["う。"] * (MAX_BRACKET_CHARS // 2 - 1), "え」と"]


@pytest.mark.parametrize("before", ["道を行く．", "「行く。」", "道を行く。 "])
def test_long_brackets_behind_a_sentence_contain_sentences(before: str) -> None:
    inside = "川を渡る。" * 30
    assert len(split_sentences(f"{before}（{inside}）次")) >= 30


@pytest.mark.parametrize("end", ["。）", "え）"])
def test_an_insertion_in_brackets_may_be_longer(end: str) -> None:
    inside = ("い。" * (MAX_INSERTION_CHARS // 2 - 1))[: MAX_INSERTION_CHARS - len(end) + 1]
    for text in (f"山（{inside}{end}を守る。", "丘を行く。\n" * 6_000 + f"山（{inside}{end}を守る。"):
        assert split_sentences(text)[-1] == f"山（{inside}{end}を守る。"
        assert len(split_sentences(text.replace("山", ""))) > len(split_sentences(text))
        assert len(split_sentences(text.replace("山（", "山（いいい"))) > len(split_sentences(text))


@settings(max_examples=500)
@given(texts)
@example("。\r\n。\u2028\n")
@example("！)とあ。")
def test_joined_sentences_are_the_text(text: str) -> None:
    sentences = split_sentences(text)
    clean = text.translate(UNMARK)
    assert "".join(sentences) == clean.replace("\n", "")
    assert "" not in sentences
    assert RuleSplitter().mark(clean).replace("\x1e", "") == clean
    assert [s for line in RuleSplitter().mark(clean).split("\n") for s in line.split("\x1e") if s] == split_sentences(
        clean
    )


@given(texts)
def test_no_sentence_after_the_first_of_its_line_is_blank(text: str) -> None:
    for line in RuleSplitter().mark(text.replace("\x1e", "")).split("\n"):
        assert all(not sentence[:1].isspace() for sentence in line.split("\x1e")[1:])


@given(texts)
def test_lines_are_split_independently(text: str) -> None:
    assert split_sentences(text) == [sentence for line in text.split("\n") for sentence in split_sentences(line)]


@settings(max_examples=500)
@given(plain)
def test_fast_path_without_brackets_gives_the_same_ends(text: str) -> None:
    for line in text.split("\n"):
        assert plain_ends(line, 0, len(line)) == BracketLine(line, 0, len(line)).ends()


@settings(max_examples=1_000)
@given(texts)
@example('漢と=1。"\n一。二')
@example("「S.M.H.」VOL.8では、『あ...』「い。」う。え")
@example("“あ。 ”い。(う。「え！」お。)か。「き。」「く？」け。「こ」。」さ𠮟。")
def test_arrays_give_the_ends_of_lines(text: str) -> None:
    assert arrays.find_ends(text).tolist() == find_ends(text)


@given(texts, st.integers(1, 150))
def test_arrays_agree_on_long_brackets(text: str, length: int) -> None:
    long = f"{text}「あ。{'い' * length}！『う』」と。えー。「か。{'き' * length}。」く{text}"
    assert arrays.find_ends(long).tolist() == find_ends(long)


@given(st.lists(texts))
def test_texts_marked_together_are_marked_as_alone(some: list[str]) -> None:
    clean = [text.translate(UNMARK) for text in some]
    alone = [RuleSplitter().mark(text) for text in clean]
    assert RuleSplitter().mark_all(clean) == alone
    many = clean * (1 + _MANY // max(1, sum(map(len, clean))))
    assert RuleSplitter().mark_all(many) == alone * (len(many) // max(1, len(alone)))


@given(plain)
def test_a_sentence_without_brackets_is_one_sentence(text: str) -> None:
    for sentence in split_sentences(text):
        assert split_sentences(sentence) == [sentence]


@settings(max_examples=500)
@example(text="1111!とに", bracket="「", at=6)
@given(plain.map(lambda text: text.replace("\n", "")), st.sampled_from(BRACKETS), st.integers(0, 40))
def test_one_stray_bracket_changes_at_most_one_end(text: str, bracket: str, at: int) -> None:
    at = min(at, len(text))
    before = _ends(split_sentences(text))
    after = {end - (end > at) for end in _ends(split_sentences(text[:at] + bracket + text[at:]))}
    reach = 1 + _spaces_and_marks(text, at)  # a particle behind a mark is judged by the character after it
    assert all(abs(end - at) <= reach for end in before ^ after)


def _ends(sentences: list[str]) -> set[int]:
    ends, total = set(), 0
    for sentence in sentences:
        total += len(sentence)
        ends.add(total)
    return ends


def _spaces_and_marks(text: str, at: int) -> int:
    """How far from a place the run of marks and spaces around it reaches."""
    left, right = at, at
    while left and not text[left - 1].isalnum():
        left -= 1
    while right < len(text) and not text[right].isalnum():
        right += 1
    return max(at - left, right - at)


@pytest.mark.parametrize(
    "hostile",
    [
        "「",
        "」",
        "。",
        "！",
        "．",
        "「。",
        "「。」",
        "（「",
        "。」",
        "！を",
        "（あ。）",
        " （あ。）",
        "「あ。い\n",
        "。\n",
        "！ ",
        "」 ",
        '"',
        '"。"',
        "（あ）",
        "（あ）い。\n",
        "（あ。い）（",
    ],
)
def test_linear_on_hostile_text(hostile: str) -> None:
    """A quadratic pass over any of these would take hours."""
    text = hostile * (300_000 // len(hostile)) + "あ。い"
    assert "".join(split_sentences(text)) == text.replace("\n", "")


def test_no_splitter_keeps_the_text() -> None:
    assert NoSplitter().mark("あ。い。\nう。") == "あ。い。\nう。"


def test_score_on_the_kyoto_corpus() -> None:
    gold = SHARED / "data/gold/kyoto_wiki-A.jsonl.gz"
    if not gold.exists():
        pytest.skip("the shared data is absent")
    hit = extra = missed = 0
    with gzip.open(gold, "rt", encoding="utf-8") as articles:
        blocks = [block for i, line in enumerate(articles) if i % 16 == 1 for block in json.loads(line)["blocks"]]
    for paragraph in (block["p"] for block in blocks if len(block.get("p", [])) > 1):
        wanted = _ends(paragraph)
        found = _ends(split_sentences("".join(paragraph))) & set(range(max(wanted)))
        hit, extra = hit + len(wanted & found), extra + len(found - wanted)
        ends_in_mark = {end for end, sentence in zip(sorted(wanted), paragraph, strict=False) if sentence[-1:] == "。"}
        missed += len((ends_in_mark - {max(wanted)}) - found)
    assert 2 * hit / (2 * hit + extra + missed) > 0.994
