"""Take the page out of a WARC record."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
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
_DEFLATED = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"


class Capture(msgspec.Struct):
    """A page of a crawl, or the reason why a record is none.

    Attributes:
        url: address of the page.
        meta: date, status, content type, id of the record and, if the crawler cut the page, why.
        body: the page.
        kind: its content type: one of `HTML`, or `TEXT`.
        charset: encoding declared by the HTTP header, or "".
        reason: why the record is not a page, or "".
        detail: more on the reason.
        undecoded: whether the body does not have the compression or chunks that its header declares.
        incomplete: whether the compressed body ends early, so that the page lacks its end.
    """

    url: str = ""
    meta: dict[str, str] = {}
    body: bytes = b""
    kind: str = ""
    charset: str = ""
    reason: str = ""
    detail: str = ""
    undecoded: bool = False
    incomplete: bool = False


def capture_of(raw: RawRecord, limit: int) -> Capture:
    """Return the page in a record, or why it holds none.

    Args:
        raw: the record.
        limit: maximum size of a page in bytes.
    """
    capture = _capture(raw, limit, decode=True)
    if capture.reason == "malformed_http":
        # Some crawlers store the body decoded, and the headers as they came.
        stored = _capture(raw, limit, decode=False)
        if not stored.reason and _LOOKS_HTML.match(stored.body):
            return msgspec.structs.replace(stored, undecoded=True)
    return capture


def _capture(raw: RawRecord, limit: int, decode: bool) -> Capture:
    record = None if raw.fault == "damaged" else _parsed(raw.data)
    if record is None:
        return Capture(reason="damaged", detail=raw.detail or "the WARC header cannot be read")
    capture = Capture(_clean(record.headers.get("WARC-Target-URI")).strip("<>"), _meta(record.headers))
    kind = str(record.record_type)
    if kind == "conversion":
        capture.kind, capture.charset, capture.reason = TEXT, "utf-8", raw.fault
        _read_body(_parts(record), capture, limit)
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


def _read_page(record: Any, raw: RawRecord, capture: Capture, limit: int, decode: bool) -> None:
    """Read the page of a response, or of a resource that was stored without HTTP."""
    headers, parts = record.headers, _parts(record)
    if record.is_http:
        if (opened := _open_http(record, raw, decode)) is None:
            capture.reason = "malformed_http"
            return
        headers, parts = opened
        status = headers.status_code
        capture.meta["status"] = str(status)
        if status != _STATUS_OK:
            capture.reason = f"status_{status}" if 100 <= status <= 999 else "malformed_http"
            return
    _read_typed(parts, raw, capture, _clean(headers.get("Content-Type")), limit)


def _read_typed(parts: Iterator[bytes], raw: RawRecord, capture: Capture, declared: str, limit: int) -> None:
    found = _TYPE.match(declared)
    capture.kind = found[0].lower() if found else ""
    if charset := _CHARSET.search(declared):
        capture.charset = charset[1]
    if capture.kind and capture.kind not in (*HTML, TEXT):
        capture.reason, capture.detail = "content_type", capture.kind
        return
    capture.reason = raw.fault
    _read_body(parts, capture, limit)
    if not capture.kind and not capture.reason:
        capture.kind = HTML[0] if _LOOKS_HTML.match(capture.body) else ""
        capture.reason = "" if capture.kind else "content_type"
    capture.meta["content_type"] = capture.kind


def _read_body(parts: Iterator[bytes], capture: Capture, limit: int) -> None:
    if capture.reason:
        return
    body = bytearray()
    try:
        for part in parts:
            body += part
            if len(body) > limit:
                capture.reason = "too_large"
                return
    except EOFError:
        capture.incomplete = True
        capture.meta.setdefault("truncated", "unspecified")
    except (OSError, zlib.error) as error:
        capture.reason, capture.detail = "malformed_http", str(error)
        return
    capture.body = bytes(body)


def _open_http(record: Any, raw: RawRecord, decode: bool) -> tuple[Any, Iterator[bytes]] | None:
    """Return the HTTP headers of a response and the parts of its body; None if they cannot be read.

    FastWARC gives what there is of a gzip body that ends early, without an error, so those are decompressed here.
    """
    if not _parse_http(record, "transfer" if decode else "none"):
        return None
    coding = _clean(record.http_headers.get("Content-Encoding")).lower()
    if decode and coding in _DEFLATED:
        return record.http_headers, _inflate(record, coding)
    if decode and coding:
        record = _parsed(raw.data)
        if not _parse_http(record, "all"):
            return None
    return record.http_headers, _parts(record)


def _parts(record: Any) -> Iterator[bytes]:
    while part := record.reader.read(_CHUNK):
        yield part


def _inflate(record: Any, coding: str) -> Iterator[bytes]:
    """Yield the decompressed body of a record, in parts of limited size: members of gzip, zlib, or raw deflate.

    What follows the last member, such as a line break, is not part of the page.

    Raises:
        EOFError: after the last part, if the last member ends early.
        zlib.error: the body is not compressed, or damaged.
    """
    inflater, begun = None, False
    data = record.reader.read(_CHUNK)
    data += record.reader.read(_CHUNK) if len(data) == 1 else b""  # two bytes tell the format
    wbits = _wbits(data, coding)
    while data and (inflater or not begun or data[:2] == _GZIP_MAGIC[: len(data)]):
        begun = True
        inflater = inflater or zlib.decompressobj(wbits)
        yield inflater.decompress(data, _CHUNK)
        data = inflater.unused_data or inflater.unconsumed_tail or record.reader.read(_CHUNK)
        inflater = None if inflater.eof else inflater
    if inflater:
        yield inflater.flush()
        if not inflater.eof:
            raise EOFError


def _wbits(data: bytes, coding: str) -> int:
    """Return zlib's `wbits` for a body. Many servers send `deflate` without the header of zlib."""
    is_zlib = len(data) > 1 and data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
    has_header = is_zlib or data[:2] == _GZIP_MAGIC
    return -zlib.MAX_WBITS if coding == "deflate" and not has_header else _GZIP_OR_ZLIB


def _parse_http(record: Any, decode: str) -> bool:
    try:
        record.parse_http(auto_decode=decode, max_header_len=MAX_HEADER)
    except OSError:
        return False
    return record.http_headers is not None and record.http_headers.status_code is not None


def _clean(value: str | None) -> str:
    return _CONTROL.sub("", value or "").strip()
