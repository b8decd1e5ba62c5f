"""The characters of a page and their places."""

from __future__ import annotations

import ctypes
import math
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNMAPPED = "〓"
"""Stands for a character that the font of a PDF maps to no code point."""

_CONTROL = "\x00"
_PRIVATE, _HIGH, _LOW = range(0xE000, 0xF900), range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_HYPHEN = 2  # PDFium's mark of one at the end of a line
_QUARTER = math.pi / 2
_OBLIQUE = 0.1  # radians off the nearest multiple of 90 degrees: watermarks

_Box = tuple[float, float, float, float]


class Characters(NamedTuple):
    """The characters of a page in the order of its content, without white space.

    Attributes:
        text: the characters; `UNMAPPED` where there is no code point.
        spaces: the white space before each, without line breaks.
        boxes: left, top, right and bottom of each as a float64 array of shape [characters, 4], in points from the top
            left corner of the page as it is shown. A box has the height of its font and the width of its character.
        font_sizes: size of the font of each in points, 0 where the file does not say.
        sideways: whether each lies on its side on the page as it is shown, as Latin letters do in vertical writing.
        width: width of the page.
        height: height of the page.
        unmapped: number of characters that are mapped to no code point.
        oblique: number of characters that were left out because they stand at an angle, as watermarks do.
        outside: number of characters that were left out because they are not on the page as it is shown.
        invisible: number of characters that were left out because they are controls, format characters or
            halves of characters, or have no place.
    """

    text: str
    spaces: list[str]
    boxes: NDArray[np.float64]
    font_sizes: NDArray[np.float64]
    sideways: NDArray[np.bool_]
    width: float
    height: float
    unmapped: int
    oblique: int
    outside: int
    invisible: int


class _Character(NamedTuple):
    text: str
    space: str
    box: _Box
    angle: float
    font_size: float
    mapped: bool

    @property
    def oblique(self) -> bool:
        """Whether it stands at an angle other than those of pages."""
        return _deviation(self.angle) > _OBLIQUE


def read_characters(page: Any) -> Characters:
    """Return the characters of a page of pypdfium2."""
    content = page.get_textpage()
    try:
        read = list(_characters(content.raw, content.count_chars()))
    finally:
        content.close()
    found = [each for each in read if each]
    width, height = page.get_size()
    boxes = _shown(np.array([each.box for each in found], np.float64).reshape(-1, 4), page)
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside: list[bool] = np.all((middles >= 0) & (middles <= (width, height)), axis=1).tolist()
    shown = [index for index, each in enumerate(found) if inside[index] and not each.oblique]
    return Characters(
        "".join(found[index].text for index in shown),
        [found[index].space for index in shown],
        boxes[shown],
        np.array([found[index].font_size for index in shown], np.float64),
        np.array([_is_sideways(found[index].angle, page.get_rotation()) for index in shown], bool),
        width,
        height,
        sum(not found[index].mapped for index in shown),
        sum(each.oblique for each in found),
        inside.count(False),
        read.count(None),
    )


def has_text(page: Any) -> bool:
    """Return whether a page of pypdfium2 draws text, with or without characters that can be read."""
    import pypdfium2.raw as pdfium

    return next(iter(page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT])), None) is not None


def _characters(content: Any, count: int) -> Iterator[_Character | None]:
    """Yield what is no white space, and None for what is invisible; PDFium's own additions are left out."""
    import pypdfium2.raw as pdfium

    space, high = "", 0
    for index in range(count):
        if pdfium.FPDFText_IsGenerated(content, index) == 1:
            continue
        code = pdfium.FPDFText_GetUnicode(content, index)
        if high and code in _LOW:
            code = 0x10000 + ((high - _HIGH.start) << 10) + code - _LOW.start
        elif high:
            yield None
        high = code if code in _HIGH else 0
        if high:  # the first half of a character beyond U+FFFF; its second half follows
            continue
        character = "" if pdfium.FPDFText_HasUnicodeMapError(content, index) == 1 else _known(code)
        if character and character.isspace():
            space += character
            continue
        place = None if character is _CONTROL else _place(content, index)
        if place is None:
            yield None
            continue
        yield _Character(character or UNMAPPED, space, *place, bool(character))
        space = ""
    if high:
        yield None


def _place(content: Any, index: int) -> tuple[_Box, float, float] | None:
    """Return the box of a character without its slant, its angle and its font size; None if it has no place."""
    import pypdfium2.raw as pdfium

    rectangle, matrix = pdfium.FS_RECTF(), pdfium.FS_MATRIX()
    placed = pdfium.FPDFText_GetLooseCharBox(content, index, ctypes.byref(rectangle))
    box = rectangle.left, rectangle.bottom, rectangle.right, rectangle.top
    if not placed or not all(map(math.isfinite, box)):
        return None
    pdfium.FPDFText_GetMatrix(content, index, ctypes.byref(matrix))
    angle = math.atan2(matrix.c, matrix.d)
    if _deviation(angle) > _OBLIQUE:  # turned, or slanted: then the line that it stands on is straight
        box, angle = _without_slant(box, matrix), min(angle, math.atan2(matrix.b, matrix.a), key=_deviation)
    return box, angle, pdfium.FPDFText_GetFontSize(content, index) * math.hypot(matrix.c, matrix.d)


def _deviation(angle: float) -> float:
    """Return how far an angle is off the nearest multiple of 90 degrees."""
    return abs((angle + _QUARTER / 2) % _QUARTER - _QUARTER / 2)


def _without_slant(box: _Box, matrix: Any) -> _Box:
    """Return the box that a slanted character, such as one of Word's Japanese italics, has when it is upright."""
    left, bottom, right, top = box
    if abs(matrix.b) > abs(matrix.a):  # it lies on its side
        excess = min((right - left) * abs(matrix.d / matrix.c), top - bottom) / 2
        return left, bottom + excess, right, top - excess
    excess = min((top - bottom) * abs(matrix.c / matrix.d), right - left) / 2
    return left + excess, bottom, right - excess, top


def _is_sideways(angle: float, turned: int) -> bool:
    return (round(angle / _QUARTER) + turned // 90) % 2 == 1


def _known(code: int) -> str:
    """Return the character of a code point: "" where it is none, `_CONTROL` for controls."""
    if code in (_HYPHEN, 0xAD):
        return "-"
    if not code or code in _PRIVATE or code in _LOW or code == 0xFFFD:
        return ""
    if code in (0x09, 0xA0):
        return " "
    return _CONTROL if unicodedata.category(chr(code)) in ("Cc", "Cf") else chr(code)


def _shown(boxes: NDArray[np.float64], page: Any) -> NDArray[np.float64]:
    """Return boxes from the top left corner of the page as it is shown, turned like the page."""
    left, bottom, right, top = page.get_mediabox()
    crop = page.get_cropbox() or (left, bottom, right, top)
    x = boxes[:, [0, 2]] - crop[0]
    y = crop[3] - boxes[:, [1, 3]]
    wide, high = crop[2] - crop[0], crop[3] - crop[1]
    turned = {0: (x, y), 90: (high - y, x), 180: (wide - x, high - y), 270: (y, wide - x)}[page.get_rotation()]
    x, y = np.sort(turned[0], axis=1), np.sort(turned[1], axis=1)
    return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)
