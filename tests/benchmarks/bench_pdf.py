"""PDFs to text: characters in the right order, and pages a CPU-second, beside other libraries in the same run.

The files are made here from known text, in several layouts. `right` is 1 minus the edits (inserted, deleted, replaced
characters) that turn what a library reads into the text, white space aside, as a share of its length. `shuffled` files
draw the lines of a page in any order. Needs pdfminer.six and pypdf.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable

from jprep.corpus.readers.pdf.extraction import PdfLimits, extract_pdf
from tests.fakes.pdfs import PARAGRAPHS, Layout, make_pdf, plain

READINGS = {"山道": "やまみち", "茶屋": "ちゃや", "石": "いし"}
RUBY = tuple(re.sub("|".join(READINGS), lambda base: f"{{{base[0]}|{READINGS[base[0]]}}}", each) for each in PARAGRAPHS)
LAYOUTS = {
    "one column": (PARAGRAPHS, Layout()),
    "two columns": (PARAGRAPHS, Layout(columns=2, title="山の道しるべ")),
    "header, numbers": (PARAGRAPHS, Layout(header="郷土の道　第3号", numbers=True)),
    "ruby": (RUBY, Layout()),
    "vertical": (PARAGRAPHS, Layout(vertical=True)),
    "vertical, two tiers": (PARAGRAPHS, Layout(vertical=True, columns=2, header="郷土の道", numbers=True)),
    "two columns, shuffled": (PARAGRAPHS, Layout(columns=2, shuffled=True)),
    "vertical, shuffled": (PARAGRAPHS, Layout(vertical=True, shuffled=True)),
    "vertical, ruby": (RUBY, Layout(vertical=True)),
}
TIMES = 12  # the paragraphs of a file, repeated


def jprep(data: bytes) -> str:
    return extract_pdf(data, PdfLimits()).text


def bare_pypdfium2(data: bytes) -> str:
    import pypdfium2

    return "\n".join(page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(data))


def pdfminer(data: bytes) -> str:
    from pdfminer.high_level import extract_text
    from pdfminer.layout import LAParams

    return extract_text(io.BytesIO(data), laparams=LAParams(detect_vertical=True))


def pypdf(data: bytes) -> str:
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(data)).pages)


LIBRARIES: dict[str, Callable[[bytes], str]] = {
    "jprep": jprep,
    "pypdfium2": bare_pypdfium2,
    "pdfminer.six": pdfminer,
    "pypdf": pypdf,
}


def edits(one: str, other: str) -> int:
    """The edit distance of two texts (Myers 1999)."""
    places: dict[str, int] = {}
    for number, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << number
    every, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    up, down, count = every, 0, len(one)
    for character in other:
        equal = places.get(character, 0)
        diagonal = ((((equal & up) + up) ^ up) | equal | down) & every
        rise, fall = down | (every & ~(diagonal | up)), up & diagonal
        count += bool(rise & last) - bool(fall & last)
        rise, fall = (rise << 1 | 1) & every, fall << 1 & every
        up, down = fall | (every & ~(diagonal | rise)), rise & diagonal
    return count


def main() -> None:
    print(f"{'':22}" + "".join(f"{name:>24}" for name in LIBRARIES))
    for name, (paragraphs, layout) in LAYOUTS.items():
        data = make_pdf(paragraphs * TIMES, layout)
        pages = extract_pdf(data, PdfLimits()).pages
        expected = "".join([layout.title, *map(plain, paragraphs * TIMES)])
        row = ""
        for library in LIBRARIES.values():
            library(data)
            begun = time.process_time()
            found = "".join(library(data).split())
            seconds = time.process_time() - begun
            right = max(0.0, 1 - edits(expected, found) / len(expected))
            row += f"{right:10.1%} {pages / seconds:6.0f} pages/s"
        print(f"{name:22}{row}", flush=True)


if __name__ == "__main__":
    main()
