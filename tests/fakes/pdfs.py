"""PDFs of Japanese text in several layouts, set by rules of our own. Their text is known."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WIDTH, HEIGHT = 420.0, 595.0
MARGIN = 60.0
SIZE = 10.0
PITCH = 17.0
RUBY = re.compile(r"\{(.+?)\|(.+?)\}")
NOT_FIRST = "、。」』）？！"

PARAGRAPHS = (
    "山道を歩くと、古い石の道しるべが見えてくる。そこには、隣の村までの道のりと、峠の茶屋の名が刻まれていた。"
    "今ではその茶屋もなく、道しるべだけが草の中に残っている。",
    "村の人に尋ねると、茶屋は祖父の代まで営まれていたという。夏には冷たい水でひやした瓜を出し、"
    "冬にはいろりの火を絶やさなかった。旅人は荷をおろし、しばらく話をして、また坂を下りていった。",
    "「あのころは、誰もが歩いていたからね」と、その人は笑った。",
    "鉄道が通じてから、人の流れは変わった。峠を越える者は少なくなり、道は細くなった。しかし、道しるべの文字は"
    "いまも読むことができる。石を選び、文字を彫った人の名は、裏に小さく残されている。",
    "調べたところでは、同じ人の彫った石が、近くの三つの村に五つ残っている。形はどれも少しずつちがい、"
    "風や雨を受ける向きまで考えて立てられたらしい。",
)


@dataclass
class Layout:
    """How text is set.

    Attributes:
        vertical: lines run down, from the right to the left of the page.
        columns: columns, or tiers of vertical writing.
        header: text at the top of each page.
        numbers: whether pages have numbers.
        title: a heading over all columns of the first page.
        shuffled: whether the lines of a page are drawn in any order, as some programs do.
        metadata: what the file says about itself, e.g. its `Title`.
    """

    vertical: bool = False
    columns: int = 1
    header: str = ""
    numbers: bool = False
    title: str = ""
    shuffled: bool = False
    metadata: dict[str, str] = field(default_factory=dict)


def plain(paragraph: str) -> str:
    """Return a paragraph without ruby, which is written `{漢字|かんじ}`."""
    return RUBY.sub(r"\1", paragraph)


def make_pdf(paragraphs: Sequence[str], layout: Layout | None = None, password: str = "") -> bytes:
    """Return a PDF with paragraphs, the first line of each indented by one character."""
    return _Typesetter(layout or Layout(), password).set(paragraphs)


def make_page(*texts: tuple[Any, ...], turned: int = 0, watermark: str = "", size: float = SIZE) -> bytes:
    """Return a PDF of one page.

    Args:
        texts: places from the top left corner of the page as it is shown, and the text that begins there; a fourth
            value says whether it runs down: True, or "sideways" for Latin text that lies on its side; or it is
            "slanted", as Word's Japanese italics are.
        turned: degrees by which the page is turned when it is shown.
        watermark: a text that stands at an angle.
        size: size of the characters of `texts`.
    """
    setter = _Typesetter(Layout(), "")
    canvas = setter.canvas
    canvas.setPageRotation(turned)
    for degrees, (x, y) in {90: (HEIGHT, 0), 180: (WIDTH, HEIGHT), 270: (0, WIDTH)}.items():
        if degrees == turned:
            canvas.translate(x, y)
            canvas.rotate(degrees)
    for x, y, text, *down in texts:
        canvas.saveState()
        canvas.translate(x, HEIGHT - y)
        if down == ["sideways"]:
            canvas.rotate(-90)
            canvas.setFont("Helvetica", size)
        elif down == ["slanted"]:
            canvas.transform(1, 0, 1 / 3, 1, 0, 0)
            canvas.setFont("Horizontal", size)
        else:
            canvas.setFont("Vertical" if down and down[0] else "Horizontal", size)
        canvas.drawString(0, 0, text)
        canvas.restoreState()
    if watermark:
        canvas.translate(100, 100)
        canvas.rotate(45)
        canvas.setFont("Horizontal", 40)
        canvas.drawString(0, 0, watermark)
    return setter.finish()


def mapped_pdf(text: str, code_points: Mapping[str, int]) -> bytes:
    """Return a PDF with a line of ASCII whose font says that some characters are others."""
    entries = "\n".join(f"<{ord(character):02x}> <{code:04x}>" for character, code in code_points.items())
    cmap = f"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Custom def /CMapType 2 def
1 begincodespacerange <00> <ff> endcodespacerange
1 beginbfrange <20> <7e> <0020> endbfrange
{len(code_points)} beginbfchar
{entries}
endbfchar endcmap end end"""
    content = f"BT /F 12 Tf 60 500 Td ({text}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 420 595] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>",
        f"<< /Length {len(content)} >> stream\n{content}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
        f"<< /Length {len(cmap)} >> stream\n{cmap}\nendstream",
    ]
    body, places = "%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 7\n0000000000 65535 f \n{table}trailer << /Size 7 /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF"
    return (body + end).encode("ascii")


class _Typesetter:
    def __init__(self, layout: Layout, password: str) -> None:
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.cidfonts import UnicodeCIDFont
        from reportlab.pdfgen.canvas import Canvas

        for name, vertical in (("Horizontal", False), ("Vertical", True)):
            font = UnicodeCIDFont("HeiseiMin-W3", isVertical=vertical)
            font.name = font.fontName = name
            pdfmetrics.registerFont(font)
        self._layout, self._stream = layout, io.BytesIO()
        self.canvas = Canvas(self._stream, pagesize=(WIDTH, HEIGHT), invariant=1, encrypt=password or None)
        for name, value in layout.metadata.items():
            getattr(self.canvas, f"set{name}")(value)
        self._page = 0

    def set(self, paragraphs: Sequence[str]) -> bytes:
        lines = [line for paragraph in paragraphs for line in self._broken("　" + paragraph)]
        self._begin_page()
        spare = 2 if self._layout.title else 0
        while lines:
            places = [(column, row) for column in range(self._layout.columns) for row in range(spare, self._rows)]
            drawn = list(zip(lines, places, strict=False))
            lines = lines[len(drawn) :]
            if self._layout.shuffled:
                random.Random(self._page).shuffle(drawn)
            for line, (column, row) in drawn:
                self._draw(line, column, row)
            spare = 0
            if lines:
                self.canvas.showPage()
                self._begin_page()
        return self.finish()

    def finish(self) -> bytes:
        self.canvas.showPage()
        self.canvas.save()
        return self._stream.getvalue()

    @property
    def _extent(self) -> tuple[float, float]:
        """The room along a line, and across lines."""
        room = WIDTH - 2 * MARGIN, HEIGHT - 2.4 * MARGIN
        return (room[1], room[0]) if self._layout.vertical else room

    @property
    def _length(self) -> int:
        """Characters of a line."""
        gutter = 2 * SIZE * (self._layout.columns - 1)
        return int((self._extent[0] - gutter) / self._layout.columns / SIZE)

    @property
    def _rows(self) -> int:
        return int(self._extent[1] / PITCH)

    def _broken(self, paragraph: str) -> Iterator[list[tuple[str, str]]]:
        """Yield lines: characters, each with its ruby. A line does not begin with a closing mark."""
        units: list[tuple[str, str]] = []
        for part in re.split(r"(\{.+?\|.+?\})", paragraph):
            found = RUBY.fullmatch(part)
            units += [(found[1], found[2])] if found else [(character, "") for character in part]
        line: list[tuple[str, str]] = []
        for unit in units:
            if sum(len(text) for text, _ in line) + len(unit[0]) > self._length and unit[0] not in NOT_FIRST:
                yield line
                line = []
            line.append(unit)
        yield line

    def _begin_page(self) -> None:
        self._page += 1
        self.canvas.setFont("Horizontal", 8)
        if self._layout.header:
            self.canvas.drawString(MARGIN, HEIGHT - 30, self._layout.header)
        if self._layout.numbers:
            self.canvas.drawString(WIDTH / 2 + (-100 if self._page % 2 else 100), 24, str(self._page))
        if self._layout.title and self._page == 1:
            self._place(self._layout.title, 0, 0.2, 3 * SIZE, SIZE * 1.6)

    def _draw(self, line: list[tuple[str, str]], column: int, row: int) -> None:
        along = column * (self._length + 2) * SIZE
        for text, ruby in line:
            if text.strip("　"):
                self._place(text, along, row, 0, SIZE)
            if ruby:
                room = (len(text) * SIZE - len(ruby) * SIZE / 2) / 2
                self._place(ruby, along + room, row - SIZE * 0.78 / PITCH, 0, SIZE / 2)
            along += len(text) * SIZE

    def _place(self, text: str, along: float, row: float, indent: float, size: float) -> None:
        across = row * PITCH
        if self._layout.vertical:
            self.canvas.setFont("Vertical", size)
            self.canvas.drawString(WIDTH - MARGIN - across - size / 2, HEIGHT - 1.2 * MARGIN - along - indent, text)
        else:
            self.canvas.setFont("Horizontal", size)
            self.canvas.drawString(MARGIN + along + indent, HEIGHT - 1.2 * MARGIN - across - size * 0.86, text)
