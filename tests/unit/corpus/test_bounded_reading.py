"""Readers take time linear in their input and memory of a few times its size, also for repetitive input."""

from __future__ import annotations

import gzip
import io
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.readers import chunking
from jprep.corpus.readers.lines import Cc100Reader, JsonlReader, TextReader
from jprep.corpus.readers.mediawiki import xml_export
from jprep.corpus.readers.mediawiki.disambiguation import DisambiguationDetector
from jprep.corpus.readers.mediawiki.xml_export import PageParser, split_at_pages
from jprep.corpus.readers.web.page import mark_indentation
from jprep.corpus.step import Reader
from jprep.errors import InputError
from jprep.io.inputs import bzip2_blocks
from jprep.io.inputs.limits import MIB
from tests.sampling import every

SIZE = MIB // 4


def peak(work: Callable[[], object]) -> int:
    """Return the peak memory of some work in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of some work: the minimum of a few runs, at least long enough to be measurable."""

    def once() -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    return max(0.02, min(once() for _ in range(3)))


READERS: dict[str, Reader] = {
    "cc100": Cc100Reader(),
    "text by blank lines": TextReader(TextReader.Config(documents="blank_line")),
    "text by lines": TextReader(TextReader.Config(documents="line")),
    "text by files": TextReader(TextReader.Config(documents="file")),
    "jsonl": JsonlReader(),
}


@pytest.mark.parametrize(
    ("name", "newline", "compress"),
    every(
        5,
        [
            (name, newline, compress)
            for name in READERS
            for newline in ("\n", "\r\n", "\n\r\n")
            for compress in (bytes, gzip.compress)
        ],
    ),
)
def test_memory_of_newlines_is_bounded_by_their_size(
    name: str, newline: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "newlines"
    path.write_bytes(compress((newline * (SIZE // len(newline))).encode()))
    reader = READERS[name]

    def read() -> None:
        assert all(item.reason == "empty" for shard in reader.shards(str(path)) for item in reader.read(shard, "s"))

    assert peak(read) < 8 * SIZE + 4 * MIB


class Counting:
    """A pattern that counts the bytes that it matches."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self.pattern, self.matched = pattern, 0

    def finditer(self, data: bytes, begin: int = 0) -> Iterator[re.Match[bytes]]:
        for match in self.pattern.finditer(data, begin):
            self.matched += match.end() - match.start()
            yield match


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_run_of_newlines_is_searched_once(newline: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunking, "_BLOCK", 1000)
    pattern: Any = Counting(chunking.SEPARATORS["blank_line"].pattern)
    data = b"a" + newline * 100_000 + b"b"
    cutter = chunking.Chunker(io.BytesIO(data), "file", len(data))
    assert cutter.boundary(chunking.RecordSeparator(pattern, 3), 10) == len(data) - 1
    assert pattern.matched < 2 * len(data)


def one_page(megabytes: int, tag: bytes = b"") -> Iterator[bytes]:
    """A page of which only the beginning is a tag, or which repeats another one, in small chunks."""
    yield b"<page>"
    for _ in range(megabytes * 256):
        yield tag.ljust(4096, b"a")


@pytest.mark.parametrize("tag", [b"", b"<revision>"], ids=["text", "history"])
@pytest.mark.parametrize("size", [MIB, 64 * MIB], ids=["larger than a shard", "smaller than a shard"])
def test_page_without_boundary_takes_linear_time(tag: bytes, size: int) -> None:
    def cut_up(megabytes: int) -> None:
        for _ in split_at_pages(one_page(megabytes, tag), size, 1 << 40, "dump"):
            pass

    assert seconds(lambda: cut_up(16)) < 10 * seconds(lambda: cut_up(4))


PARTS = st.lists(st.sampled_from([b"<page>", b"<revision>", b"<pa", b"<re", b"vision>", b"text" * 9]), max_size=60)


@given(PARTS, st.integers(1, 50), st.sampled_from([1, 10, 60, 200]))
def test_splitting_at_pages_equals_a_simple_implementation(parts: list[bytes], step: int, size: int) -> None:
    data = b"".join(parts)
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    assert list(split_at_pages(iter(chunks), size, 1 << 40, "dump")) == list(plainly_cut(chunks, size))


def plainly_cut(chunks: list[bytes], size: int) -> Iterator[bytes]:
    """Split at pages with a simple implementation of `split_at_pages`."""
    held = b""
    for chunk in chunks:
        held += chunk
        if len(held) >= size and (last := held.rfind(b"<page>")) > 0:
            yield held[:last]
            held = held[last:]
        elif len(held) >= size and b"<revision>" in held:
            held = held[: held.find(b"<revision>")] + held[held.rfind(b"<revision>") :]
    yield held


ENDLESS = {
    "attribute": b'<page><text x="',
    "comment": b"<page><!-- ",
    "instruction": b"<page><?x ",
    "entity": b"<page><title>&",
    "tag": b"<page><",
}


@pytest.mark.parametrize("begin", ENDLESS.values(), ids=ENDLESS)
def test_unterminated_tag_is_rejected_early(begin: bytes) -> None:
    parser, fed = PageParser("dump", 256 * MIB), 0
    parser.feed(begin)
    with pytest.raises(InputError, match="tag or comment is larger than 1 MiB"):
        while fed < 8 * MIB:
            parser.feed(b"a" * 65_536)
            fed += 65_536
    assert fed < 2 * MIB


@pytest.mark.parametrize("text", ["a", "あ", "\n", "&amp;", "]", "\r\n", "a\r"])
def test_long_text_is_not_mistaken_for_a_long_tag(text: str) -> None:
    parser = PageParser("dump", 256 * MIB)
    text = text * (3 * MIB // len(text))
    [page] = parser.feed(f"<page><revision><text>{text}</text></revision></page>".encode())
    assert page.text and len(page.text) > MIB // 2


def test_deeply_nested_elements_are_rejected() -> None:
    with pytest.raises(InputError, match="nested 101 deep"):
        PageParser("dump", 256 * MIB).feed(b"<page>" + b"<a>" * 1000)


def test_gap_between_distant_blocks_is_not_read_at_once() -> None:
    begun = b"BZh9" + (0x314159265359).to_bytes(6, "big") + bytes(8)
    file = io.BytesIO(begun + b"\xff" * (4 * MIB) + begun[4:])

    def read() -> None:
        with pytest.raises(InputError, match="longer than blocks can be"):
            list(bzip2_blocks.read_blocks(file, 0, "dump"))

    assert peak(read) < 4 * MIB


MARKS = [
    "{{",
    "{{ ",
    "{{a}}",
    "[[",
    "[[a]]",
    "<!--",
    "<pre",
    "<pre>",
    "</pre>",
    "__",
    "__A__",
    " ",
    "\n",
    "{{\n",
    "{{t:",
    "\u3000",
]


@pytest.mark.parametrize("mark", MARKS)
def test_disambiguation_detection_takes_linear_time(mark: str) -> None:
    marks = DisambiguationDetector(["aimai", "human name disambiguation"])

    def tell(size: int) -> None:
        marks.marker(mark * (size // len(mark)) + "x{{aimai}}")

    assert seconds(lambda: tell(8 * SIZE)) < 10 * seconds(lambda: tell(2 * SIZE))


@pytest.mark.parametrize("tag", ["<br>", "<b>", "<br><b>", "\n<i>"])
def test_marking_indentation_takes_linear_time(tag: str) -> None:
    def mark(size: int) -> None:
        mark_indentation("<pre>" + tag * (size // len(tag)))

    assert seconds(lambda: mark(8 * SIZE // 16)) < 10 * seconds(lambda: mark(2 * SIZE // 16))


def test_limits_have_the_tested_values() -> None:
    assert xml_export._TAG_LIMIT == MIB and xml_export._DEPTH_LIMIT == 100
