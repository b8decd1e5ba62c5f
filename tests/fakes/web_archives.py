"""Pages and WARC files for tests."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

SENTENCES = (
    "山のふもとに小さな村があり、人々は畑を耕して静かに暮らしていた。冬になると雪が深く積もり、道はすぐに見えなくなる。"
)
MAIN = f"昔の旅人は山道を歩いて峠を越えた。{SENTENCES}\n二つ目の段落では、春の祭りのことを話そう。{SENTENCES}"


def page(charset: str = "utf-8", title: str = "山の話", *, body: str = "") -> str:
    """Return a page with navigation, ruby, a broken line, a script and two paragraphs, whose main text is `MAIN`."""
    body = body or (
        "<p>昔の旅人は<ruby>山道<rp>（</rp><rt>やまみち</rt><rp>）</rp></ruby>を歩いて\n  峠を越えた。"
        f"{SENTENCES}</p><script>var 変数 = '秘密';</script><style>p {{ color: red }}</style>"
        f"<p>二つ目の段落では、春の祭りのことを話そう。{SENTENCES}</p>"
    )
    return (
        f'<!DOCTYPE html><html lang="ja"><head><meta http-equiv="Content-Type" content="text/html; charset={charset}">'
        f'<title>{title}</title><link rel="canonical" href="https://example.jp/yama">'
        '<link rel="license" href="https://creativecommons.org/licenses/by/4.0/"></head><body>'
        '<nav><ul><li><a href="/">ホーム</a></li><li><a href="/list">一覧</a></li></ul></nav>'
        f"<main><article>{body}</article></main><footer>Copyright 2026</footer></body></html>"
    )


def http(body: bytes, headers: str = "Content-Type: text/html\r\n", status: str = "200 OK") -> bytes:
    """Return an HTTP response."""
    return f"HTTP/1.1 {status}\r\n{headers}\r\n".encode() + body


def record(
    block: bytes,
    kind: str = "response",
    *,
    url: str = "https://example.jp/",
    length: int | None = None,
    extra: str = "",
    content_type: str = "application/http; msgtype=response",
) -> bytes:
    """Return a WARC record."""
    size = len(block) if length is None else length
    return (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:6b1e>\r\nWARC-Target-URI: {url}\r\n"
        f"WARC-Date: 2026-01-02T03:04:05Z\r\nContent-Type: {content_type}\r\n{extra}Content-Length: {size}\r\n\r\n"
    ).encode() + block + b"\r\n\r\n"  # fmt: skip


def response(text: str | None = None, encoding: str = "utf-8", **options: object) -> bytes:
    """Return a record with a page."""
    return record(http((page() if text is None else text).encode(encoding)), **options)  # type: ignore[arg-type]


def info() -> bytes:
    """Return the first record of a file."""
    return record(b"software: a crawler\r\n", "warcinfo", url="", content_type="application/warc-fields")


def members(records: Sequence[bytes]) -> bytes:
    """Return the records, each a gzip member."""
    return b"".join(gzip.compress(data, mtime=0) for data in records)
