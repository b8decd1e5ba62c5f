"""Ask an OpenAI-compatible endpoint, with retries for a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from jprep.errors import ConfigError, Interrupted, MachineError
from jprep.io.escaping import one_line

_LARGEST = 1 << 20  # bytes of a response
_PIECE = 1 << 14
_TRANSIENT = {408, 409, 425, 429}  # and errors of the server, from 500
_REFUSED = {400, 413, 422}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_SHOWN = 200  # characters of a server's message


class Answer(msgspec.Struct, frozen=True):
    """What the endpoint said about a document.

    Attributes:
        reply: the text of the reply; None if the endpoint refuses the document, e.g. because it is too long.
        tokens: tokens that the request cost, as the endpoint counts them; None if it does not count them.
        problem: why the endpoint refuses the document, in its own words.
    """

    reply: str | None
    tokens: int | None
    problem: str = ""


class EndpointOptions(msgspec.Struct, frozen=True):
    """How to reach an endpoint.

    Attributes:
        url: its base URL, e.g. `http://localhost:8000/v1`.
        key: API key, or "".
        timeout_s: seconds after which a request fails.
        retry_for_s: seconds after which a document's failed requests are given up.
    """

    url: str
    key: str = ""
    timeout_s: float = 120.0
    retry_for_s: float = 300.0


class _Transient(Exception):  # noqa: N818 - internal
    """Another attempt may succeed."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class Endpoint:
    """An endpoint that several threads ask. After a rate limit all of them wait.

    Args:
        options: how to reach it.
        stopping: returns whether to give up waiting.

    Attributes:
        retries: failed attempts so far.

    Raises:
        ConfigError: it is not an http(s) URL, or it holds a password, or the key cannot be sent.
    """

    def __init__(self, options: EndpointOptions, stopping: Callable[[], bool] = lambda: False) -> None:
        check_endpoint(options.url)
        _check_key(options.key)
        self._options, self._stopping = options, stopping
        self._url = options.url.rstrip("/") + "/chat/completions"
        self._opener = build_opener(_NoRedirects())
        self._lock, self._not_before = threading.Lock(), 0.0
        self.retries = 0

    def ask(self, body: dict[str, Any]) -> Answer:
        """Return the answer to a request.

        Raises:
            MachineError: the endpoint gave no usable answer in time.
            ConfigError: it does not accept the key, the model or the address.
            Interrupted: `stopping` returned true.
        """
        deadline, pause = time.monotonic() + self._options.retry_for_s, _FIRST_PAUSE
        while True:
            self._wait(deadline)
            try:
                return self._attempt(msgspec.json.encode(body))
            except _Transient as problem:
                wait = max(problem.wait_s, pause)
                if time.monotonic() + wait > deadline:
                    what = f"the endpoint gave no usable answer within {self._options.retry_for_s:g} s: {problem}"
                    fix = "start the server or raise --retry-for, and run the same command again: replies are kept"
                    raise MachineError(what, where=self._url, fix=fix) from problem
                self._delay(wait, everyone=problem.wait_s > 0)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _attempt(self, data: bytes) -> Answer:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._options.key:
            headers["Authorization"] = f"Bearer {self._options.key}"
        try:
            with self._opener.open(Request(self._url, data, headers), timeout=self._options.timeout_s) as response:
                return self._answered(_read(response, self._options.timeout_s))
        except HTTPError as error:
            with error:
                return self._refused(error)
        except (URLError, HTTPException, OSError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise _Transient(f"{type(error).__name__}: {self._shown(str(reason))}") from error

    def _answered(self, data: bytes) -> Answer:
        try:
            return _answer(data)
        except ValueError as error:
            begins = self._shown(data[:_SHOWN].decode("utf-8", "replace"))
            raise _Transient(f"the response is not a chat completion; it begins {begins!r}") from error

    def _refused(self, error: HTTPError) -> Answer:
        message = f"HTTP status {error.code}: {self._shown(_message(error))}"
        if error.code in _TRANSIENT or error.code >= 500:
            raise _Transient(message, _retry_after(error)) from error
        if error.code in _REFUSED:
            return Answer(None, 0, message)
        fix = "check --endpoint, --model and the variable with the API key"
        raise ConfigError(f"the endpoint refuses requests: {message}", where=self._url, fix=fix) from error

    def _shown(self, text: str) -> str:
        """Return a message without the API key, which servers repeat in their errors."""
        return one_line(text.replace(self._options.key, "…") if self._options.key else text)[:_SHOWN]

    def _delay(self, seconds: float, *, everyone: bool) -> None:
        with self._lock:
            self.retries += 1
            until = time.monotonic() + seconds
            if everyone:
                self._not_before = max(self._not_before, until)
        if not everyone:
            self._sleep(until)

    def _wait(self, deadline: float) -> None:
        with self._lock:
            until = self._not_before
        self._sleep(min(until, deadline))

    def _sleep(self, until: float) -> None:
        while not self._stopping() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
        if self._stopping():
            raise Interrupted("interrupted; finished replies are kept")


def check_endpoint(url: str) -> None:
    """Check the address of an endpoint.

    Raises:
        ConfigError: it is not an http(s) URL, or it holds a password or a query.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        valid = False
    if not valid or not all("!" <= each <= "~" for each in url):
        raise ConfigError("expected an http or https URL", where="--endpoint", fix="e.g. http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        what, fix = "the URL must hold neither a password nor a query", "set JPREP_JUDGE_KEY to the API key"
        raise ConfigError(what, where="--endpoint", fix=fix)


def _check_key(key: str) -> None:
    """Refuse a key that no header can hold: the errors of the HTTP client would show it."""
    if not all("!" <= each <= "~" for each in key):
        what = "the API key has a space, a line end or a character outside ASCII"
        raise ConfigError(what, where="JPREP_JUDGE_KEY", fix="set the variable to the key alone")


class _NoRedirects(HTTPRedirectHandler):
    """Refuse redirects, which would send the API key and the documents to another server."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        """Return no request: the status becomes an error."""
        return


def _read(response: Any, timeout_s: float) -> bytes:
    """Read a body of bounded size in bounded time, even if it arrives byte by byte."""
    data, deadline = bytearray(), time.monotonic() + timeout_s
    while piece := response.read1(_PIECE):
        data += piece
        if len(data) > _LARGEST or time.monotonic() > deadline:
            raise _Transient("the response is too long, or too slow")
    return bytes(data)


def _answer(data: bytes) -> Answer:
    try:
        found = msgspec.json.decode(data)
        reply = found["choices"][0]["message"]["content"]
        tokens = (found.get("usage") or {}).get("total_tokens")
        if not isinstance(reply, str | None) or not isinstance(tokens, int | None):
            raise TypeError("a field has another type")
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
    ) as e:
        raise ValueError("not a chat completion") from e
    return Answer(reply or "", None if tokens is None else max(0, tokens))


def _message(error: HTTPError) -> str:
    try:
        return error.read1(_PIECE).decode("utf-8", "replace") if hasattr(error, "read1") else str(error.reason)
    except (OSError, HTTPException, ValueError):
        return str(error.reason)


def _retry_after(error: HTTPError) -> float:
    """Return the seconds of the header `Retry-After`; 0 for none, or for a date."""
    try:
        seconds = float(error.headers.get("Retry-After") or 0)
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < float("inf") else 0.0
