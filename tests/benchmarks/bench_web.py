"""Pages of the web to main text: MB of HTML a CPU-second, beside bare Resiliparse and FastWARC in the same run.

The pages are made here: real words in the markup of a portal, about 40 kB each. `reader` is all of the reader `warc`
with its child process: gzip, records, HTTP, charset, ruby, extraction, documents.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from jprep.corpus.document import Document
from jprep.corpus.readers.web.charset import decode_page
from jprep.corpus.readers.web.page import extract_page
from jprep.corpus.readers.web.warc_reader import WarcReader
from tests.fakes.web_archives import SENTENCES, http, info, members, page, record

PAGES = 800
ENCODINGS = ["utf-8", "cp932", "euc_jp", "iso2022_jp"]
REPEATS = 3


def portal(number: int) -> str:
    """A page with menus, an article of paragraphs with links and ruby, cards, scripts."""
    chance = random.Random(number)
    menu = "".join(
        f'<li class="menu-item i{n}"><a href="/section/{n}" title="項目">項目{n}</a></li>' for n in range(60)
    )
    words = SENTENCES * 3
    paragraphs = "".join(
        f'<p class="text p{n}">{words[chance.randrange(40) :]}<a href="/w/{n}">参照{n}</a>、'
        f"<ruby>山道<rp>（</rp><rt>やまみち</rt><rp>）</rp></ruby>の話。{SENTENCES}</p>"
        for n in range(12)
    )
    cards = "".join(
        f'<div class="card"><div class="card-body"><a href="/c/{n}"><img src="/i/{n}.jpg" alt="写真"></a>'
        f'<span class="date">2026年1月{n}日</span><h3 class="title">見出し{n}</h3></div></div>'
        for n in range(60)
    )
    script = "<script>" + "var settings = {a: 1, b: [1, 2, 3]};\n" * 100 + "</script>"
    body = f'{script}<div id="menu"><ul>{menu}</ul></div><h1>頁{number}</h1>{paragraphs}<aside>{cards}</aside>'
    return page(ENCODINGS[number % 4].replace("cp932", "Shift_JIS").replace("iso2022_jp", "ISO-2022-JP"), body=body)


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pace(name: str, size: int, work: Callable[[], int], repeats: int = REPEATS) -> None:
    best, found = float("inf"), 0
    for _ in range(repeats):
        begun = cpu_seconds()
        found = work()
        best = min(best, cpu_seconds() - begun)
    print(f"{name:38} {size / best / 1e6:7.1f} MB/CPU-s   {best / PAGES * 1e3:6.2f} ms a page   {found:,} characters")


def bare(pages: list[str]) -> int:
    from resiliparse.extract.html2text import extract_plain_text

    return sum(len(extract_plain_text(html, main_content=True)) for html in pages)


def bare_archive(path: Path) -> int:
    """FastWARC, Resiliparse's own detection of the encoding, and its extraction."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    found = 0
    with path.open("rb") as stream:
        for item in ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True, auto_decode="all"):
            data = item.reader.read()
            encoding = item.http_charset or (decode_page(data) or decode_page(b"")).encoding  # type: ignore[union-attr]
            found += len(extract_plain_text(HTMLTree.parse(data.decode(encoding)), main_content=True))
    return found


def reader(path: Path, **options: object) -> int:
    step = WarcReader(WarcReader.Config(**options))  # type: ignore[arg-type]
    items = [item for shard in step.shards(str(path)) for item in step.read(shard, "s")]
    step.close()
    return sum(len(item.text) for item in items if isinstance(item, Document))


def main() -> None:
    pages = [portal(number) for number in range(PAGES)]
    bodies = [html.encode(ENCODINGS[number % 4]) for number, html in enumerate(pages)]
    size = sum(map(len, bodies))
    print(f"{PAGES} pages, {size / PAGES / 1e3:.0f} kB each, in four encodings")
    pace("Resiliparse alone, decoded pages", size, lambda: bare(pages))
    pace("extract_page, decoded pages", size, lambda: sum(len(extract_page(html).text) for html in pages))
    pace("decode_page", size, lambda: sum(len((decode_page(data) or decode_page(b"")).text) for data in bodies))  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.warc.gz"
        path.write_bytes(members([info(), *(record(http(data)) for data in bodies)]))
        pace("FastWARC and Resiliparse, .warc.gz", size, lambda: bare_archive(path))
        pace("reader warc, .warc.gz", size, lambda: reader(path))
        pace("reader warc, trafilatura", size, lambda: reader(path, extractor="trafilatura"), 1)


if __name__ == "__main__":
    main()
