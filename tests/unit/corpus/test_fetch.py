"""Downloads from a local HTTP server with configurable faults."""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from jprep.corpus.config import RemoteFile
from jprep.corpus.download.fetch import FetchedFile, fetch
from jprep.corpus.download.remote import RetryPolicy
from jprep.errors import ConfigError, InputError, MachineError
from tests.conftest import PATIENCE

QUICK = RetryPolicy(tries=3, pause_s=0.0, timeout_s=PATIENCE)
DATA = hashlib.shake_256(b"jprep").digest(1_500_000)
NAME = "xxwiki-20260401-pages.xml.bz2"


@dataclass
class Site:
    """A mirror with files and faults, which records its requests."""

    files: dict[str, bytes] = field(repr=False)
    etag: str = '"one"'
    ranges: bool = True
    drop_after: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    length: bool = True
    stall: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    port: int = 0

    def url(self, name: str = NAME) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    def remote(self, name: str = NAME, **options: str) -> RemoteFile:
        return RemoteFile(url=self.url(name), **options)


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site, name = self.site, self.path.lstrip("/")
        site.asked.append((name, self.headers.get("Range", "")))
        if site.statuses and (status := site.statuses.pop(0)) != 200:
            return self.send_error(status)
        if name not in site.files:
            return self.send_error(404)
        data = site.files[name]
        start = self.begin(len(data))
        if start >= len(data) > 0:
            return self.send_error(416)
        self.send_headers(start, len(data))
        end = start + site.drop_after.pop(0) if site.drop_after else len(data)
        self.wfile.write(data[start:end])
        self.wfile.flush()
        if site.stall:
            self.rfile.read(1)
        self.close_connection = True
        return None

    def begin(self, size: int) -> int:
        wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range") == self.site.etag
        return int(wanted[1]) if wanted and same and self.site.ranges else 0

    def send_headers(self, start: int, size: int) -> None:
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if self.site.etag:
            self.send_header("ETag", self.site.etag)
        if self.site.length:
            self.send_header("Content-Length", str(size - start))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site({NAME: DATA})
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"site": site}))
    site.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


def get(site: Site, folder: Path, **options: str) -> FetchedFile:
    return fetch([site.remote(**options)], folder, retry_policy=QUICK)[0]


def sums(*lines: tuple[str, str, bytes]) -> bytes:
    return "".join(f"{hashlib.new(kind, data).hexdigest()}  {name}\n" for kind, name, data in lines).encode()


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"fetch.lock"}


def test_downloads_and_records_the_hash_of_the_first_fetch(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    [fetched] = fetch([site.remote()], tmp_path, retry_policy=QUICK, progress=lambda *step: seen.append(step))
    assert (tmp_path / NAME).read_bytes() == DATA
    assert fetched == FetchedFile(NAME, site.url(), len(DATA), hashlib.sha256(DATA).hexdigest(), '"one"')
    assert left(tmp_path) == {NAME, "fetched.json"}
    assert msgspec.json.decode((tmp_path / "fetched.json").read_bytes(), type=dict[str, FetchedFile]) == {NAME: fetched}
    assert seen[0] == (NAME, 0, len(DATA)) and seen[-1] == (NAME, len(DATA), len(DATA))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_second_fetch_verifies_without_network(site: Site, tmp_path: Path) -> None:
    first, record = get(site, tmp_path), (tmp_path / "fetched.json").read_bytes()
    site.asked.clear()
    assert get(site, tmp_path) == first
    assert site.asked == []
    assert (tmp_path / "fetched.json").read_bytes() == record


def test_dropped_connection_is_resumed(site: Site, tmp_path: Path) -> None:
    site.drop_after = [400_000, 300_000]
    get(site, tmp_path)
    assert (tmp_path / NAME).read_bytes() == DATA
    assert [asked for _, asked in site.asked] == ["", "bytes=400000-", "bytes=700000-"]


def test_later_run_resumes_a_failed_download(site: Site, tmp_path: Path) -> None:
    site.drop_after, site.statuses = [400_000], [200, 503, 503, 503]
    with pytest.raises(MachineError, match=r"(?s)3 times in a row.*400,000 bytes.*resume"):
        get(site, tmp_path)
    assert left(tmp_path) == {NAME + ".part", NAME + ".part.json"}
    get(site, tmp_path)
    assert site.asked[-1] == (NAME, "bytes=400000-")
    assert (tmp_path / NAME).read_bytes() == DATA
    assert left(tmp_path) == {NAME, "fetched.json"}


def test_attempts_with_new_bytes_reset_the_retry_count(site: Site, tmp_path: Path) -> None:
    site.drop_after = [100_000] * 12
    get(site, tmp_path)
    assert len(site.asked) == 13


def test_download_restarts_if_the_server_ignores_ranges(site: Site, tmp_path: Path) -> None:
    site.drop_after, site.ranges = [400_000], False
    get(site, tmp_path)
    assert (tmp_path / NAME).read_bytes() == DATA


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_download_restarts_without_a_validator(site: Site, tmp_path: Path, etag: str) -> None:
    site.drop_after, site.etag = [400_000], etag
    get(site, tmp_path)
    assert [asked for _, asked in site.asked] == ["", ""]
    assert (tmp_path / NAME).read_bytes() == DATA


def test_download_restarts_if_the_file_has_changed(site: Site, tmp_path: Path) -> None:
    site.drop_after, site.statuses = [400_000], [200, 503, 503, 503]
    with pytest.raises(MachineError):
        get(site, tmp_path)
    site.files[NAME], site.etag = DATA[::-1], '"two"'
    assert get(site, tmp_path).etag == '"two"'
    assert (tmp_path / NAME).read_bytes() == DATA[::-1]


def test_partial_file_longer_than_the_file_is_discarded(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(bytes(len(DATA)))
    state = {"url": site.url(), "validator": site.etag, "total": -1, "safe": len(DATA)}
    (tmp_path / f"{NAME}.part.json").write_bytes(msgspec.json.encode(state))
    get(site, tmp_path)
    assert (tmp_path / NAME).read_bytes() == DATA


def test_a_file_of_unknown_length(site: Site, tmp_path: Path) -> None:
    site.length = False
    seen: list[int] = []
    fetch([site.remote()], tmp_path, retry_policy=QUICK, progress=lambda name, done, total: seen.append(total))
    assert (tmp_path / NAME).read_bytes() == DATA
    assert set(seen) == {-1}


def test_a_stalled_server_times_out(site: Site, tmp_path: Path) -> None:
    site.stall, site.drop_after = True, [1000] * 9
    with pytest.raises(MachineError, match="timed out"):
        fetch([site.remote()], tmp_path, retry_policy=RetryPolicy(tries=1, pause_s=0.0, timeout_s=0.2))


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256", "sha512"])
def test_the_mirrors_checksum_file(site: Site, tmp_path: Path, kind: str) -> None:
    site.files["sums.txt"] = sums((kind, "other", b""), (kind, NAME, DATA))
    fetched = get(site, tmp_path, checksums=site.url("sums.txt"))
    assert fetched.checksums == site.url("sums.txt")
    assert fetched.listed == f"{kind}:{hashlib.new(kind, DATA).hexdigest()} {NAME}"


def test_latest_is_listed_under_its_dated_name(site: Site, tmp_path: Path) -> None:
    latest = "xxwiki-latest-pages.xml.bz2"
    site.files[latest] = DATA
    site.files["sums.txt"] = sums(("sha1", "xxwiki-20260401-pages.xml.bz2-rss.xml", b""), ("sha1", NAME, DATA))
    [fetched] = fetch([site.remote(latest, checksums=site.url("sums.txt"))], tmp_path, retry_policy=QUICK)
    assert fetched.listed.endswith(f" {NAME}")
    assert fetched.name == latest


def test_wrong_checksum_deletes_the_download(site: Site, tmp_path: Path) -> None:
    site.files["sums.txt"] = sums(("sha1", NAME, b"another"))
    with pytest.raises(InputError, match=r"sha1 of .* has"):
        get(site, tmp_path, checksums=site.url("sums.txt"))
    assert left(tmp_path) == set()


def test_a_wrong_hash_in_the_recipe(site: Site, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the recipe has"):
        get(site, tmp_path, sha256="0" * 64)
    assert get(site, tmp_path, sha256=hashlib.sha256(DATA).hexdigest().upper()).size == len(DATA)


def test_a_checksum_file_without_the_file(site: Site, tmp_path: Path) -> None:
    site.files["sums.txt"] = b"# nothing\n"
    with pytest.raises(InputError, match="not in the mirror's checksum file"):
        get(site, tmp_path, checksums=site.url("sums.txt"))


def test_a_file_changed_on_disk_is_named(site: Site, tmp_path: Path) -> None:
    get(site, tmp_path)
    (tmp_path / NAME).write_bytes(DATA[:-1] + b"?")
    with pytest.raises(InputError, match=r"(?s)fetched\.json has.*delete or move the file"):
        get(site, tmp_path)


def test_file_copied_by_hand_is_verified(site: Site, tmp_path: Path) -> None:
    site.files["sums.txt"] = sums(("sha1", NAME, DATA))
    (tmp_path / NAME).write_bytes(DATA)
    assert get(site, tmp_path, checksums=site.url("sums.txt")).size == len(DATA)
    assert [name for name, _ in site.asked] == ["sums.txt"]


def test_later_fetch_must_match_the_record(site: Site, tmp_path: Path) -> None:
    first = get(site, tmp_path)
    (tmp_path / NAME).unlink()
    assert get(site, tmp_path) == first
    (tmp_path / NAME).unlink()
    site.files[NAME] = DATA[::-1]
    with pytest.raises(InputError, match=r"(?s)fetched\.json has.*delete its entry"):
        get(site, tmp_path)


def test_new_latest_is_detected_before_downloading(site: Site, tmp_path: Path) -> None:
    site.files["sums.txt"] = sums(("sha1", NAME, DATA))
    get(site, tmp_path, checksums=site.url("sums.txt"))
    (tmp_path / NAME).unlink()
    site.asked.clear()
    site.files["sums.txt"] = sums(("sha1", NAME, b"new"))
    with pytest.raises(InputError, match="the mirror lists"):
        get(site, tmp_path, checksums=site.url("sums.txt"))
    assert [name for name, _ in site.asked] == ["sums.txt"]


def test_new_size_is_detected_before_downloading(site: Site, tmp_path: Path) -> None:
    get(site, tmp_path)
    (tmp_path / NAME).unlink()
    site.files[NAME] = DATA * 2
    with pytest.raises(InputError, match="3,000,000 bytes, but had 1,500,000"):
        get(site, tmp_path)


def test_deleted_dump(site: Site, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)HTTP 404.*put your copy at .*gone\.bz2, or use another date"):
        fetch([site.remote("gone.bz2")], tmp_path, retry_policy=QUICK)
    assert len(site.asked) == 1
    (tmp_path / "gone.bz2").write_bytes(DATA)
    with pytest.raises(ConfigError, match=r"(?s)HTTP 404.*remove `checksums`"):
        fetch([site.remote("gone.bz2", checksums=site.url("none.txt"))], tmp_path, retry_policy=QUICK)
    assert fetch([site.remote("gone.bz2")], tmp_path, retry_policy=QUICK)[0].size == len(DATA)


def test_only_temporary_errors_are_retried(site: Site, tmp_path: Path) -> None:
    for status in (403, 416):
        site.statuses = [status]
        with pytest.raises(ConfigError, match=f"HTTP {status}"):
            get(site, tmp_path)
    site.statuses, site.asked[:] = [429, 502], []
    get(site, tmp_path)
    assert len(site.asked) == 3


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="3 times in a row"):
        fetch([RemoteFile(url=f"http://127.0.0.1:9/{NAME}")], tmp_path, retry_policy=QUICK)


def test_existing_file_from_another_url(site: Site, tmp_path: Path) -> None:
    get(site, tmp_path)
    with pytest.raises(ConfigError, match="another url"):
        fetch([RemoteFile(url=site.url("else"), name=NAME)], tmp_path, retry_policy=QUICK)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (RemoteFile(url="http://127.0.0.1/"), "cannot be called"),
        (RemoteFile(url="http://127.0.0.1/a", name="../a"), "path separator"),
        (RemoteFile(url="http://127.0.0.1/a", name="fetch.lock"), "jprep uses this name itself"),
        (RemoteFile(url="http://127.0.0.1/a", name="a.part"), "jprep uses this name itself"),
        (RemoteFile(url="http://127.0.0.1/%2e%2e"), "cannot be called"),
        (RemoteFile(url="ftp://127.0.0.1/a"), "cannot fetch ftp"),
        (RemoteFile(url="nowhere/a.txt"), "file not found"),
    ],
)
def test_invalid_names_and_urls(tmp_path: Path, file: RemoteFile, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fetch([file], tmp_path / "downloads", retry_policy=QUICK)


def test_two_files_with_the_same_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two files would be called a"):
        fetch([RemoteFile(url="http://127.0.0.1/x/a"), RemoteFile(url="http://127.0.0.1/y/a")], tmp_path)


@pytest.mark.parametrize("as_uri", [False, True])
def test_local_files_are_copied(tmp_path: Path, as_uri: bool) -> None:
    source = tmp_path / "原文 1.txt"
    source.write_bytes(DATA)
    (tmp_path / "md5sums.txt").write_bytes(sums(("md5", source.name, DATA)))
    url = source.as_uri() if as_uri else str(source)
    [fetched] = fetch([RemoteFile(url=url, checksums=str(tmp_path / "md5sums.txt"))], tmp_path / "downloads")
    assert (tmp_path / "downloads" / source.name).read_bytes() == DATA
    assert fetched.listed.startswith("md5:")


def test_a_damaged_record(site: Site, tmp_path: Path) -> None:
    (tmp_path / "fetched.json").write_text("{")
    with pytest.raises(InputError, match="cannot read"):
        get(site, tmp_path)


def test_lack_of_disk_space_is_detected_before_downloading(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(MachineError, match="1,500,000 bytes to download, 1,000 bytes free"):
        get(site, tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").symlink_to("/dev/full")
    with pytest.raises(MachineError, match="the disk is full"):
        get(site, tmp_path)
    assert not (tmp_path / NAME).exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from jprep.corpus.download import fetch, partial
from jprep.corpus.config import RemoteFile
partial.SYNC_BYTES = 300_000
def progress(name, done, total):
    if done > 800_000:
        os.kill(os.getpid(), signal.SIGKILL)
fetch.fetch([RemoteFile(url=sys.argv[1])], Path(sys.argv[2]), progress=progress)
"""


def test_synced_bytes_survive_sigkill(site: Site, tmp_path: Path) -> None:
    program = [sys.executable, "-c", KILLED, site.url(), str(tmp_path)]
    killed = subprocess.run(program, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert NAME not in left(tmp_path)
    get(site, tmp_path)
    assert int(re.sub(r"\D", "", site.asked[-1][1])) >= 300_000
    assert (tmp_path / NAME).read_bytes() == DATA
