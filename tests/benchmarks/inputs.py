"""Dumps and web text of any size, made of real articles where `../shared` has them, else of the embedded sample's.

Each copy of a page has a title, an identifier and a first line of its own, so that none of them is a duplicate.
"""

from __future__ import annotations

import bz2
import html
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from jprep.samples import write_dump
from tests.benchmarks.measure import SHARED

PAGE = re.compile(r"  <page>.*?</page>\n", re.DOTALL)
TITLE = re.compile(r"(<title>)(.*?)(</title>)")
NUMBER = re.compile(r"(<id>)(\d+)(</id>)")
TEXT = re.compile(r"(<text[^>/]*>)")
FOOTER = "</mediawiki>\n"


def real_dumps() -> list[Path]:
    """The whole dumps of `../shared`."""
    return sorted((SHARED / "data/wikitext").glob("jawiki-*-A.xml.bz2"))


def source_dump(folder: Path) -> Path:
    """A dump to make larger ones of: a real one, or the sample, written into the folder."""
    return next(iter(real_dumps()), None) or write_dump(folder)


def pages(source: Path, size: int) -> Iterator[str]:
    """The XML of a dump whose pages are repeated until it has about `size` bytes, piece by piece."""
    xml = bz2.decompress(source.read_bytes()).decode()
    yield xml[: xml.index("  <page>")]
    originals, written = PAGE.findall(xml), 0
    for copy in itertools.count():
        for page in originals:
            if written >= size:
                yield FOOTER
                return
            written += len(page.encode())
            yield _changed(page, copy)


def _changed(page: str, copy: int) -> str:
    page = TITLE.sub(rf"\g<1>\g<2> {copy}\g<3>", page, count=1)
    page = NUMBER.sub(rf"\g<1>{copy + 1}0\g<2>\g<3>", page, count=1)
    return TEXT.sub(rf"\g<1>これは{copy}番目の複写である。\n\n", page, count=1)


def crawl(source: Path, size: int) -> Iterator[str]:
    """Text in CC-100's form made of a dump's pages: a paragraph a line, a blank line between documents."""
    for page in pages(source, size):
        body = html.unescape(page.partition("<text")[2].partition(">")[2].partition("</text>")[0])
        lines = [line for line in body.splitlines() if len(line) > 60 and not line.startswith(("{", "|", "*", "="))]
        if lines:
            yield "\n".join(lines) + "\n\n"
