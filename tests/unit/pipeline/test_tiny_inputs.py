"""Inputs at scale tiny: the beginning of a remote file, or the embedded sample without a network."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import zstandard

from jprep.corpus.config import RemoteFile
from jprep.corpus.download.head import fetch_head
from jprep.corpus.download.remote import RetryPolicy
from jprep.errors import ConfigError, InputError
from jprep.pipeline.recipe import decode_recipe
from jprep.pipeline.tiny_inputs import pending_partial_downloads, with_tiny_inputs
from tests.hostile.conftest import article, dump

QUICK = RetryPolicy(tries=1, pause_s=0.0, timeout_s=120.0)
SIZE = 100_000
RANDOM = random.Random(7)
CRAWL = "".join(f"文書{n}の行{RANDOM.random()}である。\n二行目。\n\n" for n in range(40_000)).encode()
DUMP = dump(f"{article(n)}{RANDOM.random()}" * 3 for n in range(3000))


def multistream(data: bytes) -> bytes:
    return b"".join(bz2.compress(data[at : at + 300_000]) for at in range(0, len(data), 300_000))


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": lambda data: bz2.compress(data, 1),
    ".multi.bz2": multistream,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


class Mirror:
    """An HTTP server of this machine.

    Attributes:
        files: what it serves, by path.
        ranges: whether it knows range requests.
        sent: bytes of bodies that it has sent, or tried to.
        asked: the range of each request.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges, self.sent, self.asked = True, 0, list[str | None]()
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{name}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        data, asked = self.files.get(request.path[1:]), request.headers["Range"]
        self.asked.append(asked)
        if data is None:
            request.send_error(404)
            return
        body = data
        if self.ranges and asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            body = data[int(first) : int(last) + 1]
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(data)}")
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        for at in range(0, len(body), 1 << 14):
            try:
                request.wfile.write(body[at : at + (1 << 14)])
            except OSError:
                return
            self.sent += 1 << 14


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    made = Mirror()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("suffix", COMPRESS)
def test_only_whole_records_of_the_beginning_are_stored(
    suffix: str, ranges: bool, mirror: Mirror, tmp_path: Path
) -> None:
    mirror.ranges = ranges
    compress = COMPRESS[suffix]
    for reader, data in {"cc100": CRAWL, "wikipedia": DUMP}.items():
        name = f"{reader}.data{suffix}"
        mirror.files[name] = compress(data)
        size = SIZE if len(mirror.files[name]) > 2 * SIZE else len(mirror.files[name]) // 2
        path = fetch_head(RemoteFile(url=mirror.url(name)), tmp_path, reader, size=size, retry_policy=QUICK)
        found = path.read_bytes()
        assert path.name == name.removesuffix(f".{suffix.rpartition('.')[2]}" if suffix else "")
        if reader == "wikipedia":
            found = found.removesuffix(b"\n</mediawiki>\n")
            assert found.endswith(b"</page>")
        else:
            assert found.endswith(b"\n\n")
        assert data.startswith(found) and len(data) // 200 < len(found) < len(data)
    assert mirror.asked[0] == f"bytes=0-{SIZE - 1}" or suffix


def test_a_server_without_ranges_sends_little_more(mirror: Mirror, tmp_path: Path) -> None:
    mirror.ranges = False
    mirror.files["big"] = "行である。\n\n".encode() * 4_000_000
    fetch_head(RemoteFile(url=mirror.url("big")), tmp_path, "cc100", size=SIZE, retry_policy=QUICK)
    assert mirror.sent < len(mirror.files["big"]) // 2


def test_a_small_file_is_stored_whole_and_only_once(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["small.txt.gz"] = gzip.compress("一行だけ".encode())
    file = RemoteFile(url=mirror.url("small.txt.gz"))
    for _ in range(2):
        path = fetch_head(file, tmp_path, "text", size=SIZE, retry_policy=QUICK)
        assert path.read_text(encoding="utf-8") == "一行だけ"
    assert len(mirror.asked) == 1


def test_what_cannot_be_used_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["endless"] = b"x" * (2 * SIZE)
    mirror.files["broken.gz"] = b"\x1f\x8b" + b"not gzip" * SIZE
    for name, reader in {"endless": "jsonl", "broken.gz": "text"}.items():
        with pytest.raises(InputError) as caught:
            fetch_head(RemoteFile(url=mirror.url(name)), tmp_path, reader, size=SIZE, retry_policy=QUICK)
        assert mirror.url(name) == caught.value.where
    with pytest.raises(ConfigError, match="not on the server"):
        fetch_head(RemoteFile(url=mirror.url("nothing")), tmp_path, "text", retry_policy=QUICK)
    assert not list(tmp_path.iterdir())


def recipe(*sources: tuple[str, str, str]):
    listed = [
        {"name": name, "reader": reader, "paths": [f"downloads/{name}"], "files": [{"url": url}]}
        for name, reader, url in sources
    ]
    raw = {
        "name": "r",
        "corpus": {"sources": listed},
        "tokenizer": {"vocab_size": 3000},
        "dataset": {"validation": 0.1},
    }
    return decode_recipe(raw)


def test_missing_inputs_are_replaced_by_partial_downloads(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "mine").write_text("ここにある。")
    mirror.files["a.txt.xz"] = lzma.compress(CRAWL, preset=0)
    asked = recipe(("web", "cc100", mirror.url("a.txt.xz")), ("mine", "text", mirror.url("b")))
    folder, said = Path("downloads"), list[str]()
    assert pending_partial_downloads(asked, folder) == {Path("downloads/beginnings/a.txt"): mirror.url("a.txt.xz")}
    found = with_tiny_inputs(asked, folder, said.append, QUICK)
    assert [source.paths for source in found.corpus.sources] == [["downloads/beginnings/a.txt"], ["downloads/mine"]]
    assert [len(source.files) for source in found.corpus.sources] == [0, 1] and found.tokenizer == asked.tokenizer
    assert len(said) == 1 and "first 2.1 MB" in said[0] and mirror.url("a.txt.xz") in said[0]
    assert with_tiny_inputs(asked, folder, said.append, QUICK) == found and len(said) == 1
    assert pending_partial_downloads(asked, folder) == {}


def test_the_sample_replaces_a_file_that_is_gone(mirror: Mirror, tmp_path: Path) -> None:
    said = list[str]()
    found = with_tiny_inputs(recipe(("wiki", "wikipedia", mirror.url("old.xml.bz2"))), tmp_path, said.append, QUICK)
    assert found.corpus.sources[0].paths == [str(tmp_path / "beginnings" / "sample-wikipedia")]
    assert "not on the server (HTTP 404); using the embedded sample instead" in said[-1]
    with pytest.raises(ConfigError, match="HTTP 404"):
        with_tiny_inputs(recipe(("rows", "jsonl", mirror.url("old.jsonl"))), tmp_path, said.append, QUICK)


def test_without_a_network_the_sample_is_used_and_kept(mirror: Mirror, tmp_path: Path) -> None:
    url, said = mirror.url("wiki.xml.bz2"), list[str]()
    mirror.server.shutdown()
    mirror.server.server_close()
    asked = recipe(("wiki", "wikipedia", url))
    found = with_tiny_inputs(asked, tmp_path, said.append, QUICK)
    [place] = found.corpus.sources[0].paths
    assert b"<mediawiki" in bz2.decompress(Path(place).read_bytes())
    assert "using the embedded sample instead" in said[-1] and "the download failed" in said[-1]
    assert found.tokenizer and found.tokenizer.vocab_size == 1500
    assert found.dataset and found.dataset.validation == 0.2
    assert with_tiny_inputs(asked, tmp_path, said.append, QUICK) == found
    assert "as before" in said[-1] and "delete" in said[-1]
