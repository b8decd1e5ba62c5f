"""Truncated, corrupt or exhausting inputs: errors with location and fix, and no partial output."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.benchmarks.measure import MIB
from tests.hostile.conftest import HEAD, Build, Put, article, dump, page, reader

PAGES = 120
DUMP = dump(article(number, 60) for number in range(PAGES))
BLOCKS = bz2.compress(DUMP, 1)  # level 1 makes blocks of 100 kB
BORDERS = [0, *(DUMP.index(b"  <page>", len(DUMP) * part // 3) for part in (1, 2)), len(DUMP)]
STREAMS = [bz2.compress(DUMP[start:end]) for start, end in itertools.pairwise(BORDERS)]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": lambda data: bz2.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=1),
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
    "": bytes,
}
KINDS = sorted(COMPRESS)
CRAWL = "".join(f"文書{n}の一行目は長い行である。\n二行目もまた長い行である。\n\n" for n in range(20_000)).encode()
SMALL_SHARDS = reader("wikipedia", shard_mb=1)
BOUND = 400 * MIB
FOOTER = 11
"""Bytes at a stream's end that only repeat the blocks' own checksums."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_dump_is_reported(kind: str, build: Build, put: Put) -> None:
    whole = COMPRESS[kind](DUMP)
    path = put(f"cut.xml.{kind}", whole[: len(whole) * 2 // 3])
    build("--wikipedia", path, code=4, says=["cut.xml", "byte" if kind else "in the page '項目", "on_truncated"])


@pytest.mark.parametrize("kind", KINDS)
def test_whole_pages_of_a_cut_dump_can_be_kept(kind: str, build: Build, put: Put) -> None:
    whole = COMPRESS[kind](DUMP)
    path = put(f"cut.xml.{kind}", whole[: len(whole) * 2 // 3])
    kept = build("--wikipedia", path, more=reader("wikipedia", on_truncated="keep", shard_mb=1))
    assert kept.manifest.counts["reader.wikipedia.files.truncated"] == 1
    texts = kept.texts()
    assert PAGES // 3 < len(texts) < PAGES
    assert all("59行目" in text for text in texts)


def test_a_dump_truncated_between_two_pages_is_counted(build: Build, put: Put) -> None:
    border = DUMP.index(b"  <page>", len(DUMP) // 2)
    path = put("cut.xml.gz", gzip.compress(DUMP[:border])[:-8])
    build("--wikipedia", path, code=4, says=["truncated"])
    kept = build("--wikipedia", path, more=[*reader("wikipedia", on_truncated="keep"), "--restart"])
    assert kept.manifest.counts["reader.wikipedia.files.truncated"] == 1
    assert kept.manifest.totals["documents"] == DUMP[:border].count(b"<page>")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind])
def test_truncated_web_text_is_reported(kind: str, build: Build, put: Put) -> None:
    whole = COMPRESS[kind](CRAWL)
    path = put(f"cut.txt.{kind}", whole[: len(whole) // 2])
    build("--cc100", path, code=4, says=["truncated", "compressed byte", "cut.txt"])


def test_damage_in_a_file_of_one_piece_is_found_before_documents_are_read(build: Build, put: Put) -> None:
    """It is decoded once, to cut it: nothing of it is read until that has succeeded."""
    data = dump(article(number, 300) for number in range(300))
    path = put("cut.xml.gz", gzip.compress(data, 1)[:-20_000])
    attempt = build("--wikipedia", path, code=4, more=SMALL_SHARDS, says=["truncated", "cut.xml.gz"])
    assert attempt.receipts() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_documents_committed_before_malformed_xml_are_kept(workers: int, build: Build, put: Put) -> None:
    data = dump(article(number, 300) for number in range(200))
    broken = data[:-300_000] + data[-300_000:].replace(b"</title>", b"</titel>", 1)
    attempt = build(
        "--wikipedia", put("broken.xml", broken), code=4, more=SMALL_SHARDS, workers=workers,
        says=["malformed XML", "mismatched tag", "broken.xml", "byte"],
    )  # fmt: skip
    attempt.assert_committed_stands(3)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("data", [BLOCKS, b"".join(STREAMS)], ids=["one stream", "three streams"])
def test_a_flipped_bit_is_reported(place: float, data: bytes, build: Build, put: Put) -> None:
    damaged = bytearray(data)
    damaged[int(len(data) * place)] ^= 0x10
    path = put("flipped.xml.bz2", bytes(damaged))
    build("--wikipedia", path, code=4, says=["compressed byte", "flipped.xml.bz2", "fetch"])


@pytest.mark.parametrize("stream", range(3))
def test_a_block_that_is_not_recognised_is_not_passed_over(stream: int, build: Build, put: Put) -> None:
    damaged = [bytearray(each) for each in STREAMS]
    damaged[stream][6] ^= 0x10
    build("--wikipedia", put("flipped.xml.bz2", b"".join(damaged)), code=4, says=["flipped.xml.bz2", "byte"])


def test_bzip2_followed_by_other_data_is_reported(build: Build, put: Put) -> None:
    build("--wikipedia", put("tail.xml.bz2", BLOCKS + b"not bzip2 at all" * 100), code=4, says=["tail.xml.bz2"])


def test_bzip2_padded_with_zeros_is_read(build: Build, put: Put) -> None:
    assert build("--wikipedia", put("padded.xml.bz2", BLOCKS + bytes(5000))).manifest.totals["documents"] == PAGES


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bytes_from_every_compression(workers: int, build: Build, put: Put, tmp_path: Path) -> None:
    exports = set()
    for kind in KINDS:
        path = put(f"dump.xml.{kind}", COMPRESS[kind](DUMP))
        done = build("--wikipedia", path, workers=workers, folder=tmp_path / f"corpus{kind}")
        exports.add("\n".join(done.texts()))
    assert len(exports) == 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"<html><body>not a dump</body></html>", ["not a MediaWiki export"]),
        (bytes(range(256)) * 100, ["not a MediaWiki export"]),
        (HEAD.encode() + b"<page><x & y></page>", ["malformed XML", "not well-formed", "byte"]),
        (HEAD.encode() + page(1, "x").encode() + b"<page>\xff\xfe</page>", ["malformed XML", "byte"]),
        (HEAD.replace('key="10"', 'key="ten"').encode() + page(1, "x").encode(), ["namespace"]),
        (HEAD.replace("<namespaces>", "<namespaces></namespace>").encode() + page(1, "x").encode(), ["malformed XML"]),
        (HEAD.encode() + page(1, article(1), namespace="none").encode(), ["namespace"]),
        (HEAD.encode() + page(1, "").replace("項目", "&none;").encode(), ["malformed XML", "undefined entity"]),
        (HEAD.encode() + page(1, "").replace("項目", "&#30;").encode(), ["malformed XML"]),
        (dump(["語"]).decode().encode("utf-16"), ["not a MediaWiki export"]),
        (dump(["語"]).decode().encode("cp932"), ["malformed XML"]),
    ],
    ids=["html", "binary", "tag", "utf-8", "key", "end tag", "ns", "entity", "control", "utf-16", "cp932"],
)
@pytest.mark.parametrize("kind", ["", "bz2"])
def test_an_invalid_export_is_reported(data: bytes, says: list[str], kind: str, build: Build, put: Put) -> None:
    build("--wikipedia", put("odd.xml", COMPRESS[kind](data)), code=4, says=["odd.xml", *says])


LAUGHS = ["<!ENTITY l0 'ha'>", *(f"<!ENTITY l{n + 1} '{f'&l{n};' * 10}'>" for n in range(12))]
DOCTYPES = {
    "billion laughs": f"<!DOCTYPE mediawiki [{''.join(LAUGHS)}]>\n" + HEAD.replace("https://example.org/", "&l12;"),
    "outside entity": '<!DOCTYPE mediawiki [<!ENTITY x SYSTEM "file:///etc/hostname">]>\n' + HEAD,
    "page in the DTD": '<!DOCTYPE mediawiki [<!ENTITY x "<page>">]>\n' + HEAD,
    "empty": "<!DOCTYPE mediawiki>\n" + HEAD,
}


@pytest.mark.parametrize("kind", ["", "gz"])
@pytest.mark.parametrize("head", DOCTYPES.values(), ids=DOCTYPES)
def test_a_document_type_is_refused(head: str, kind: str, build: Build, put: Put) -> None:
    data = (head + page(1, "&l12;&x;") + "</mediawiki>").replace("&amp;", "&").encode()
    done = build(
        "--wikipedia", put("bomb.xml", COMPRESS[kind](data)), code=4, says=["bomb.xml", "document type"], measured=True
    )
    assert done.run.peak < BOUND


def test_an_entity_bomb_after_the_head_is_refused(build: Build, put: Put) -> None:
    data = HEAD + page(1, article(1)) + f"<!DOCTYPE page [{''.join(LAUGHS)}]>" + page(2, "&l12;").replace("&amp;", "&")
    build("--wikipedia", put("bomb.xml", data.encode()), code=4, says=["bomb.xml", "byte"])


BOMBS: dict[str, Callable[[bytes, int], bytes]] = {
    "bz2": lambda piece, times: bz2.compress(piece * times),
    "gz": lambda piece, times: gzip.compress(piece * times),
    "xz": lambda piece, times: lzma.compress(piece * times, preset=1),
    "zst": lambda piece, times: zstandard.ZstdCompressor().compress(piece * times),
}


# Each reader and each compression once: which reader it is makes no difference to the limit of a stream.
SOME = [("--wikipedia", "bz2"), ("--cc100", "zst"), ("--text", "gz"), ("--jsonl", "xz")]
ALL = itertools.product(["--wikipedia", "--cc100"], BOMBS)
REST = [pytest.param(*pair, marks=pytest.mark.soak) for pair in ALL if pair not in SOME]


@pytest.mark.parametrize(("option", "kind"), [*SOME, *REST])
def test_a_bomb_is_stopped_in_bounded_memory(option: str, kind: str, build: Build, put: Put) -> None:
    head = HEAD + "<page><title>a</title><revision><text>" if option == "--wikipedia" else "始まり\n\n"
    data = BOMBS[kind](b"a" * MIB, 600)
    compressed = COMPRESS[kind](head.encode()) + data
    assert len(data) * 1000 < 600 * MIB
    path = put(f"bomb.{kind}", compressed)
    done = build(option, path, code=4, says=["decompression bomb", path.name, "max_ratio"], measured=True)
    assert done.run.peak < BOUND


@pytest.mark.parametrize("option", ["--cc100", "--text", "--jsonl"])
def test_invalid_utf8_is_reported_with_its_offset(option: str, build: Build, put: Put) -> None:
    line = '{"text": "これは試しの文である。"}\n'.encode()
    lines = [line] * 500
    lines[300] = line.replace("試".encode(), b"\xe8\xff\xa6")
    at = len(line) * 300 + lines[300].index(b"\xe8")
    build(option, put("latin.txt", b"".join(lines)), code=4, says=["latin.txt", f"byte {at}", "utf-8", "max_bad"])


def test_a_share_of_bad_records_can_be_allowed(build: Build, put: Put) -> None:
    lines = [f'{{"text": "これは第{n}の試しの文であり、十分に長い。"}}\n'.encode() for n in range(1000)]
    lines[10], lines[20], lines[30] = b'{"text": "\xff"}\n', b'{"text": \n', b'{"text": "\\ud800"}\n'
    path = put("some.jsonl", b"".join(lines))
    build("--jsonl", path, code=4, more=reader("jsonl", max_bad=0.001))
    done = build("--jsonl", path, more=[*reader("jsonl", max_bad=0.01), "--restart"])
    assert done.manifest.totals["documents"] + sum(done.manifest.rejects.values()) == 1000
    assert done.manifest.rejects["reader.jsonl/invalid_utf8"] == 1
    assert done.manifest.rejects["reader.jsonl/malformed_json"] >= 1


@pytest.mark.parametrize("flip", range(len(BLOCKS) // 7, len(BLOCKS) - FOOTER, len(BLOCKS) // 7))
def test_no_flipped_bit_is_accepted_as_text(flip: int, build: Build, put: Put) -> None:
    damaged = bytearray(BLOCKS)
    damaged[flip] ^= 1
    build("--wikipedia", put("flipped.bz2", bytes(damaged)), code=4, says=["flipped.bz2"])
