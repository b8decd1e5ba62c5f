"""Peak memory of every process, for an input and for one ten times as large; and for one enormous line and page.

The small input has four shards of `JPREP_BENCH_MB` megabytes: 8, unless it is set; jprep's own default is 32.
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from tests.benchmarks.inputs import crawl, pages, source_dump
from tests.benchmarks.measure import JPREP, MIB, Run, run

SHARD_MB = int(os.environ.get("JPREP_BENCH_MB", "8"))
SMALL = 4 * SHARD_MB * MIB
GROWTH = 10
LONG = 50 * MIB

ARTICLE = re.compile("<ns>0</ns>")

Open = Callable[..., IO[bytes]]
FORMS: dict[str, Open] = {".xml": partial(open, mode="wb"), ".xml.bz2": bz2.BZ2File, ".xml.xz": lzma.LZMAFile}


def write(path: Path, pieces: Iterable[str], form: Open = FORMS[".xml"]) -> Path:
    """Write pieces of text as UTF-8."""
    with form(path, mode="wb") as file:
        for piece in pieces:
            file.write(piece.encode())
    return path


def build(name: str, path: Path, workers: int, *more: str) -> Run:
    """Build a corpus of one input by the reader of that name, without words."""
    with tempfile.TemporaryDirectory(dir=path.parent) as out:
        command = [JPREP, "corpus", "build", f"--{name}", str(path), "--segmenter", "none", "-o", f"{out}/corpus"]
        shards = f'corpus.sources.0.reader={{use="{name}", shard_mb={SHARD_MB}}}'
        done = run([*command, "--workers", str(workers), "--set", shards, *more])
    if done.code:
        raise SystemExit(f"{path.name}: exit code {done.code}\n{done.err}")
    return done


def roles(done: Run) -> list[int]:
    """The peak of the command's own process, and where it has workers that of the largest of them, in bytes."""
    first, *workers = done.peaks.values()
    return [first, max(workers)] if workers else [first]


def in_mib(done: Run) -> str:
    return " + ".join(f"{peak / MIB:.0f}" for peak in roles(done))


def compare(name: str, reader: str, make: Callable[[int], Path], *more: str) -> None:
    """Print the peaks for an input and for a larger one, with one worker and with two."""
    runs: dict[int, list[Run]] = {1: [], 2: []}
    for size in (SMALL, SMALL * GROWTH):
        path = make(size)
        for workers in runs:
            runs[workers].append(build(reader, path, workers, *more))
        path.unlink()
    for workers, (small, large) in runs.items():
        grown = [100 * (b / a - 1) for a, b in zip(roles(small), roles(large), strict=True)]
        shares = " ".join(f"{share:+.0f} %" for share in grown)
        print(f"{name:34}{workers:>8}{in_mib(small):>18}{in_mib(large):>18}  {shares}", flush=True)


def long_line() -> Iterator[str]:
    """One line of 50 MB."""
    sentence = "これは終わりのない行であり、改行はどこにもない。"
    yield from [sentence] * (LONG // len(sentence.encode()))
    yield "\n"


def long_page(source: Path) -> Iterator[str]:
    """A dump with one page of 50 MB: a real page's text, again and again."""
    found = pages(source, SMALL)
    yield next(found)
    page = next(page for page in found if len(page) > 10_000 and ARTICLE.search(page))
    head, text = page[: page.index("</text>")], page[page.index("<text") : page.index("</text>")].partition(">")[2]
    yield head
    yield from [text] * (LONG // len(text.encode()))
    yield page[len(head) :]
    yield "</mediawiki>\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = source_dump(folder)
        sizes = "".join(f"{f'{size // MIB} MB':>18}" for size in (SMALL, SMALL * GROWTH))
        print(f"{'peak MiB (own + largest worker)':34}{'workers':>8}{sizes}")
        for suffix, form in FORMS.items():

            def make(size: int, suffix: str = suffix, form: Open = form) -> Path:
                return write(folder / f"dump{suffix}", pages(source, size), form)

            compare(f"dump{suffix}", "wikipedia", make)

        def make_crawl(size: int) -> Path:
            return write(folder / "crawl.txt", crawl(source, size))

        compare("cc100, plain", "cc100", make_crawl)
        compare("cc100, plain, lines deduplicated", "cc100", make_crawl, "--set", "corpus.dedup.lines=true")
        for reader in ("cc100", "text"):
            done = build(reader, write(folder / "line.txt", long_line()), 1)
            print(f"{f'{reader}: a line of 50 MB':34}{1:>8}{in_mib(done):>18}")
        done = build("wikipedia", write(folder / "page.xml", long_page(source)), 1)
        print(f"{'wikipedia: a page of 50 MB':34}{1:>8}{in_mib(done):>18}")


if __name__ == "__main__":
    main()
