"""A proxy before a server of objects that lets some requests fail, as a busy store or a bad network does."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

KINDS = ("status", "break", "short", "late")
"""How requests fail."""

_LATE = 0.3  # seconds
_HOP = ("connection", "transfer-encoding", "keep-alive")


class Faults:
    """Decides which requests fail, and counts them.

    Args:
        every: every n-th request fails; 0 lets all pass. Failures are, in turn, an answer with status 503, a connection
            that breaks, an answer that ends too early, and one that comes late.

    Attributes:
        requests: the requests so far.
        failed: those that failed.
    """

    def __init__(self, every: int) -> None:
        self.every, self.requests, self.failed = every, 0, 0
        self._lock, self._numbers = threading.Lock(), itertools.count(1)

    def next(self) -> str:
        """Return how the next request fails: `""` or one of `KINDS`."""
        with self._lock:
            self.requests = next(self._numbers)
            if not self.every or self.requests % self.every:
                return ""
            self.failed += 1
            return KINDS[(self.failed - 1) % len(KINDS)]


@contextlib.contextmanager
def faulty_proxy(address: str, every: int = 20) -> Iterator[tuple[str, Faults]]:
    """Yield the address of a proxy before a server, and its faults; by default 5 % of the requests fail."""
    faults = Faults(every)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self._body()
            fault = faults.next()
            if fault == "break":
                self.close_connection = True
                self.connection.close()
            elif fault == "status":
                self._answer(503, [("Content-Length", "0")], b"")
            else:
                time.sleep(_LATE if fault == "late" else 0)
                status, headers, data = _ask(address, self.command, self.path, dict(self.headers.items()), body)
                self.close_connection |= fault == "short"
                self._answer(status, headers, data[: len(data) // 2] if fault == "short" else data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _forward

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", faults
    finally:
        server.shutdown()
        server.server_close()


def _ask(
    address: str, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        kept = {name: value for name, value in headers.items() if name.lower() not in _HOP}
        connection.request(method, path, body, kept | {"Content-Length": str(len(body))} if body else kept)
        answer = connection.getresponse()
        data = answer.read()
        found = [(name, value) for name, value in answer.getheaders() if name.lower() not in (*_HOP, "content-length")]
        length = answer.getheader("Content-Length") if method == "HEAD" else str(len(data))
        return answer.status, [*found, ("Content-Length", length or "0")], data
    finally:
        connection.close()
