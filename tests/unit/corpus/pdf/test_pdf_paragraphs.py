"""Which lines of a PDF are joined to paragraphs."""

from __future__ import annotations

import numpy as np
import pytest

from jprep.corpus.readers.pdf.fragments import Fragment, find_fragments, follow
from jprep.corpus.readers.pdf.page_characters import Characters
from jprep.corpus.readers.pdf.paragraphs import join_lines
from jprep.display_width import is_wide

SIZE = 10.0
PITCH = 15.0
LOW = 0.85  # height of the boxes of a Latin font, in sizes of the font


def page(lines: list[str], font_sizes: list[float]) -> Characters:
    """Return the characters of lines below each other; Latin ones have low boxes."""
    text, boxes = "", []
    for number, line in enumerate(lines):
        left, baseline = 50.0, 100 + number * PITCH
        for character in line:
            width, height = (SIZE, SIZE) if is_wide(character) else (SIZE / 2, SIZE * LOW)
            boxes.append((left, baseline - height, left + width, baseline))
            text, left = text + character, left + width
    sizes = np.repeat(font_sizes, [len(line) for line in lines])
    sideways = np.zeros(len(text), bool)
    return Characters(text, [""] * len(text), np.array(boxes), sizes, sideways, 420.0, 595.0, 0, 0, 0, 0)


def fragment(text: str, start: float, end: float, top: float) -> Fragment:
    return Fragment(text, start, end, top, top + SIZE, SIZE, SIZE)


def joined(*lines: tuple[str, float, float]) -> list[str]:
    """Return the paragraphs of lines below each other, given by their text, start and end."""
    return join_lines([[fragment(*line, 100 + number * PITCH) for number, line in enumerate(lines)]]).lines


LATIN_HEAVY = [
    "山道の古い石に刻まれた文字を読み取るために",
    "(FindTheOldStonesOfTheMountain2019)という題",
    "の本を借りてきた。",
]


@pytest.mark.parametrize("font_size", [SIZE, 0.0, 1.0], ids=["known", "missing", "font of images"])
def test_lines_with_many_latin_letters_have_the_size_of_others(font_size: float) -> None:
    fragments = find_fragments(page(LATIN_HEAVY, [font_size] * 3), "horizontal")
    known = font_size == SIZE
    assert {each.font_size for each in fragments} == ({SIZE} if known else {SIZE, SIZE * LOW / 1.17})
    assert join_lines([fragments]).lines == (["".join(LATIN_HEAVY)] if known else LATIN_HEAVY)


def test_the_next_size_begins_a_paragraph() -> None:
    lines = [LATIN_HEAVY[0], LATIN_HEAVY[0], LATIN_HEAVY[2]]
    fragments = find_fragments(page(lines, [SIZE * 1.2, SIZE, SIZE]), "horizontal")
    assert join_lines([fragments]).lines == [lines[0], lines[1] + lines[2]]


HANGING = [
    ("・荷物は日陰に置き、雨の日にも水にぬれないように毎日手入れを", 50, 350),
    ("すること。", 60, 110),
    ("・道しるべの石は苔を落とし、文字が読めるようにしておくこととし、", 50, 350),
    ("冬の間は雪に埋もれないように、目印の旗を立てておくことを忘れ", 60, 350),
    ("ないこと。", 60, 110),
    ("ここからは本文である。", 50, 160),
]


def test_the_last_line_of_an_item_belongs_to_it() -> None:
    texts = [text for text, _, _ in HANGING]
    assert joined(*HANGING) == ["".join(texts[:2]), "".join(texts[2:5]), texts[5]]


@pytest.mark.parametrize("mark", ["・", "–", "※", "〓", "①", "(2)", "3.", "ア　", "iv)", "12 "])
def test_an_item_of_an_item_begins_a_paragraph(mark: str) -> None:
    lines = [HANGING[0], (f"{mark}荷を解くとき。", 60, 140), HANGING[5]]
    assert joined(*lines) == [text for text, _, _ in lines]


def test_an_indented_line_after_a_sentence_begins_a_paragraph() -> None:
    lines = [("荷物は日陰に置き、雨の日にも水にぬれないようにしておくこと。", 50, 350), ("次に。", 60, 90), HANGING[5]]
    assert joined(*lines) == [text for text, _, _ in lines]


@pytest.mark.parametrize("mark", ["・", "• ", "■", "※", "*2 "])
def test_a_bullet_begins_a_paragraph(mark: str) -> None:
    lines = [(f"{mark}荷物の数", 50, 120), (f"{mark}送り先の村", 50, 130), (f"{mark}茶屋の名", 50, 120)]
    assert joined(*lines) == [text for text, _, _ in lines]


@pytest.mark.parametrize(
    "lines",
    [
        ("三つの都市、すなわち札幌と東京", "・大阪とを結ぶ。"),
        ("返事のはがきには名前を書き、出か", "○印は出席をあらわす。"),
        ("道の長さは測ったところ全部で十里", "※ではなく、九里である。"),
    ],
)
def test_a_sign_in_the_middle_of_a_sentence_is_no_bullet(lines: tuple[str, str]) -> None:
    assert joined((lines[0], 50, 350), (lines[1], 50, 150)) == ["".join(lines)]


def test_signs_for_a_name_that_is_left_out_are_no_bullets() -> None:
    lines = [("その年の春には、隣の村に住んでいた大工の", 50, 250), ("○○さんが峠の茶屋を直した。", 50, 190)]
    assert joined(*lines) == ["".join(text for text, _, _ in lines)]


@pytest.mark.parametrize(
    ("last", "lines"),
    [
        ([], [LATIN_HEAVY[0] * 2]),
        ([fragment("12", 195, 205, 700)], [LATIN_HEAVY[0], "12", LATIN_HEAVY[0]]),
        ([fragment("付記", 50, 70, 700)], [LATIN_HEAVY[0] + "付記", LATIN_HEAVY[0]]),
    ],
    ids=["nothing", "a number", "Japanese"],
)
def test_a_short_line_does_not_go_on_in_the_next_column(last: list[Fragment], lines: list[str]) -> None:
    line = fragment(LATIN_HEAVY[0], 50, 350, 100)
    assert join_lines([[line, *last], [line]]).lines == lines


@pytest.mark.parametrize("leader", [". . . . . . 12", "........ iv", "……………１２", "・・・・・・・ 3", " . . . . . . ."])
def test_lines_of_a_table_of_contents_stay_apart(leader: str) -> None:
    lines = [(f"道しるべの石{leader}", 50, 350), (f"峠の茶屋の跡{leader}", 50, 350)]
    assert joined(*lines) == [text for text, _, _ in lines]


def test_dots_in_a_sentence_are_no_leader() -> None:
    lines = [("峠の茶屋まではまだ遠いのだろうと思っていた…………", 50, 350), ("のだが。", 50, 90)]
    assert joined(*lines) == ["".join(text for text, _, _ in lines)]


def test_the_number_of_a_note_does_not_change_the_size_of_a_line() -> None:
    number = Fragment("*12", 60, 69, 100, 107, 7.0, 7.0)
    assert follow(fragment("る", 50, 60, 100), number).font_size == SIZE
    assert follow(number, fragment("。", 69, 79, 100)).font_size == SIZE
