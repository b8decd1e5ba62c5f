"""A value for each character, whatever plane of Unicode it is of."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.code_points import CodePointTable, code_points


def doubled() -> CodePointTable:
    return CodePointTable(lambda characters: np.array([2 * ord(each) for each in characters], "<u4"))


TABLE = doubled()


@given(st.text(st.characters(codec=None), max_size=30))
def test_each_character_has_its_value(text):
    assert TABLE.of(code_points(text)).tolist() == [2 * ord(character) for character in text]


def test_planes_are_filled_when_they_are_needed():
    table = doubled()
    for text in ("あ", "𠮷あ", "😀", "あ\ud800", "\U0010ffff", "", "𠮷"):
        assert table.of(code_points(text)).tolist() == [2 * ord(character) for character in text]
    assert sorted(table._planes) == [0, 1, 2, 16]
