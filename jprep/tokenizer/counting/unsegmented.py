"""Units of text without word boundaries: `boundaries = "none"` and `"bert"`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

from jprep.tokenizer.config import TokenizerConfig

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's published pattern: https://github.com/openai/gpt-2."""

_JAPANESE = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
"""Scripts that Japanese words mix."""

_SCRIPTS = (
    *("Latin", "Greek", "Cyrillic", "Armenian", "Georgian", "Hebrew", "Arabic", "Syriac", "Thaana", "Ethiopic"),
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala"),
    *("Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Mongolian", "Hangul", "Bopomofo", "Yi", "Cherokee"),
)
"""Scripts whose letters form runs of their own; letters of all other scripts form common runs."""

_CUTS = re.compile("[\t\n\r\x00\x1e\x1f]+")


def count_pieces(texts: Iterable[str], config: TokenizerConfig) -> Counter[str]:
    """Count the pieces of texts: BERT's words, pieces of GPT-2's pattern, or runs of a script, numbers, punctuation."""
    find = _finder_of(config)
    total: Counter[str] = Counter()
    for text in texts:
        for line in (text.replace("\n", " ") if config.newline == "space" else text).split("\n"):
            total.update(find(line))
    return total


def _finder_of(config: TokenizerConfig) -> Callable[[str], list[str]]:
    if config.boundaries == "bert":
        return _bert_finder(config.splits_ideographs)
    return _finder(config.model == "byte-bpe", config.spaces == "prefix")


@cache
def _bert_finder(splits_ideographs: bool) -> Callable[[str], list[str]]:
    """Return BERT's basic tokenizer: the library's own, because its tables of punctuation are those used later."""
    from tokenizers import normalizers, pre_tokenizers

    normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=splits_ideographs, strip_accents=False, lowercase=False
    )
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return lambda line: [word for word, _ in split(normalizer.normalize_str(line))]


@cache
def _finder(gpt2: bool, prefix: bool) -> Callable[[str], list[str]]:
    import regex

    if gpt2:
        whole: Callable[[str], list[str]] = regex.compile(GPT2).findall
        # Lines contain no newline, but GPT-2's white space matches the other cuts.
        return lambda line: [part for piece in whole(line) for part in _CUTS.split(piece) if part]
    return regex.compile(_runs(prefix), regex.VERSION1).findall  # type: ignore[no-any-return]


def _runs(prefix: bool) -> str:
    scripts = "".join(rf"\p{{{name}}}" for name in _SCRIPTS)
    letters = [_JAPANESE, *(rf"\p{{{name}}}&&\p{{L}}" for name in _SCRIPTS), rf"\p{{L}}--[{_JAPANESE}{scripts}]"]
    runs = [rf"(?:[{kind}]\p{{M}}*)+" for kind in letters] + [r"\p{N}+", r"[^\p{L}\p{N} \t\n\r\x00\x1e\x1f]+"]
    one = "(?:" + "|".join(runs) + ")"
    return f" +(?= [^ ])| ?{one}| +" if prefix else f" +|{one}"
