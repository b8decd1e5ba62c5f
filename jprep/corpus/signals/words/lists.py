"""Read lists of words: those that come with jprep, and a user's own."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError, InputError

CATEGORIES = ("adult", "violence", "discrimination", "advertising")
"""The categories of the lists that come with jprep."""

_MAX_BYTES = 16 << 20
_MIN_CHARS = 2
_WHERE = "signal 'ng_words'"


class WordList(NamedTuple):
    """A list of words.

    Attributes:
        category: what its words have in common.
        words: the words in lower case, each once, in the order of the file.
        digest: SHA-256 of the file.
    """

    category: str
    words: tuple[str, ...]
    digest: str


@functools.cache
def shipped_list(category: str) -> WordList:
    """Return the list of one of CATEGORIES.

    Raises:
        ConfigError: there is no such category.
    """
    if category not in CATEGORIES:
        raise ConfigError(f"no category {category!r}", where=_WHERE, fix=f"one of {', '.join(CATEGORIES)}")
    return _parse(files("jprep.corpus.signals.words") / "lists" / f"{category}.txt", category)


def user_list(path: str) -> WordList:
    """Return the list in a user's file; its category is the name of the file without its ending.

    Args:
        path: a text file in UTF-8, one word on a line. Lines that begin with `#` are comments.

    Raises:
        ConfigError: there is no such file, or its name cannot be part of a column's name.
        InputError: the file is not such a list.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"{path}: no such file", where=f"{_WHERE}, key `lists`", fix="the path of a text file")
    if not (file.stem.isascii() and file.stem.isidentifier()):
        fix = "name the file by its category in ASCII letters, digits and `_`, e.g. gambling.txt"
        raise ConfigError(f"{path}: {file.stem!r} is not a category", where=f"{_WHERE}, key `lists`", fix=fix)
    return _parse(file, file.stem)


def by_category(lists: Sequence[WordList]) -> dict[str, set[str]]:
    """Return the words of each category, those of several lists together."""
    joined = dict[str, set[str]]()
    for each in lists:
        joined.setdefault(each.category, set()).update(each.words)
    return joined


def _parse(file: Traversable, category: str) -> WordList:
    with file.open("rb") as stream:
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise InputError(f"{file}: over {_MAX_BYTES >> 20} MiB", where=_WHERE, fix="split it into several lists")
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 at byte {error.start}", where=_WHERE, fix="convert it to UTF-8") from error
    words = [line.strip() for line in lines if not line.startswith("#")]
    for word in words:
        if len(word) == 1:
            fix = "give longer words: one character is part of too many others"
            raise InputError(f"{file}: {word!r} has fewer than {_MIN_CHARS} characters", where=_WHERE, fix=fix)
    kept = dict.fromkeys(_lower(word) for word in words if word)
    return WordList(category, tuple(kept), hashlib.sha256(content).hexdigest())


def _lower(word: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in word)
