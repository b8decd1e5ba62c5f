"""Text with one space between two words: what a tokenizer with `boundaries = "spaces"` is trained on and takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jprep.corpus.document import SENTENCE, WORD
from jprep.corpus.segmenters.spaces import WHITE_SPACE

_LINE_SPACE = WHITE_SPACE.replace("\n", "")

SPACE_RUN = rf"[{_LINE_SPACE}{SENTENCE}{WORD}]+"
"""Regular expression, for Python and for `tokenizers`: white space and marks between two words of a line."""

_RULES = (
    (rf"[{_LINE_SPACE}{WORD}]+", f"{WORD} "),
    (rf"(?:{WORD} )?(?:{SENTENCE}(?:{WORD} )?)+", f"{SENTENCE} "),
    (rf"(?m)^[{SENTENCE}{WORD}] ", ""),
    (rf"(?m)[{SENTENCE}{WORD}] $", ""),
)
"""Replacements, valid for Python's `re` and for RE2."""

_COMPILED = [(re.compile(pattern), to) for pattern, to in _RULES]
_RUN = re.compile(SPACE_RUN)


def separate_words(words: str) -> str:
    """Return marked text with one space, after the mark, between two words of a line, and none elsewhere.

    Args:
        words: text with U+001F between words and U+001E between sentences. White space, also inside a word, separates
            words.
    """
    for pattern, to in _COMPILED:
        words = pattern.sub(to, words)
    return words


def separate_words_arrow(rows: Any) -> Any:
    """Return an Arrow array of marked texts; see `separate_words`."""
    import pyarrow.compute as pc

    for pattern, to in _RULES:
        rows = pc.replace_substring_regex(rows, pattern, to)
    return rows


def unite_spaces(text: str) -> str:
    """Return text in which one space stands for each run of white space and marks; newlines are unchanged."""
    return _RUN.sub(" ", text)


def keep_spaces(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the descriptions of normalizers that leave the spaces between words, which neologdn would remove.

    Args:
        steps: descriptions of a corpus's normalizers, whose text has no such spaces yet.
    """
    return [
        step | {"config": step["config"] | {"remove_space": False}} if step["config"].get("remove_space") else step
        for step in steps
    ]
