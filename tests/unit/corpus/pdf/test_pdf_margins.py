"""Running headers and page numbers, and the cells of tables that are neither."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from jprep.corpus.readers.pdf.fragments import Fragment, Writing
from jprep.corpus.readers.pdf.margins import PageFragments, without_margins

HEIGHT, SIZE = 800.0, 10.0
TOP, BODY, BOTTOM = 30.0, 400.0, 760.0


def fragment(text: str, start: float, top: float) -> Fragment:
    return Fragment(text, start, start + SIZE * len(text), top, top + SIZE, SIZE, SIZE)


def kept(pages: Sequence[Sequence[tuple[str, float, float]]], writing: Writing = "horizontal") -> list[list[str]]:
    given = [PageFragments([fragment(*each) for each in page], writing, HEIGHT) for page in pages]
    found, removed = without_margins(given)
    assert removed == sum(map(len, pages)) - sum(map(len, found))
    return [[each.text for each in page] for page in found]


def test_a_number_alone_in_its_line_is_a_page_number() -> None:
    assert kept([[("本文", 0, BODY), ("- 12 -", 250, BOTTOM)]]) == [["本文"]]


def test_cells_of_a_table_stay() -> None:
    pages = [
        [(f"項目{name}", 0, BOTTOM), (str(17 * row), 200, BOTTOM), ("0", 300, BOTTOM)]
        for row, name in enumerate("甲乙丙丁")
    ]
    assert kept(pages) == [[text for text, *_ in page] for page in pages]


def test_rows_of_numbers_alone_stay() -> None:
    pages = [[(str(31 * row + 7), 0, TOP), (str(47 * row * row), 200, TOP)] for row in range(4)]
    assert kept(pages) == [[text for text, *_ in page] for page in pages]


def test_small_numbers_in_tables_of_many_pages_stay() -> None:
    rng = random.Random(1)
    pages = [
        [("合計", 0, TOP), *((str(rng.randrange(10)), 100.0 + 40 * cell, TOP) for cell in range(8))] for _ in range(20)
    ]
    assert kept(pages) == [[text for text, *_ in page[1:]] for page in pages]  # the first is a running header


def test_the_numbers_of_two_pages_on_one_go() -> None:
    pages = [
        [(str(2 * page), 50, BOTTOM), (f"本文{page}", 0, BODY), (str(2 * page + 1), 400, BOTTOM)] for page in range(5)
    ]
    assert kept(pages) == [[f"本文{page}"] for page in range(5)]


@pytest.mark.parametrize("first", [1, 98])
def test_a_page_number_beside_a_header_goes_with_it(first: int) -> None:
    pages = [[("郷土の道", 0, TOP), (str(first + page), 400, TOP), (f"本文{page}", 0, BODY)] for page in range(4)]
    assert kept(pages) == [[f"本文{page}"] for page in range(4)]


def test_a_header_with_a_growing_number_beside_others_goes() -> None:
    pages = [[(f"第3号 {page + 5}頁", 0, TOP), (f"節の名{name}", 300, TOP)] for page, name in enumerate("甲乙丙丁")]
    assert kept(pages) == [[f"節の名{name}"] for name in "甲乙丙丁"]


@pytest.mark.parametrize(("gap", "stays"), [(0.0, True), (30.0, False)])
def test_numbers_of_a_vertical_line_stay(gap: float, stays: bool) -> None:
    line: list[Any] = [("第", BOTTOM - SIZE - gap, 100), ("25", BOTTOM, 100)]
    assert kept([line], "vertical") == [["第", "25"] if stays else ["第"]]
