"""Samples that code can make: mojibake of Japanese text, and strings that only a machine writes."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

MISREADINGS = (
    ("utf-8", "cp932"),
    ("utf-8", "latin-1"),
    ("utf-8", "cp1252"),
    ("utf-8", "euc-jp"),
    ("utf-8", "gbk"),
    ("euc-jp", "cp932"),
    ("euc-jp", "latin-1"),
    ("cp932", "latin-1"),
    ("cp932", "euc-jp"),
    ("cp932", "gbk"),
    ("cp932", "utf-8"),
    ("iso2022-jp", "latin-1"),
)
"""How mojibake comes about: the encoding of the text, and the one it is read with."""

_PARTICLES = (
    "の",
    "が",
    "を",
    "に",
    "は",
    "と",
    "も",
    "で",
    "へ",
    "から",
    "まで",
    "より",
    "など",
    "だけ",
    "です",
    "ます",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_RANGES = ((0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xFF66, 0xFF9D))
_SYMBOLS = "!#$%&*+-/=?@^_|~■□◆◇●○★☆※→←↑↓─│┌┐└┘├┤"


def misread(text: str, written: str, read: str) -> str:
    """Return a text as it looks when its bytes are read with another encoding.

    Args:
        text: the text.
        written: the encoding of its bytes; characters that it lacks are left out.
        read: the encoding they are read with; bytes that it lacks become U+FFFD.
    """
    made = text.encode(written, "ignore").decode(read, "replace")
    return "".join(char for char in made if char >= " " or char == "\n")


def junk(length: int, rng: random.Random) -> str:
    """Return about `length` characters that only a machine writes, of a kind drawn at random."""
    return rng.choice(_KINDS)(length, rng)[:length]


def _letters(length: int, rng: random.Random) -> str:
    alphabet = rng.choice([_LETTERS, _LETTERS + _LETTERS.upper() + "0123456789", "0123456789abcdef"])
    width = rng.randint(4, 60)
    words = ("".join(rng.choices(alphabet, k=rng.randint(2, width))) for _ in range(length // 4 + 1))
    return rng.choice([" ", "\n", ""]).join(words)


def _encoded(length: int, rng: random.Random) -> str:
    text = base64.b64encode(rng.randbytes(length)).decode()
    return "\n".join(text[start : start + 76] for start in range(0, len(text), 76))


def _numbers(length: int, rng: random.Random) -> str:
    size, between = 10 ** rng.randint(1, 9), rng.choice([" ", ",", "\t", "\n", ", ", "|", "-", "."])
    return between.join(str(rng.randrange(size)) for _ in range(length))


def _records(length: int, rng: random.Random) -> str:
    def record() -> str:
        when = f"20{rng.randrange(30):02}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        what = "".join(rng.choices("0123456789abcdef", k=rng.choice([8, 16, 32])))
        return rng.choice([f"{when} {what}", f"/{what}/{rng.randrange(999)}.html", f"{what}={rng.randrange(9999)}&"])

    return "\n".join(record() for _ in range(length // 10 + 1))


def _code_points(length: int, rng: random.Random) -> str:
    chosen = rng.sample(_RANGES, rng.randint(1, 3))
    return "".join(chr(rng.randint(*rng.choice(chosen))) for _ in range(length))


def _kana(length: int, rng: random.Random) -> str:
    return "".join(chr(rng.randint(0x3041, 0x3093)) for _ in range(length))


def _repeated(length: int, rng: random.Random) -> str:
    unit = rng.choice([_code_points, _kana, _kana, _letters, _symbols, _particles])(rng.choice([1, 1, 1, 2, 3]), rng)
    return unit * (length // max(len(unit), 1) + 1)


def _symbols(length: int, rng: random.Random) -> str:
    chosen = rng.sample(_SYMBOLS, rng.randint(1, 8))
    return "".join(rng.choice(chosen) * rng.randint(1, 12) for _ in range(length))


def _particles(length: int, rng: random.Random) -> str:
    return rng.choice(["", "", " ", "\n"]).join(rng.choices(_PARTICLES, k=length))


_KINDS: tuple[Callable[[int, random.Random], str], ...] = (
    _letters,
    _encoded,
    _numbers,
    _records,
    _code_points,
    _kana,
    _repeated,
    _symbols,
    _particles,
)
