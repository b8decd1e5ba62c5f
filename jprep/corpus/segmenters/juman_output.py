"""Parse the full output of Juman++, and convert it to pyknp objects.

Words can contain spaces, so a line of output is aligned with the text instead of being split at every space.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from jprep.corpus.segmenters.analyzer_process import InvalidAnswer
from jprep.libraries import import_library

if TYPE_CHECKING:
    from pyknp import MList, Morpheme

_LINE = re.compile(r'(.+) (\S+) (\d+) (\S+) (\d+) (\S+) (\d+) (\S+) (\d+) (?:NIL|"(.*)")')
_NAME = re.compile(r'代表表記:([^"\s]+)')
_PRINTED = {"\\␣": " ", "\\t": "\t"}
"""How Juman++ prints words of white space."""


class MorphemeRow(NamedTuple):
    """One analysis of a word, with the fields of JUMAN's manual. `others` are alternative analyses (同形)."""

    surface: str
    reading: str
    base: str
    pos: str
    pos_id: int
    subpos: str
    subpos_id: int
    inflection: str
    inflection_id: int
    form: str
    form_id: int
    features: str | None
    others: tuple[MorphemeRow, ...] = ()


def parse_analyses(sent: bytes, answer: bytes) -> list[list[MorphemeRow]]:
    """Parse the analyses of a batch of lines.

    Args:
        sent: the lines as sent to Juman++.
        answer: its output.

    Raises:
        InvalidAnswer: the words do not join to the lines, or the output is not in JUMAN's format.
    """
    lines = sent.decode().split("\n")[:-1]
    blocks = re.split("^EOS\n", answer.decode(errors="replace"), flags=re.M)
    if len(blocks) != len(lines) + 1 or blocks[-1]:
        raise InvalidAnswer("lines")
    return [list(_rows(line, block)) for line, block in zip(lines, blocks, strict=False)]


def _rows(line: str, block: str) -> Iterator[MorphemeRow]:
    at, row = 0, None
    for printed in block.split("\n")[:-1]:
        forms, fields = _fields(printed)
        if len(forms) % 3 == 1 and forms[0] == "@" and row:
            row = row._replace(others=(*row.others, _row(forms[1:], fields, row.surface)))
            continue
        if row:
            yield row
        row = _row(forms, fields, _surface(forms, line, at))
        at += len(row.surface)
    if at != len(line) or row is None:
        raise InvalidAnswer("changed")
    yield row


def _fields(printed: str) -> tuple[list[str], tuple[str | None, ...]]:
    """Return surface, reading and base form, split at every space, and the other fields."""
    found = _LINE.fullmatch(printed)
    if not found:
        raise InvalidAnswer("changed")
    return found[1].split(" "), found.groups()[1:]


def _surface(forms: list[str], line: str, at: int) -> str:
    printed = " ".join(forms[: len(forms) // 3])
    for surface in (printed, _PRINTED.get(printed, "")):
        if surface and line.startswith(surface, at):
            return surface
    raise InvalidAnswer("changed")


def _row(forms: list[str], fields: tuple[str | None, ...], surface: str) -> MorphemeRow:
    size = len(forms) // 3
    if len(forms) % 3 or not size:
        raise InvalidAnswer("changed")
    reading, base = " ".join(forms[size : 2 * size]), " ".join(forms[2 * size :])
    pos, pos_id, subpos, subpos_id, kind, kind_id, form, form_id, features = (field or "" for field in fields)
    return MorphemeRow(
        surface, reading, base, pos, int(pos_id), subpos, int(subpos_id), kind, int(kind_id), form, int(form_id),
        features if fields[-1] is not None else None,
    )  # fmt: skip


def unknown_morpheme(surface: str) -> MorphemeRow:
    """Return a text that was not analyzed, in the form of JUMAN's undefined words (未定義語)."""
    return MorphemeRow(surface, surface, surface, "未定義語", 15, "その他", 1, "*", 0, "*", 0, None)


def morpheme_list_builder() -> Callable[[list[MorphemeRow]], MList]:
    """Return a function that converts rows to pyknp objects.

    Raises:
        MachineError: pyknp cannot be imported. It needs `pkg_resources`, which setuptools 81 removed.
    """
    pyknp = import_library("pyknp", "objects of pyknp need it", "'jprep[pyknp]'")

    def morpheme(row: MorphemeRow, number: int) -> Morpheme:
        # pyknp's own parser splits at every space and fails on words with spaces, so the fields are set here.
        made = pyknp.Morpheme("", number)
        made.midasi, made.yomi, made.genkei, made.hinsi, made.hinsi_id, made.bunrui, made.bunrui_id = row[:7]
        made.katuyou1, made.katuyou1_id, made.katuyou2, made.katuyou2_id = row[7:11]
        made.imis = "NIL" if row.features is None else row.features
        name = _NAME.search(made.imis)
        made.repname = name[1] if name else ""
        return made

    def build(rows: list[MorphemeRow]) -> MList:
        made, number = pyknp.MList(), 0
        for row in rows:
            number += 1
            made.push_mrph(head := morpheme(row, number))
            for other in row.others:
                number += 1
                head.push_doukei(morpheme(other, number))
        return made

    return build
