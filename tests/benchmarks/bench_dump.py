"""Speed from dump to Parquet without words, beside wikiextractor's command; and which step the time goes to.

Figures are MB of XML per CPU-second, children included, the median of five runs that take turns. wikiextractor 3.1.0
reads the same bzip2 file and writes JSON; it neither normalizes nor splits nor writes Parquet.
"""

from __future__ import annotations

import bz2
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from jprep.corpus.config import CorpusConfig, make_step
from jprep.corpus.dedup.hashes import DocumentHashWriter
from jprep.corpus.document import Document
from jprep.corpus.readers.mediawiki.articles import ArticleExtractor
from jprep.corpus.readers.mediawiki.xml_export import parse_pages, read_site_info
from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.store import row_writer
from jprep.io.inputs import bzip2_blocks
from tests.benchmarks import inputs
from tests.benchmarks.measure import JPREP, MIB, run

ROUNDS = 5
LARGE = 40 * MIB
PEER = os.environ.get("JPREP_PEER_PYTHON", "")

T = TypeVar("T")


def jprep(dump: Path, folder: Path) -> float:
    """CPU seconds of `jprep corpus build`."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [JPREP, "corpus", "build", "--wikipedia", str(dump), "--segmenter", "none", "-o", f"{out}/corpus"]
        done = run([*command, "--workers", "1"])
    if done.code:
        raise SystemExit(done.err)
    return done.cpu_s


def wikiextractor(dump: Path, folder: Path) -> float:
    """CPU seconds of wikiextractor's command; without the environment of its own that it lives in, none."""
    if not PEER:
        return float("nan")
    done = run([PEER, "-m", "wikiextractor.WikiExtractor", str(dump), "--json", "-o", "-", "-q"], cwd=folder)
    if done.code:
        raise SystemExit(done.err)
    return done.cpu_s


def compare(dump: Path, folder: Path) -> None:
    """Print one dump's line of the table."""
    size = len(bz2.decompress(dump.read_bytes())) / 1e6
    times = [(jprep(dump, folder), wikiextractor(dump, folder)) for _ in range(ROUNDS)]
    ours, theirs = (size / statistics.median(column) for column in zip(*times, strict=True))
    peer = f"{theirs:16.2f}{ours / theirs:8.2f} x" if PEER else f"{'no peer':>16}"
    print(f"{dump.name:38}{size:8.1f}{ours:10.2f}{peer}", flush=True)


class Clock:
    """CPU seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, work: Callable[[], T]) -> T:
        """Do some work, and note how long it took."""
        begun = time.process_time()
        result = work()
        self.seconds[name] = time.process_time() - begun
        return result


def profile(dump: Path, folder: Path) -> Clock:
    """Take a dump through each step of the recipe, one step after the other."""
    clock, name, config = Clock(), str(dump), CorpusConfig()
    normalizer, splitter = make_step("normalizer", config.normalizers[0]), make_step("splitter", config.splitter)
    with dump.open("rb") as file:
        blocks = clock.time("decode bzip2", lambda: [block.data for block in bzip2_blocks.read_blocks(file, 0, name)])
    head, _ = read_site_info(iter(blocks), name)
    found = clock.time("parse XML", lambda: list(parse_pages(((block, True) for block in blocks), name, 1 << 28)))
    articles = ArticleExtractor(head, [0], False, Extractor(ExtractorConfig()).extract)
    read = clock.time("extract", lambda: [articles.read(page, "jawiki") for page in found])
    docs = [item for item in read if isinstance(item, Document)]
    clock.time("normalize", lambda: _each(docs, "text", normalizer.apply, "text"))
    clock.time("split", lambda: _each(docs, "text", splitter.mark, "words"))
    clock.time("hash", lambda: _hash(docs))
    clock.time("write Parquet", lambda: _write(docs, folder))
    return clock


def _each(docs: list[Document], source: str, change: Callable[[str], str], target: str) -> None:
    for doc in docs:
        setattr(doc, target, change(getattr(doc, source)))


def _hash(docs: list[Document]) -> None:
    writer: Any = DocumentHashWriter(True, 0)
    for doc in docs:
        writer.add(doc)


def _write(docs: list[Document], folder: Path) -> None:
    with row_writer(folder, "documents/profile.parquet", Document, {}) as kept:
        kept.add(docs)


def dumps(folder: Path) -> Iterator[Path]:
    """The real dumps, or the sample's; and a larger one made of the first."""
    yield from inputs.real_dumps() or [inputs.source_dump(folder)]
    large = folder / "enlarged.xml.bz2"
    large.write_bytes(bz2.compress("".join(inputs.pages(inputs.source_dump(folder), LARGE)).encode()))
    yield large


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'MB of XML per CPU-second':38}{'MB':>8}{'jprep':>10}{'wikiextractor':>16}{'ratio':>10}")
        for dump in dumps(folder):
            compare(dump, folder)
        seconds = profile(dump, folder).seconds
        size, total = len(bz2.decompress(dump.read_bytes())) / 1e6, sum(seconds.values())
        print(f"\n{dump.name}: {'step':24}{'share':>8}{'MB of XML/s':>14}")
        for step, spent in seconds.items():
            print(f"{'':18}{step:24}{spent / total:8.1%}{size / spent:14.1f}")
        print(f"{'':18}{'all of them':24}{1:8.1%}{size / total:14.1f}")


if __name__ == "__main__":
    main()
