"""Take the page out of a WARC record."""

from __future__ import annotations

import io
import re
from typing import Any

import msgspec

from jprep.corpus.readers.web.page import import_web
from jprep.corpus.readers.web.records import MAX_HEADER, RawRecord

HTML = ("text/html", "application/xhtml+xml")
TEXT = "text/plain"
_STATUS_OK = 200
_LOOKS_HTML = re.compile(rb"\s*+<(?:!doctype\s+html|html|head|body|\?xml|!--)", re.IGNORECASE)
_TYPE = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x1f\x7f]+")
_CHUNK = 1 << 20


class Capture(msgspec.Struct):
    """A page of a crawl, or the reason why a record is none.

    Attributes:
        url: address of the page.
        meta: date, status, content type, id of the record and, if the crawler cut the page, why.
        body: the page.
        kind: its content type: one of `HTML`, or `TEXT`.
        charset: encoding declared by the HTTP header, or "".
        reason: why the record is no page, or "".
        detail: more on the reason.
        undecoded: whether the body does not have the compression or chunks that its header declares.
    """

    url: str = ""
    meta: dict[str, str] = {}
    body: bytes = b""
    kind: str = ""
    charset: str = ""
    reason: str = ""
    detail: str = ""
    undecoded: bool = False


def capture_of(raw: RawRecord, limit: int) -> Capture:
    """Return the page in a record, or why it holds none.

    Args:
        raw: the record.
        limit: maximum size of a page in bytes.
    """
    capture = _capture(raw, limit, "all")
    if capture.reason == "malformed_http":
        # Some crawlers store the body decoded, and the headers as they came.
        stored = _capture(raw, limit, "none")
        if not stored.reason and _LOOKS_HTML.match(stored.body):
            return msgspec.structs.replace(stored, undecoded=True)
    return capture


def _capture(raw: RawRecord, limit: int, decode: str) -> Capture:
    record = None if raw.fault == "damaged" else _parsed(raw.data)
    if record is None:
        return Capture(reason="damaged", detail=raw.detail or "the WARC header cannot be read")
    capture = Capture(_clean(record.headers.get("WARC-Target-URI")).strip("<>"), _meta(record.headers))
    kind = str(record.record_type)
    if kind == "conversion":
        capture.kind, capture.charset, capture.reason = TEXT, "utf-8", raw.fault
        _read_body(record, capture, limit)
    elif kind in ("response", "resource"):
        _read_page(record, raw, capture, limit, decode)
    else:
        capture.reason = f"record_{kind}"
    return capture


def _parsed(data: bytes) -> Any:
    warc = import_web("fastwarc.warc")
    try:
        return next(iter(warc.ArchiveIterator(io.BytesIO(data), parse_http=False, max_header_len=MAX_HEADER)), None)
    except OSError:
        return None


def _meta(headers: Any) -> dict[str, str]:
    names = {"date": "WARC-Date", "record": "WARC-Record-ID", "truncated": "WARC-Truncated"}
    found = {name: _clean(headers.get(header)).strip("<>") for name, header in names.items()}
    return {name: value for name, value in found.items() if value}


def _read_page(record: Any, raw: RawRecord, capture: Capture, limit: int, decode: str) -> None:
    """Read the page of a response, or of a resource that was stored without HTTP."""
    headers = record.headers
    if record.is_http:
        if not _parse_http(record, decode):
            capture.reason = "malformed_http"
            return
        headers, status = record.http_headers, record.http_headers.status_code
        capture.meta["status"] = str(status)
        if status != _STATUS_OK:
            capture.reason = f"status_{status}" if 100 <= status <= 999 else "malformed_http"
            return
    _read_typed(record, raw, capture, _clean(headers.get("Content-Type")), limit)


def _read_typed(record: Any, raw: RawRecord, capture: Capture, declared: str, limit: int) -> None:
    found = _TYPE.match(declared)
    capture.kind = found[0].lower() if found else ""
    if charset := _CHARSET.search(declared):
        capture.charset = charset[1]
    if capture.kind and capture.kind not in (*HTML, TEXT):
        capture.reason, capture.detail = "content_type", capture.kind
        return
    capture.reason = raw.fault
    _read_body(record, capture, limit)
    if not capture.kind and not capture.reason:
        capture.kind = HTML[0] if _LOOKS_HTML.match(capture.body) else ""
        capture.reason = "" if capture.kind else "content_type"
    capture.meta["content_type"] = capture.kind


def _read_body(record: Any, capture: Capture, limit: int) -> None:
    if capture.reason:
        return
    parts, size = list[bytes](), 0
    try:
        while size <= limit and (part := record.reader.read(min(_CHUNK, limit + 1 - size))):
            parts.append(part)
            size += len(part)
    except OSError as error:
        capture.reason, capture.detail = "malformed_http", str(error)
        return
    capture.body = b"".join(parts)
    if size > limit:
        capture.reason, capture.body = "too_large", b""


def _parse_http(record: Any, decode: str) -> bool:
    try:
        record.parse_http(auto_decode=decode, max_header_len=MAX_HEADER)
    except OSError:
        return False
    return record.http_headers is not None and record.http_headers.status_code is not None


def _clean(value: str | None) -> str:
    return _CONTROL.sub("", value or "").strip()
