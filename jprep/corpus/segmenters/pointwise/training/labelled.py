"""Read word-segmented sentences: files of words, treebanks, and text that another segmenter labels."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from jprep.corpus.document import SENTENCE, WORD
from jprep.errors import InputError
from jprep.io.inputs.streams import open_input

if TYPE_CHECKING:
    from jprep.corpus.step import Segmenter

_BATCH = 2_000  # sentences that a segmenter labels at a time
_CONLLU_COLUMNS, _NO_SPACE = 10, "SpaceAfter=No"
_MAX_ID = 20  # characters of a token's number, e.g. 12-13


def read_words(path: str) -> Iterator[list[str]]:
    """Yield the words of each sentence of a file, which may be compressed. Empty sentences are left out.

    A line holds words with spaces between them, or a JSON list of words; a file in CoNLL-U is a treebank of Universal
    Dependencies, in which a space that follows a word is a word of its own.

    Raises:
        ConfigError: there is no such file.
        InputError: it is not UTF-8, or a line is neither form.
    """
    lines, head = read_lines(path), list[str]()
    for line in lines:
        head.append(line)
        if line and not line.startswith("#"):
            break
    read = _read_conllu if head and _is_conllu(head) else _read_lists
    yield from filter(None, read(itertools.chain(head, lines), path))


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a file without their ends and without a byte order mark.

    Raises:
        ConfigError: there is no such file.
        InputError: it is not UTF-8, or has a character that jprep marks words or sentences with.
    """
    with open_input(path) as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number:,}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                fix = "convert it, e.g. with `iconv -f cp932 -t utf-8`"
                raise InputError("this is not UTF-8", where=where, fix=fix) from error
            _refuse_marks(text, where)
            yield text


def _refuse_marks(text: str, where: str) -> None:
    if WORD in text or SENTENCE in text:
        what = "U+001E and U+001F are jprep's marks of sentences and words"
        raise InputError(what, where=where, fix="delete these characters")


def label_text(path: str, teacher: Segmenter, tally: Counter[str]) -> Iterator[list[str]]:
    """Yield the words that a segmenter finds in each line of a text file.

    Args:
        path: the file.
        teacher: the segmenter.
        tally: receives the number of lines that it could not segment and that are left out, as `unsegmented`.

    Raises:
        ConfigError, InputError: see `read_lines`.
        MachineError: the segmenter does not work.
    """
    lines = (line for line in read_lines(path) if line)
    while batch := list(itertools.islice(lines, _BATCH)):
        before = _unsegmented(teacher)
        marked = teacher.segment(batch)
        failed = _unsegmented(teacher) > before
        for text, words in zip(batch, marked, strict=True):
            if failed and words == text and _fails(teacher, text):
                tally["unsegmented"] += 1
            else:
                yield words.split(WORD)


def _unsegmented(teacher: Segmenter) -> int:
    return sum(number for name, number in teacher.tally.items() if name.startswith("unsegmented."))


def _fails(teacher: Segmenter, text: str) -> bool:
    """Return whether a text that came back whole is one that the teacher cannot segment, and not a single word."""
    before = _unsegmented(teacher)
    teacher.segment([text])
    return _unsegmented(teacher) > before


def _read_lists(lines: Iterable[str], path: str) -> Iterator[list[str]]:
    for number, line in enumerate(lines, 1):
        where, words = f"{path}, line {number:,}", _words_of(line)
        if words is None:
            what = "expected words with spaces between them, or a JSON list of words"
            fix = "put a space after a first word `[` or `{`, and give treebanks in files of their own"
            raise InputError(what, where=where, fix=fix)
        if line.startswith("["):
            _refuse_marks("".join(words), where)  # a string of JSON can have escapes of them
        yield words


def _words_of(line: str) -> list[str] | None:
    """Return the words of a line; None if it is a JSON object, another kind of list, or a line of a treebank.

    A line such as `[ 1 ]` is one of words.
    """
    if line.startswith("[") and not line.startswith("[ "):
        return _parse_list(line)
    if line.startswith('{"') or line.count("\t") == _CONLLU_COLUMNS - 1:
        return None
    return [word for word in line.split(" ") if word]


def _parse_list(line: str) -> list[str] | None:
    """Return the words of a JSON list; None if it is not a list of strings."""
    try:
        words = json.loads(line)
    except (ValueError, RecursionError):
        return None
    strings = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return [word for word in words if word] if strings else None


def _is_conllu(head: list[str]) -> bool:
    """Return whether a file is a treebank, by its first lines up to the first that is no comment."""
    tabs = head[-1].count("\t")
    return tabs == _CONLLU_COLUMNS - 1 or (tabs > 0 and head[0].startswith("#"))


def _read_conllu(lines: Iterable[str], path: str) -> Iterator[list[str]]:
    words, skipped = list[str](), 0
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if not line:
            yield _without_last_space(words)
            words, skipped = [], 0
        elif not line.startswith("#"):
            if len(cells) != _CONLLU_COLUMNS:
                what = f"expected {_CONLLU_COLUMNS} columns, found {len(cells)}"
                raise InputError(what, where=f"{path}, line {number:,}", fix="give a file in CoNLL-U")
            if not cells[1] or len(cells[0]) > _MAX_ID:
                what = "a token has an empty form, or a number that is too long"
                raise InputError(what, where=f"{path}, line {number:,}", fix="correct the line")
            skipped = _add_token(words, cells, skipped)
    yield _without_last_space(words)


def _without_last_space(words: list[str]) -> list[str]:
    return words[:-1] if words and words[-1] == " " else words


def _add_token(words: list[str], cells: list[str], skipped: int) -> int:
    """Add the token of a line to the words.

    Returns:
        The last token that is part of a form that has been added as a whole, e.g. 5 for 4-5.
    """
    number, form = cells[0], cells[1]
    first, dash, last = number.partition("-")
    if "." in number or (first.isdecimal() and not dash and int(first) <= skipped):
        return skipped
    words.append(form)
    if _NO_SPACE not in cells[-1]:
        words.append(" ")
    return int(last) if dash and last.isdecimal() else skipped
