"""Units of text whose words are not looked at: `boundaries = "none"`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

from jprep.tokenizer.config import TokenizerConfig

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's pattern, as published: https://github.com/openai/gpt-2."""

_JAPANESE = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
"""Scripts that Japanese words mix."""

_SCRIPTS = (
    *("Latin", "Greek", "Cyrillic", "Armenian", "Georgian", "Hebrew", "Arabic", "Syriac", "Thaana", "Ethiopic"),
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala"),
    *("Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Mongolian", "Hangul", "Bopomofo", "Yi", "Cherokee"),
)
"""Those whose letters make runs of their own; letters of all others run together."""

_CUTS = re.compile("[\t\n\r\x00\x1e\x1f]+")


def count_pieces(texts: Iterable[str], config: TokenizerConfig) -> Counter[str]:
    """Count the pieces of texts: by GPT-2's pattern for byte-bpe, else runs of one script, numbers, punctuation."""
    find = _finder(config.model == "byte-bpe", config.spaces == "prefix")
    total: Counter[str] = Counter()
    for text in texts:
        for line in (text.replace("\n", " ") if config.newline == "space" else text).split("\n"):
            total.update(find(line))
    return total


@cache
def _finder(gpt2: bool, prefix: bool) -> Callable[[str], list[str]]:
    import regex

    if gpt2:
        whole: Callable[[str], list[str]] = regex.compile(GPT2).findall
        # A newline is no part of a line, but GPT-2's white space takes in the other cuts.
        return lambda line: [part for piece in whole(line) for part in _CUTS.split(piece) if part]
    return regex.compile(_runs(prefix), regex.VERSION1).findall  # type: ignore[no-any-return]


def _runs(prefix: bool) -> str:
    scripts = "".join(rf"\p{{{name}}}" for name in _SCRIPTS)
    letters = [_JAPANESE, *(rf"\p{{{name}}}&&\p{{L}}" for name in _SCRIPTS), rf"\p{{L}}--[{_JAPANESE}{scripts}]"]
    runs = [rf"(?:[{kind}]\p{{M}}*)+" for kind in letters] + [r"\p{N}+", r"[^\p{L}\p{N} \t\n\r\x00\x1e\x1f]+"]
    one = "(?:" + "|".join(runs) + ")"
    return f" +(?= [^ ])| ?{one}| +" if prefix else f" +|{one}"
