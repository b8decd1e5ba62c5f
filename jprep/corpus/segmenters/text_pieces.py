"""Cutting a text that is too long for an analyser at the places that hurt least, and putting lost white space back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_ALONE = re.compile("([\n\0])")
"""Characters that no analyser takes inside a line: each is a piece of its own."""

_PLACES = (re.compile(".*[。．！？!?]", re.S), re.compile(".*[、，, \t\u3000]", re.S))
"""Up to the last place where a cut hurts little, the best kind first: a sentence's end, then a comma or a space."""


_KANA = "ぁ-ゟ゠-ヿㇰ-ㇿｦ-ﾟ〜～"
_KANJI = r"々-〇〻\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KINDS = (f"[{_KANA}]", r"\d", rf"[^\W\d_{_KANA}{_KANJI}]", r"(?:_|[^\w\s])", r"\s")
"""Characters that analysers group into unknown words, by kind. Kanji are looked up, whatever the length of a run."""


def long_run_pattern(length: int) -> re.Pattern[str]:
    """What finds the first `length` characters of a run of one kind that is longer; as a group, for splitting."""
    return re.compile(f"({'|'.join(f'{kind}{{{length}}}(?={kind})' for kind in _KINDS)})")


def split_text(text: str, max_bytes: int) -> Iterator[str]:
    """Cut a text into pieces of at most `max_bytes` of UTF-8: at sentence ends, else at commas and spaces, else hard.

    A newline and a NUL are always pieces of their own. The pieces joined are the text; time is linear in its length.

    Args:
        text: any text without lone surrogates.
        max_bytes: at least 4, one character's size.
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
        while data[end] & 0xC0 == 0x80:  # never inside a character
            end -= 1
        window = data[start:end].decode()
        found = next(filter(None, (place.match(window) for place in _PLACES)), None)
        piece = found[0] if found else window
        yield piece
        start += len(piece.encode())
    if start < len(data):
        yield data[start:].decode()


def restore_spaces(text: str, words: Iterable[str]) -> list[str] | None:
    """Find an analyser's words in the text again, each white-space character that it left out as a word of its own.

    Returns:
        Words that join to the text, or None where they do not come from it.
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
