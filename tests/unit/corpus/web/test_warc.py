"""The reader `warc`: encodings, rejects, shards, compressions, WET, end to end."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import brotli
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.web import http as http_records
from jprep.corpus.readers.web.warc_reader import WarcReader
from jprep.testing.conformance.reader import ReaderSuite
from tests.fakes.web_archives import MAIN, http, info, members, page, record, response

ENCODINGS = {"utf-8": "utf-8", "Shift_JIS": "cp932", "EUC-JP": "euc_jp", "ISO-2022-JP": "iso2022_jp"}


def read(path: Path, **options: object) -> list[Document | Reject]:
    reader = WarcReader(WarcReader.Config(**options))  # type: ignore[arg-type]
    try:
        return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]
    finally:
        reader.close()


def outcome(data: bytes, path: Path, **options: object) -> list[str]:
    """Return the texts of the documents and the reasons of the rejects."""
    path.write_bytes(data)
    return [item.text if isinstance(item, Document) else item.reason for item in read(path, **options)]


def four() -> list[bytes]:
    return [
        info(),
        record(b"GET / HTTP/1.1\r\n\r\n", "request", content_type="application/http; msgtype=request"),
        *(response(page(label), codec, url=f"https://example.jp/{label}") for label, codec in ENCODINGS.items()),
        record(http(b"gone", status="404 Not Found")),
        record(http(b"\x89PNG", "Content-Type: image/png\r\n")),
    ]


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


class TestWarcMembers(ReaderSuite):
    step = WarcReader
    texts = (MAIN,) * 4
    rejects = ("record_warcinfo", "record_request", "status_404", "content_type")

    def write(self, folder: Path) -> str:
        path = folder / "crawl.warc.gz"
        path.write_bytes(members(four()))
        return str(path)


class TestWarcPlain(TestWarcMembers):
    def write(self, folder: Path) -> str:
        path = folder / "crawl.warc"
        path.write_bytes(b"".join(four()))
        return str(path)


class TestWet(ReaderSuite):
    step = WarcReader
    texts = ("一行目\n二行目", "別の頁")
    rejects = ("record_warcinfo", "empty")

    def write(self, folder: Path) -> str:
        path = folder / "crawl.warc.wet.gz"
        texts = ["一行目\n\x1e二行目\x1f\n", "", "別の頁"]
        records = [record(text.encode(), "conversion", content_type="text/plain") for text in texts]
        path.write_bytes(members([info(), *records]))
        return str(path)


def test_a_page_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(response(page("Shift_JIS"), "cp932", extra="WARC-Truncated: length\r\n"))
    reader = WarcReader()
    (shard,) = reader.shards(str(tmp_path / "a.warc"))
    ((doc, original),) = reader.read_with_originals(shard, "s")
    assert isinstance(doc, Document)
    assert (doc.id, doc.title, doc.url) == ("s:a.warc:0", "山の話", "https://example.jp/")
    assert doc.meta == {
        "date": "2026-01-02T03:04:05Z",
        "record": "urn:uuid:6b1e",
        "truncated": "length",
        "status": "200",
        "content_type": "text/html",
        "charset": "cp932",
        "licence": "https://creativecommons.org/licenses/by/4.0/",
    }
    assert original == page("Shift_JIS")
    assert (reader.tally["ruby.deleted"], reader.tally["line_breaks.joined"], reader.tally["charset.cp932"]) == (
        1,
        1,
        1,
    )
    assert set(reader.provenance()) == {"fastwarc", "resiliparse"}
    reader.close()


@pytest.mark.parametrize("shard_mb", [1e-6, 0.001, 0.004, 32.0])
@pytest.mark.parametrize("packed", [members, b"".join], ids=["members", "plain"])
def test_shards_do_not_change_documents(tmp_path: Path, shard_mb: float, packed: object) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(packed(four() * 50))  # type: ignore[operator]
    reader = WarcReader(WarcReader.Config(shard_mb=shard_mb))
    shards = list(reader.shards(str(path)))
    assert (len(shards) > 1) == (shard_mb < 1)
    assert [shard.start for shard in shards[1:]] == [shard.end for shard in shards[:-1]]
    assert read(path, shard_mb=shard_mb) == read(path)
    assert len({item.id for item in read(path)}) == 400


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress,
        bz2.compress,
        zstandard.compress,
        lambda data: b"".join(gzip.compress(data[at : at + 1000]) for at in range(0, len(data), 1000)),
    ],
    ids=["one gzip member", "bzip2", "zstd", "gzip members across records"],
)
def test_a_compressed_stream_of_records_gives_the_documents_of_a_plain_one(tmp_path: Path, packed: object) -> None:
    data = b"".join(four() * 3)
    (tmp_path / "a.warc").write_bytes(data)
    plain = read(tmp_path / "a.warc")
    (tmp_path / "a.warc").write_bytes(packed(data))  # type: ignore[operator]
    assert read(tmp_path / "a.warc") == plain
    assert read(tmp_path / "a.warc", shard_mb=0.002) == plain


def test_a_pipe_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(members(four()))

    monkeypatch.setattr("sys.stdin", Stdin)
    items = read(Path("-"))
    assert [item.text for item in items if isinstance(item, Document)] == [MAIN] * 4


def test_an_archive_in_an_archive_is_not_taken_apart(tmp_path: Path) -> None:
    """A gzip member that holds a .warc.gz shows the members of that in its bytes: they are not records of the file."""
    inner = members([response(page(title=f"内側{number}")) for number in range(600)])
    held = record(http(inner, "Content-Type: application/octet-stream\r\n"))
    path = tmp_path / "a.warc.gz"
    path.write_bytes(members([info(), *[held] * 3, response()]))
    expected = ["record_warcinfo", *["content_type"] * 3, MAIN]
    for shard_mb in (0.01, 0.1, 0.5, 32.0):
        items = read(path, shard_mb=shard_mb)
        assert [item.text if isinstance(item, Document) else item.reason for item in items] == expected


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Type: text/html\r\nContent-Encoding: gzip\r\n", gzip.compress(page().encode())),
        ("Content-Type: text/html\r\nContent-Encoding: deflate\r\n", zlib.compress(page().encode())),
        ("Content-Type: text/html\r\nContent-Encoding: deflate\r\n", zlib.compress(page().encode(), wbits=-15)),
        ("Content-Type: text/html\r\nContent-Encoding: deflate\r\n", page().encode()),
        ("Content-Type: text/html\r\nContent-Encoding: br\r\n", brotli.compress(page().encode())),
        ("Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n", chunked(page().encode())),
        ("Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n", page().encode()),
        ("Content-Type: text/html\r\nContent-Encoding: gzip\r\n", page().encode()),
        ("Content-Type: text/html\r\nContent-Encoding: unheard-of\r\n", page().encode()),
        ("content-type: APPLICATION/XHTML+XML ; charset=UTF-8\r\n", page("x").encode()),
        ("", page().encode()),
    ],
    ids=["gzip", "zlib", "raw deflate", "not deflate",
         "br", "chunked", "not chunked", "not gzip", "unknown encoding", "xhtml", "no type"],
)  # fmt: skip
def test_http(tmp_path: Path, headers: str, body: bytes) -> None:
    assert outcome(record(http(body, headers)), tmp_path / "a.warc") == [MAIN]


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
@pytest.mark.parametrize("lost", [1, 8, 300])
def test_a_compressed_body_that_ends_early_is_counted(
    tmp_path: Path, compress: Callable[[bytes], bytes], lost: int
) -> None:
    coding = compress.__module__.replace("zlib", "deflate")
    numbered = "".join(f"<p>{number}番目の段落は{number * 7919 % 1009}で終わります。</p>" for number in range(200))
    html = f"<html><body>{numbered}</body></html>".encode()
    headers = f"Content-Type: text/html\r\nContent-Encoding: {coding}\r\n"
    path = tmp_path / "a.warc"
    whole, cut = (record(http(body, headers)) for body in (compress(html), compress(html)[:-lost]))
    path.write_bytes(whole + cut)
    reader = WarcReader(WarcReader.Config())
    first, second = (item for shard in reader.shards(str(path)) for item in reader.read(shard, "s"))
    reader.close()
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert first.text.startswith(second.text[:-20])
    assert ("truncated" in first.meta, second.meta["truncated"]) == (False, "unspecified")
    assert reader.tally["http.incomplete"] == 1


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=3), st.integers(1, 64))
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_members_of_compressed_bodies_are_joined(coding: str, contents: list[bytes], size: int) -> None:
    packed = b"".join(map(gzip.compress, contents))
    with mock.patch.object(http_records, "_CHUNK", size):
        opened = SimpleNamespace(reader=io.BytesIO(packed))
        assert b"".join(http_records._inflate(opened, coding)) == b"".join(contents)
        stray = SimpleNamespace(reader=io.BytesIO(packed + b"\r\n"))
        assert b"".join(http_records._inflate(stray, coding)) == b"".join(contents)
        with pytest.raises(EOFError):
            list(http_records._inflate(SimpleNamespace(reader=io.BytesIO(packed[:-1])), coding))


@given(st.binary(max_size=3000), st.integers(1, 64), st.sampled_from([zlib.MAX_WBITS, -zlib.MAX_WBITS]))
def test_a_body_may_lack_the_header_of_zlib(content: bytes, size: int, form: int) -> None:
    with mock.patch.object(http_records, "_CHUNK", size):
        opened = SimpleNamespace(reader=io.BytesIO(zlib.compress(content, wbits=form)))
        assert b"".join(http_records._inflate(opened, "deflate")) == content


def test_text_pages_and_resources(tmp_path: Path) -> None:
    text = record(http("日本語の\r\n文章。".encode("euc_jp"), "Content-Type: text/plain; charset=EUC-JP\r\n"))
    stored = record(page().encode(), "resource", content_type="text/html")
    assert outcome(text + stored, tmp_path / "a.warc") == ["日本語の\n文章。", MAIN]


def test_text_declares_no_encoding_in_itself(tmp_path: Path) -> None:
    prose = "頁に<meta charset=euc-jp>と書くと、"
    wet = record(("\n".join(["短い文。", prose])).encode(), "conversion", content_type="text/plain")
    text = record(http(prose.encode("cp932"), "Content-Type: text/plain\r\n"))
    (tmp_path / "a.warc").write_bytes(wet + text)
    first, second = read(tmp_path / "a.warc")
    assert isinstance(first, Document) and isinstance(second, Document)
    assert (first.meta["charset"], first.text) == ("utf-8", f"短い文。\n{prose}")
    assert (second.meta["charset"], second.text) == ("cp932", prose)


def test_rejects_are_shown_with_their_record(tmp_path: Path) -> None:
    gone = record(http(b"gone \xff", status="404 Not Found"))
    (tmp_path / "a.warc").write_bytes(gone)
    reader = WarcReader()
    (shard,) = reader.shards(str(tmp_path / "a.warc"))
    ((_, original),) = reader.read_with_originals(shard, "s")
    assert original == gone.decode("utf-8", "backslashreplace").rstrip("\r\n")


def test_trafilatura(tmp_path: Path) -> None:
    assert outcome(response(), tmp_path / "a.warc", extractor="trafilatura") == [MAIN]
    reader = WarcReader(WarcReader.Config(extractor="trafilatura"))
    assert set(reader.provenance()) == {"fastwarc", "resiliparse", "trafilatura", "lxml"}


def test_four_encodings_go_end_to_end_to_parquet(tmp_path: Path) -> None:
    (tmp_path / "crawl.warc.gz").write_bytes(members(four()))
    source = {"name": "web", "reader": "warc", "paths": [str(tmp_path / "*.warc.gz")]}
    steps = {"sources": [source], "normalizers": [], "splitter": "none", "segmenter": "none"} | {
        "dedup": {"documents": False}
    }
    Corpus.build(decode_recipe({"name": "t", "corpus": steps}), tmp_path / "corpus")
    (file,) = (tmp_path / "corpus" / "documents").glob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert [row["text"] for row in rows] == [MAIN] * 4
    assert [row["url"] for row in rows] == [f"https://example.jp/{label}" for label in ENCODINGS]
    assert [dict(map(dict.values, row["meta"]))["charset"] for row in rows] == list(ENCODINGS.values())
