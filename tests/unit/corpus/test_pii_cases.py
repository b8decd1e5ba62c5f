"""Precision and recall of the normalizer pii on marked texts."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from jprep.corpus.normalizers.pii.normalizer import DETECTORS, find_personal_data

CASES = Path(__file__).with_name("pii_cases.tsv")
SECOND = Path(__file__).with_name("pii_second_cases.tsv")
MARK = re.compile(r"⟦(\w+):([^⟧]*)⟧")
WHOLE = {"email", "ip_address", "licence_plate"}  # every letter identifies; elsewhere the digits do
KANJI_DIGITS = set("〇一二三四五六七八九")
PARTS = ("tuning", "held-out")


class Span(NamedTuple):
    """Personal data in a text, from `start` up to but not including `end`."""

    start: int
    end: int
    kind: str


class Case(NamedTuple):
    """A text without its marks, and where they were."""

    part: str
    text: str
    marks: tuple[Span, ...]


class Figures:
    """Counts of marks, of marks found, of masked places and of those that touch a mark of their kind, by kind."""

    def __init__(self, cases: list[Case]) -> None:
        self.marked: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self.masked: Counter[str] = Counter()
        self.right: Counter[str] = Counter()
        self.faults: list[str] = []
        for case in cases:
            self._count(case)

    def _count(self, case: Case) -> None:
        masked = [Span(*match, kind) for match, kind in find_personal_data(case.text)]
        for mark in case.marks:
            self.marked[mark.kind] += 1
            self.hits[mark.kind] += (hit := is_hit(case.text, mark, masked))
            if not hit:
                self.faults.append(f"missed {mark.kind}: {case.text[mark.start : mark.end]!r} in {case.text!r}")
        for span in masked:
            self.masked[span.kind] += 1
            self.right[span.kind] += (right := any(touches(span, mark) for mark in case.marks))
            if not right:
                self.faults.append(f"wrong {span.kind}: {case.text[span.start : span.end]!r} in {case.text!r}")

    def recall(self, kind: str | None = None) -> float:
        """Return the share of the marks that are masked, of a kind or of all."""
        return share(self.hits, self.marked, kind)

    def precision(self, kind: str | None = None) -> float:
        """Return the share of the masked places that touch a mark of their kind, of a kind or of all."""
        return share(self.right, self.masked, kind)

    def table(self) -> str:
        """Return one line for each kind, then the faults."""
        names: list[str | None] = [*DETECTORS, None]
        lines = [f"{'kind':14}{'marks':>6}{'precision':>10}{'recall':>8}"]
        for name in names:
            marks = self.marked[name] if name else self.marked.total()
            lines.append(f"{name or 'all':14}{marks:6}{self.precision(name):10.3f}{self.recall(name):8.3f}")
        return "\n".join(lines + self.faults)


def share(part: Counter[str], whole: Counter[str], kind: str | None) -> float:
    """Return a ratio of two counts of a kind or of all kinds; 1.0 where there is nothing to count."""
    above, below = (part[kind], whole[kind]) if kind else (part.total(), whole.total())
    return above / below if below else 1.0


def touches(span: Span, mark: Span) -> bool:
    """Return whether two places of the same kind overlap."""
    return span.kind == mark.kind and span.start < mark.end and mark.start < span.end


def is_hit(text: str, mark: Span, masked: list[Span]) -> bool:
    """Return whether the masked places of its kind cover every identifying character of a mark."""
    covered = {place for span in masked if touches(span, mark) for place in range(span.start, span.end)}
    places = range(mark.start, mark.end)
    return bool(covered) and all(place in covered for place in places if identifies(text[place], mark.kind))


def identifies(character: str, kind: str) -> bool:
    """Return whether a character of a mark must be masked."""
    return character.isdecimal() or character in KANJI_DIGITS or (kind in WHOLE and character.isalnum())


def read_cases(path: Path = CASES) -> list[Case]:
    """Return the cases of a file, in order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [parse(*line.split("\t")) for line in lines if not line.startswith("#")]


def parse(part: str, _source: str, marked: str) -> Case:
    """Return the case of a line."""
    marked = marked.replace("\\n", "\n").replace("\\t", "\t")
    text, spans, done = "", [], 0
    for mark in MARK.finditer(marked):
        text += marked[done : mark.start()]
        spans.append(Span(len(text), len(text) + len(mark[2]), mark[1]))
        text, done = text + mark[2], mark.end()
    return Case(part, text + marked[done:], tuple(spans))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return read_cases()


def test_the_set_has_enough_cases_of_each_kind(cases: list[Case]) -> None:
    kinds = Counter(mark.kind for case in cases for mark in case.marks)
    assert sum(bool(case.marks) for case in cases) >= 320
    assert sum(not case.marks for case in cases) >= 320
    assert set(kinds) == set(DETECTORS)
    assert min(kinds.values()) >= 15


@pytest.mark.parametrize(("part", "precision", "recall"), [("tuning", 0.99, 0.97), ("held-out", 0.97, 0.92)])
def test_precision_and_recall(cases: list[Case], part: str, precision: float, recall: float) -> None:
    figures = Figures([case for case in cases if case.part == part])
    assert figures.precision() >= precision, figures.table()
    assert figures.recall() >= recall, figures.table()


def test_the_set_of_a_second_author() -> None:
    second = read_cases(SECOND)
    figures = Figures(second)
    assert (sum(bool(case.marks) for case in second), sum(not case.marks for case in second)) == (314, 371)
    assert figures.precision() >= 0.995, figures.table()
    assert figures.recall() >= 0.97, figures.table()
    assert min(map(figures.recall, DETECTORS)) >= 0.94, figures.table()


@pytest.mark.parametrize("kind", DETECTORS)
def test_precision_and_recall_of_each_kind(cases: list[Case], kind: str) -> None:
    figures = Figures(cases)
    assert figures.precision(kind) >= 0.95, figures.table()
    assert figures.recall(kind) >= 0.92, figures.table()


def test_texts_without_personal_data_stay(cases: list[Case]) -> None:
    changed = [case.text for case in cases if not case.marks and find_personal_data(case.text)]
    assert len(changed) <= 2, changed


@pytest.mark.parametrize(
    "unit",
    ["1", "-", "0-", "県", "市", "@a.", "a@", "1.1.1.1 ", "2001:", "〒", "記号", "(03", "品川 300 あ", "1丁目", "大字",
     "東京都千代田区", "京都市中京区烏丸通", "03-5550-1234 ", "a@example.jp ", "〒100-0001 東京都千代田区千代田1-1-1 "],
)  # fmt: skip
def test_time_grows_linearly_with_a_hostile_line(unit: str) -> None:
    short, long = (seconds(unit * (length // len(unit))) for length in (30_000, 240_000))
    assert long < 24 * short + 0.2


def seconds(text: str) -> float:
    """Return the processor time that a text takes at best: what else the machine does adds to it."""

    def once() -> float:
        start = time.process_time()
        find_personal_data(text)
        return time.process_time() - start

    return min(once() for _ in range(3))
