"""Drop sentences that lost a number or a name with a template whose text is unknown.

`推計人口は{{人口}}人である。` would become `推計人口は人である。`, which is worse than no sentence. An unknown template
may also show nothing, or a note to the reader, and then the sentence is whole without it. The two are told apart by the
words beside the template: a sentence is dropped only if it is ungrammatical as it stands.
"""

from __future__ import annotations

import re
from functools import cache

from jprep.corpus.document import SENTENCE, Tally
from jprep.corpus.readers.wikitext.placeholders import CELL_START, DROPPED, GONE, HEADING, LOST
from jprep.corpus.splitters.rules import RuleSplitter

_UNIT = (
    r"(?:平方|立方)?(?:キロ|センチ|ミリ)?メートル|キログラム|トン|リットル|ヘクタール|世帯|[億万千百]*(?:円|ドル|ユーロ|ポンド|ウォン)|"
    r"[％%]|パーセント|[kcm]m[²³23]?(?![a-zA-Z])|m[²³23]|[㎞㎝㎡㎢]|ha(?![a-zA-Z])|[かヶカ]国|[かヶ箇]所|番目|歳|位|隻|世紀|年度|[年月日]現在"
)
"""A unit that follows a number. Few words begin like one."""
_COUNTER = r"[人名年月日時分秒度倍回本個件番号戸校社]"
"""A unit that is a word or the beginning of one as well."""
_QUANTITY = rf"[億万千百]*(?:{_COUNTER}|[台基])|m(?![a-zA-Z0-9])"
"""A counter with what a number may end in (およそ…万人), or a word, where what stands before asks for a number."""
_BEHIND_COUNTER = r"(?=で(?:あ[りるっ]|す|し|、)|あ[りるっ]|だ[。っ]|と(?:な[りるっ]|され)|[、。）)をほ程以前]|\Z)"
_BEHIND_UNIT = rf"(?:{_BEHIND_COUNTER}|(?=[にがの]))"
_ENDS = r"(?=で(?:あ[りるっ]|す|し)|だ[。っ]|[。）)]|\Z)"

_KANA = "ぁ-んー"
_COPULA = r"で(?:あ[りるっ]|す|し[たて])|だ(?:[。）)]|った|\Z)"
_OBJECT = rf"を(?:[^{_KANA}]|も[ちつっ]|[さしすせ]|お[いかこ]|い[いうっ])"
_BY = r"に(?:よ[りるれっ]|お[いけ]て?|対|関|つい)"
_PARTICLE = rf"{_OBJECT}|{_BY}|{_COPULA}|は[^{_KANA}]|[がのに][^{_KANA}、，]|から[^{_KANA}、，]|へ[^{_KANA}、，]"
"""A particle or copula, as far as what follows shows that no word begins with it."""

_START = r"(?:\A|[。！？「『（(【〈《])[ \u3000]*\Z"
_NOUN = r"[一-鿿々〇ァ-ヶーA-Za-z0-9）)」』]"

_MEASURE = r"(?:長|高|深|重|広|大き|速)さ"

_LOSSES = (
    # A number before its unit.
    ("[約計第]|人口|面積|標高|世帯数|密度", rf"(?:{_UNIT}|{_COUNTER}){_BEHIND_UNIT}|(?:{_QUANTITY}){_BEHIND_COUNTER}"),
    (
        rf"およそ|[延の]べ|総勢|平均|推定|{_MEASURE}[はが]?",
        rf"(?:{_UNIT}){_BEHIND_UNIT}|(?:{_QUANTITY}){_BEHIND_COUNTER}",
    ),
    (rf"{_NOUN}[はが]", rf"(?:{_UNIT}){_BEHIND_UNIT}|{_COUNTER}{_BEHIND_COUNTER}"),
    (_START, rf"(?:{_UNIT}){_BEHIND_UNIT}"),
    ("、", rf"(?:{_UNIT}|{_COUNTER}){_ENDS}|{_BY}"),
    # A number of years.
    (r"(?<!れ)から|以来", r"年(?:が(?:経|た[ちっつ]|過ぎ)|間?にわた|間続|にな[りるっ])"),  # not それから、年が経った
    (rf"現在|{_NOUN}は", rf"歳{_BEHIND_UNIT}|年にな[りるっ]"),
    # A name before its particle.
    (_START, _PARTICLE),
    (rf"(?:{_NOUN}|{_MEASURE})は", rf"{_OBJECT}|{_BY}|{_COPULA}|[がのに][^{_KANA}、，]"),
    (rf"{_NOUN}を", rf"{_OBJECT}|{_BY}|が[^{_KANA}、，]|から[^{_KANA}、，]"),
    (rf"{_NOUN}の", rf"{_OBJECT}|{_BY}|{_COPULA}|に[^{_KANA}、，]"),
    (rf"{_NOUN}[にでも]", _OBJECT),
)
"""What is before and after a lost text that the sentence cannot do without."""

_HOLE = re.compile(rf"(?<![{GONE}])[{GONE}]*{LOST}[{GONE}]*")
_ONLY_UNIT = re.compile(rf"[ {GONE}]*(?:{_UNIT}|{_QUANTITY})[。 {GONE}]*")
"""A cell of a table that lost its number."""

_REACH = 8
_OPENERS, _CLOSERS = "（(", "）)"
_SPLITTER = RuleSplitter()


def drop_incomplete(text: str, tally: Tally) -> str:
    """Drop the sentences that a lost template makes ungrammatical; in round brackets, only what the brackets hold.

    Args:
        text: paragraphs, one per line, with the placeholders of missing text.
        tally: receives the counts `incomplete.sentences`, `incomplete.brackets` and `incomplete.cells`.

    Returns:
        The text without `LOST`. What is dropped leaves `DROPPED`.
    """
    if LOST not in text:
        return text
    lines = [_repaired(line, tally) if LOST in line else line for line in text.split("\n")]
    return "\n".join(lines).replace(LOST, DROPPED)


def _repaired(line: str, tally: Tally) -> str:
    if line.startswith(HEADING) or "\t" in line:  # a row of a table is not a sentence
        return line
    head = CELL_START if line.startswith(CELL_START) else ""
    if head and _ONLY_UNIT.fullmatch(line, len(head)):
        tally["incomplete.cells"] += 1
        return head
    sentences = _SPLITTER.mark(line[len(head) :]).split(SENTENCE)
    return head + "".join(_complete(sentence, tally) if LOST in sentence else sentence for sentence in sentences)


def _complete(sentence: str, tally: Tally) -> str:
    """Return a sentence, without a broken pair of brackets; or `DROPPED` if it is broken elsewhere."""
    kept: list[str] = []
    done = 0
    for hole in _HOLE.finditer(sentence):
        if hole.start() < done or not _breaks(sentence, hole.start(), hole.end()):
            continue
        start, end = _brackets_around(sentence, hole.start(), hole.end(), done)
        if end < 0:
            tally["incomplete.sentences"] += 1
            return DROPPED
        tally["incomplete.brackets"] += 1
        kept += sentence[done:start], DROPPED
        done = end
    return "".join((*kept, sentence[done:]))


def _breaks(text: str, start: int, end: int) -> bool:
    """Return whether a text is ungrammatical without what was lost from `start` to `end`."""
    before, after = text[max(0, start - _REACH) : start], text[end : end + 3 * _REACH]
    before, after = before.replace(DROPPED, ""), after.replace(DROPPED, "")
    return any(left.search(before) and right.match(after) for left, right in _losses())


@cache
def _losses() -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    """Return `_LOSSES` as patterns. Compiling them takes longer than a small dump, which rarely needs them."""
    return [(re.compile(rf"(?:{before})\Z"), re.compile(after)) for before, after in _LOSSES]


def _brackets_around(text: str, start: int, end: int, floor: int) -> tuple[int, int]:
    """Return the range of the innermost pair of round brackets around a part of the text, or an end of -1."""
    opener = max(text.rfind(sign, floor, start) for sign in _OPENERS)
    closer = min((at for sign in _CLOSERS if (at := text.find(sign, end)) >= 0), default=-1)
    nested = any(sign in text[opener + 1 : start] for sign in _CLOSERS)
    nested = nested or any(sign in text[end:closer] for sign in _OPENERS)
    return (0, -1) if opener < 0 or closer < 0 or nested else (opener, closer + 1)
