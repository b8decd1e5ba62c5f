"""A small OpenAI-compatible server whose answers a test decides."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], bytes]


def completion(text: str, tokens: int | None = 10) -> Reply:
    body: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    if tokens is not None:
        body["usage"] = {"total_tokens": tokens}
    return 200, {}, json.dumps(body).encode()


class ChatServer:
    """Answers requests, and remembers them.

    Attributes:
        prompts: how often each prompt was answered or refused.
        bodies: all requests.
        keys: the headers `Authorization`.
        most: the largest number of requests that waited for an answer at the same time.
        url: the base URL.
    """

    def __init__(self, answer: Callable[[str, int], Reply | None]) -> None:
        self.prompts, self.bodies, self.keys = Counter[str](), list[dict[str, Any]](), list[str | None]()
        self.most = self._now = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._handle(self, answer)

            def log_message(self, *arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128  # connections that nobody has accepted yet: more than tests open at a time

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _handle(self, request: BaseHTTPRequestHandler, answer: Callable[[str, int], Reply | None]) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        prompt = body["messages"][0]["content"]
        with self._lock:
            self.prompts[prompt] += 1
            self.bodies.append(body)
            self.keys.append(request.headers.get("Authorization"))
            self._now += 1
            self.most, number = max(self.most, self._now), self.prompts[prompt]
        try:
            time.sleep(0.01)
            reply = answer(prompt, number)
        finally:  # before the reply is sent: its receiver may ask again at once
            with self._lock:
                self._now -= 1
        self._send(request, reply)

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, reply: Reply | None) -> None:
        with contextlib.suppress(OSError):  # the client gave up
            if reply is None:
                request.connection.close()
                return
            status, headers, data = reply
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name, value)
            request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def chat_server(answer: Callable[[str, int], Reply | None]) -> Iterator[ChatServer]:
    """Run a server that answers `answer(prompt, attempt)`; None closes the connection."""
    with contextlib.closing(ChatServer(answer)) as server:
        yield server
