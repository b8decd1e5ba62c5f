"""Split texts that are too long for an analyzer, and restore white space that an analyzer removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_ALONE = re.compile("([\n\0])")
"""Characters that no analyzer accepts inside a line. Each one becomes a piece of its own."""

_PLACES = (re.compile(".*[。．！？!?]", re.S), re.compile(".*[、，, \t\u3000]", re.S))
"""Text up to the last good place to split: the end of a sentence, else a comma or space."""


KANA = "ぁ-ゟ゠-ヿㇰ-ㇿｦ-ﾟ〜～"
"""Hiragana and katakana, for a regular expression's character class, with half-width katakana and wave dashes.

A change needs a new `version` of the segmenters: it changes what they are given.
"""
_KANJI = r"々-〇〻\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KINDS = (f"[{KANA}]", r"\d", rf"[^\W\d_{KANA}{_KANJI}]", r"(?:_|[^\w\s])", r"\s")
"""Kinds of characters that analyzers group into unknown words. Kanji are not among them."""


def long_run_pattern(length: int) -> re.Pattern[str]:
    """Return a pattern for the first `length` characters of a longer run of one kind, as a group for `split`."""
    return re.compile(f"({'|'.join(f'{kind}{{{length}}}(?={kind})' for kind in _KINDS)})")


def split_text(text: str, max_bytes: int) -> Iterator[str]:
    """Split a text into pieces of limited size: at sentence ends, else at commas and spaces, else anywhere.

    A newline and a NUL are always pieces of their own. The joined pieces are the text. Time is linear in its length.

    Args:
        text: any text without lone surrogates.
        max_bytes: maximum size of a piece in bytes of UTF-8, at least 4.
    """
    for part in _ALONE.split(text):
        if part and len(part) * 4 <= max_bytes:
            yield part
        elif part:
            yield from _windows(part.encode(), max_bytes)


def _windows(data: bytes, max_bytes: int) -> Iterator[str]:
    start = 0
    while len(data) - start > max_bytes:
        end = start + max_bytes
        while data[end] & 0xC0 == 0x80:  # do not split a character
            end -= 1
        window = data[start:end].decode()
        found = next(filter(None, (place.match(window) for place in _PLACES)), None)
        piece = found[0] if found else window
        yield piece
        start += len(piece.encode())
    if start < len(data):
        yield data[start:].decode()


def restore_spaces(text: str, words: Iterable[str]) -> list[str] | None:
    """Align words with the text, and add each missing white-space character as a word of its own.

    Returns:
        Words that join to the text, or None if the words do not occur in it.
    """
    found: list[str] = []
    at = 0
    for word in filter(None, words):
        while not text.startswith(word, at):
            if not text[at : at + 1].isspace():
                return None
            found.append(text[at])
            at += 1
        found.append(word)
        at += len(word)
    rest = text[at:]
    return [*found, *rest] if not rest or rest.isspace() else None
