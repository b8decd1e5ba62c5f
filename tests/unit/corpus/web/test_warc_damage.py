"""Damaged and hostile archives: bounded time and memory, each fault a counted reject, the other records survive."""

from __future__ import annotations

import bz2
import gzip
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.web.records import Limits, read_members, read_records
from jprep.corpus.readers.web.warc_reader import WarcReader
from jprep.corpus.readers.web.window import Window
from jprep.errors import InputError
from jprep.io.machine import peak_memory
from tests.fakes.web_archives import MAIN, SENTENCES, http, info, members, page, record, response

Pack = Callable[[list[bytes]], bytes]
PACKS: list[Pack] = [members, b"".join]
BOTH = pytest.mark.parametrize("pack", PACKS, ids=["members", "plain"])


def read(data: bytes, folder: Path, **options: object) -> list[Document | Reject]:
    path = folder / "a.warc"
    path.write_bytes(data)
    reader = WarcReader(WarcReader.Config(**{"max_bad": 1.0} | options))  # type: ignore[arg-type]
    try:
        return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]
    finally:
        reader.close()


def outcome(data: bytes, folder: Path, **options: object) -> list[str]:
    """Return the texts of the documents and the reasons of the rejects."""
    return [item.text if isinstance(item, Document) else item.reason for item in read(data, folder, **options)]


def text(number: int) -> str:
    return f"これは{number}番目の頁の本文である。{SENTENCES}"


def pages(count: int) -> list[bytes]:
    return [response(page(body=f"<p>{text(number)}</p><p>{SENTENCES}</p>")) for number in range(count)]


def expected(number: int) -> str:
    return f"{text(number)}\n{SENTENCES}"


@BOTH
def test_a_truncated_file_keeps_its_whole_records(tmp_path: Path, pack: Pack) -> None:
    data = pack(pages(3))
    assert outcome(data[:-100], tmp_path) == [expected(0), expected(1), "damaged"]


@BOTH
def test_more_damage_than_allowed_is_an_error(tmp_path: Path, pack: Pack) -> None:
    with pytest.raises(InputError, match=r"1 of 3 records are bad, over max_bad = 0.01; first: a record is damaged"):
        read(pack(pages(3))[:-100], tmp_path, max_bad=0.01)


@pytest.mark.parametrize("part", [0, 3, 9, 12, 100, -9, -1])
def test_a_flipped_byte_of_a_member_costs_this_record(tmp_path: Path, part: int) -> None:
    packed = [members([item]) for item in pages(4)]
    broken = bytearray(packed[1])
    broken[part] ^= 0xFF
    found = outcome(b"".join([packed[0], bytes(broken), *packed[2:]]), tmp_path)
    assert [item for item in found if item != "damaged"] in (
        [expected(0), expected(2), expected(3)],
        [expected(number) for number in range(4)],  # the byte is one that nothing reads
    )


@BOTH
@pytest.mark.parametrize("length", [0, 5, 10_000, -1, 9**99])
def test_a_wrong_length_costs_this_record(tmp_path: Path, pack: Pack, length: int) -> None:
    first, _, last = pages(3)
    found = outcome(pack([first, record(http(page().encode()), length=length), last]), tmp_path)
    assert found[0] == expected(0)
    assert found[-1] == expected(2)
    assert set(found[1:-1]) <= {"damaged", "too_large"}
    assert len(found) == 3


@pytest.mark.parametrize("length", [10**9, 10**14])
def test_a_length_over_the_end_of_the_file_is_damage(tmp_path: Path, length: int) -> None:
    first, _, last = pages(3)
    records = [first, record(http(page().encode()), length=length), last]
    assert outcome(members(records), tmp_path) == [expected(0), "damaged", expected(2)]
    assert outcome(b"".join(records), tmp_path) == [expected(0), "damaged"]


@BOTH
@pytest.mark.parametrize(
    "garbage",
    [b"garbage", b"\0" * 70_000, random.Random(0).randbytes(300_000), b"x\x1f\x8b\x08\0", b"WARC/1.0\r\n" * 99],
    ids=["text", "zeros", "random", "a gzip header", "headers"],  # the bytes are too long for a name
)
def test_garbage_between_records_costs_nothing_else(tmp_path: Path, pack: Pack, garbage: bytes) -> None:
    first, second = (pack([item]) for item in pages(2))
    before = garbage if pack is not members else b""  # the first bytes tell the compression
    found = outcome(before + first + garbage + second + garbage, tmp_path)
    assert [item for item in found if item != "damaged"] == [expected(0), expected(1)]
    assert len(found) <= 5


@BOTH
def test_headers_without_end(tmp_path: Path, pack: Pack) -> None:
    first, last = pages(2)
    huge = f"X-Filler: {'x' * 2_000_000}\r\n"
    hostile = [response(extra=huge), record(http(page().encode(), f"Content-Type: text/html\r\n{huge}"))]
    assert outcome(pack([first, *hostile, last]), tmp_path) == [expected(0), "damaged", "malformed_http", expected(1)]


@BOTH
def test_pages_over_the_limit(tmp_path: Path, pack: Pack) -> None:
    first, last = pages(2)
    line = record(http(("<p>" + "あ" * 700_000).encode()))
    picture = record(http(b"\x89" * 2_000_000, "Content-Type: image/png\r\n"))
    packed = record(http(gzip.compress(b"a" * 50_000_000), "Content-Type: text/html\r\nContent-Encoding: gzip\r\n"))
    found = outcome(pack([first, line, picture, packed, last]), tmp_path, max_page_mb=1.0)
    assert found == [expected(0), "too_large", "content_type", "too_large", expected(1)]


def test_a_decompression_bomb_costs_its_record(tmp_path: Path) -> None:
    first, last = pages(2)
    bomb = gzip.compress(record(http(b"\0" * 200_000_000)))
    started, before = time.process_time(), peak_memory()
    assert outcome(members([first]) + bomb + members([last]), tmp_path) == [expected(0), "damaged", expected(1)]
    assert time.process_time() - started < 20
    assert peak_memory() - before < 200 << 20


def test_a_bomb_in_another_compression_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bomb"):
        read(bz2.compress(response() + b"\n" * 200_000_000), tmp_path)


@BOTH
def test_hostile_pages_cost_themselves(tmp_path: Path, pack: Pack) -> None:
    first, last = pages(2)
    hostile = [
        response("<div>" * 200_000),
        record(http(b"<p>\xff\xfe\xfd\x80\x81" * 9, "Content-Type: text/html; charset=no-such-thing\r\n")),
        record(http(b"\0" * 100_000)),
        record(b"not http at all"),
        record(b""),
        record(http(b"zz\r\nnothing\r\n", "Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n")),
    ]
    reasons = ["too_deep", "invalid_encoding", "empty", "malformed_http", "malformed_http", "malformed_http"]
    assert outcome(pack([first, *hostile, last]), tmp_path) == [expected(0), *reasons, expected(1)]


@BOTH
def test_records_inside_a_page_are_a_part_of_it(tmp_path: Path, pack: Pack) -> None:
    """A server cannot add records to an archive."""
    fake = response(page(body="<p>偽の頁</p>"), url="https://victim.example/").decode()
    data = pack([response(f"<pre>\r\n\r\n{fake}</pre>{page()}"), *pages(1)])
    items = read(data, tmp_path)
    assert {item.url for item in items if isinstance(item, Document)} == {"https://example.jp/"}
    assert len(items) == 2


@pytest.mark.parametrize("pack", [*PACKS, lambda records: gzip.compress(b"".join(records))])
@pytest.mark.parametrize("shard_mb", [0.001, 32.0])
def test_records_inside_a_page_over_the_limit_are_a_part_of_it(tmp_path: Path, pack: Pack, shard_mb: float) -> None:
    fake = response(page(body="<p>偽の頁</p>"), url="https://victim.example/").decode()
    large = response(f"<pre>\r\n\r\n{fake * 1000}</pre>{page()}")
    found = outcome(pack([large, *pages(1)]), tmp_path, max_page_mb=0.1, shard_mb=shard_mb)
    assert found == ["too_large", expected(0)]


def test_marks_in_addresses_are_deleted(tmp_path: Path) -> None:
    (doc,) = read(response(url="https://example.jp/\x1ea\x1f\x00b"), tmp_path)
    assert isinstance(doc, Document)
    assert (doc.url, doc.text) == ("https://example.jp/ab", MAIN)


def test_an_empty_file_and_files_of_other_kinds(tmp_path: Path) -> None:
    assert outcome(b"", tmp_path) == []
    for other in (b"<html>no archive</html>", gzip.compress(b"no archive"), members([info()])[:7]):
        with pytest.raises(InputError, match="a record is damaged"):
            read(other, tmp_path, max_bad=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_any_damage_is_survived_in_any_shards(tmp_path: Path, seed: int) -> None:
    """Records that no changed byte touches are read, and shards of any size give the same."""
    chance = random.Random(seed)
    records = [record(http(chance.randbytes(chance.randrange(3000)), "Content-Type: image/png\r\n")) for _ in range(60)]
    pack = members if seed % 2 else b"".join
    packed = [pack([item]) for item in records]
    broken = chance.sample(range(60), 5)
    for number in broken:
        data = bytearray(packed[number])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        packed[number] = bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
    data = b"".join(packed)
    whole = [item.id for item in read(data, tmp_path)]
    starts = {f"s:a.warc:{sum(map(len, packed[:number]))}" for number in range(60) if number not in broken}
    assert starts <= set(whole)
    assert len(whole) == len(set(whole))
    assert [item.id for item in read(data, tmp_path, shard_mb=0.01)] == whole


@pytest.mark.parametrize(
    "piece", [b"\x1f\x8b\x08\0aaaa\0\0", b"WARC/1.0\r\nA", b"\nWARC/1.0\r\nContent-Length: 999999\r\n\r\n"]
)
def test_many_false_beginnings_take_linear_time(piece: bytes, tmp_path: Path) -> None:
    limits, started = Limits(8_000_000, 250.0), time.process_time()
    for read_all in (read_members, read_records):
        path = tmp_path / "a"
        path.write_bytes(piece * (2_000_000 // len(piece)))
        with path.open("rb") as stream:
            assert sum(1 for _ in read_all(Window(stream), limits))
    assert time.process_time() - started < 30
