"""Protect the local server from pages of other sites that are open in the same browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HOSTS = ("127.0.0.1", "localhost")
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """Middleware that refuses foreign requests and adds headers to all responses.

    A request is refused if its `Host` is not this machine (a foreign name that leads to 127.0.0.1 would make the pages
    readable for the site of that name), or if another site embeds or fetches a page instead of linking to it.

    Args:
        app: the application.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":  # there are no websockets here
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                added = _HEADERS if b"cache-control" in present else [*_HEADERS, (b"cache-control", b"no-store")]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        if problem := refusal(scope["headers"]):
            await _refuse(send_guarded, problem)
        else:
            await self._app(scope, receive, send_guarded)


def refusal(headers: list[tuple[bytes, bytes]]) -> str:
    """Return why a request with these headers is refused, or ""."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if len(hosts) != 1 or (hosts[0].rpartition(":")[0] not in _HOSTS and hosts[0] not in _HOSTS):
        return "this server answers requests to 127.0.0.1 and localhost only"
    named = {name: value for name, value in headers if name.startswith(b"sec-fetch-")}
    foreign = named.get(b"sec-fetch-site", b"none") in (b"cross-site", b"same-site")
    linked = named.get(b"sec-fetch-mode") == b"navigate" and named.get(b"sec-fetch-dest") == b"document"
    return "another site must not read this page" if foreign and not linked else ""


async def _refuse(send: Send, problem: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": f"{problem}\n".encode()})
