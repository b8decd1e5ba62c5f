"""Characters and patterns of sentence boundaries; `docs/sentences.md` describes the rules with examples."""

from __future__ import annotations

import re

MAX_BRACKET_CHARS = 100
"""No sentence ends inside a pair of brackets of up to this many characters. Longer pairs hold complete sentences, or
their brackets do not belong together."""
MAX_INSERTION_CHARS = 250
"""The same for brackets, other than those of quotations, that open inside a sentence, as in the definitions of laws."""

BRACKETS = '「」『』（）()｢｣［］[]｛｝{}【】〈〉《》〔〕〖〗〘〙〚〛≪≫«»“”‘’〝〟""'
NARROW = str.maketrans("｢（［｛", "「([{")
OPENERS = {opener: opener.translate(NARROW) for opener in BRACKETS[::2]}
CLOSERS = {closer: OPENERS[opener] for opener, closer in zip(BRACKETS[::2], BRACKETS[1::2], strict=True)}
"""Bracket → kind of its pair. A bracket and its half-width form have the same kind. The straight quotation mark both
opens and closes."""
QUOTES = frozenset('「『“〝"')

FULL_STOPS, QUESTION_MARKS, PERIODS = "。｡", "！？!?", "．."
MARKS = FULL_STOPS + QUESTION_MARKS
ENDERS = MARKS + PERIODS
JAPANESE, LATIN = "ぁ-んァ-ヶー一-鿿々", "A-Za-zＡ-Ｚａ-ｚ"
NUMERALS = "一二三四五六七八九十"
PREDICATE = "るたすだいうねよ"
ANY_BRACKET, CLOSING = re.escape("".join(OPENERS | CLOSERS)), re.escape("".join(CLOSERS))
ENDING = "".join(CLOSERS) + " \u3000"
"""What may follow the last end mark of a line."""
SPACES = r"[^\S\n]*+"

CONTINUES = (
    rf"{SPACES}[\-‐−–→～〜~=＝]|(?<=[{LATIN}][{QUESTION_MARKS}])[ァ-ヶ{LATIN}]|(?<=[!-~]\?)[A-Za-z][A-Za-z\d_.\[\]-]*+="
    rf"|[、，,‥…・/／を{ENDERS}]|など|って"
    r"|の(?![ちどびりろん])|が(?![っん])|に(?![おぎこしじっほゃゅわん])"
    rf"|{SPACES}と(?![うおかきくこってどなにばはびもりれろん]|ある|い[たてう][いまだ])"
)
"""What continues the sentence after ！ or ？ in a name, question or URL: ヤフー！の, 誰か？と, Yahoo!ゲーム, /?id=3."""
BEGINS = rf"(?![ぁ-ん])[{JAPANESE}「『“A-Za-z\d]|[こそ]|また|まず|しか[しも]|さら|ただ|なお|すなわち"
"""What begins a new sentence after a quotation that ends in a full stop. Anything else continues the sentence around
the quotation."""
PERIOD = (
    rf"(?<=[{JAPANESE}{CLOSING}][{PERIODS}])(?<![{NUMERALS}][{PERIODS}])"
    rf"(?:(?![{ENDERS}\da-zA-Zを])|(?<=[{JAPANESE}][{PREDICATE}][{PERIODS}])(?=[A-Z\d]))"
)
"""A full stop that ends a sentence, unlike those in 3.5, 一．, J.S. or ．．． Before a digit or a capital, it ends one
after the last character of a predicate: である．2節, but 表．2, これらの.357, 学ぶ.txt."""
ENDS_HERE = rf"(?:(?<=[{FULL_STOPS}{PERIODS}])(?!を)|(?<=[{QUESTION_MARKS}])(?!{CONTINUES}))"
"""Condition under which a run of end marks ends a sentence, by its last mark and what follows."""

PAIRS = [(rf"[{re.escape(o)}]", rf"[{re.escape(c)}]") for o, c in (("「", "」"), ("（(", "）)"), ("『", "』"))]
"""The common pairs of brackets."""
EMPTY = rf"[^{ANY_BRACKET}{ENDERS}\n]{{0,{MAX_BRACKET_CHARS}}}+"
INNER = rf"[^{ANY_BRACKET}\n]{{0,{MAX_BRACKET_CHARS}}}+(?<![{ENDERS}])"
"""Contents of pairs that cannot affect a boundary: no bracket, and no end mark, or at least none at the end."""

# Each pattern begins with a character set, so that `re` can skip ahead, and looks behind from there.
FIRST_BRACKET = re.compile(
    rf"(?>(?:[^{ANY_BRACKET}]++|{'|'.join(opener + EMPTY + closer for opener, closer in PAIRS)})*)[{ANY_BRACKET}]"
)
"""Text up to the first bracket that is not part of a pair without end marks. It uses `(?>(…)*)` instead of `(…)*+`,
which Python before 3.11.5 matches wrongly around groups that backtrack."""
PLAIN_END = re.compile(
    rf"[{ENDERS}](?<![{MARKS}][{MARKS}])(?:(?<=[{MARKS}])[{ENDERS}]*+{ENDS_HERE}|{PERIOD}){SPACES}(?!\n|\Z)"
)
"""The end of a sentence inside a line without brackets."""
MARK_INSIDE_LINE = re.compile(
    rf"[{ENDERS}](?<![{MARKS}][{MARKS}])(?<![^{JAPANESE}{CLOSING}][{PERIODS}])"
    rf"[{ENDERS}]*+[{re.escape(ENDING)}]*+(?!\n|\Z)"
)
"""An end mark with text after it on its line. Lines without one need no further work."""
TOKEN = re.compile(
    rf"[{ANY_BRACKET}{ENDERS}](?:(?<=[{MARKS}])(?<![{MARKS}][{MARKS}])[{ENDERS}]*+"
    rf"(?:(?={SPACES}[{CLOSING}])|{ENDS_HERE}){SPACES}|{PERIOD}{SPACES}"
    rf"|{'|'.join(rf'(?<={opener}){INNER}{closer}' for opener, closer in PAIRS)}|(?<=[{ANY_BRACKET}]))"
)
"""A run of end marks that may end a sentence, a pair of brackets that cannot affect a boundary, or one bracket."""
CONTINUATION = re.compile(CONTINUES)
BEGINNING = re.compile(rf"{SPACES}(?:{BEGINS})")
SOLID = re.compile(r"\S")
