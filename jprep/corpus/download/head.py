"""Download the first bytes of a remote file, to try a recipe without the whole file.

The stored file is decompressed and ends after a complete record, so that readers need not accept truncated files.
"""

from __future__ import annotations

from pathlib import Path

from jprep.corpus.config import RemoteFile
from jprep.corpus.download.fetch import files_by_name
from jprep.corpus.download.remote import RetryPolicy, open_url, retry
from jprep.errors import InputError
from jprep.io.atomic import write_atomic
from jprep.io.inputs import codecs
from jprep.io.inputs.paths import SUFFIXES

HEAD_BYTES = 2 << 20
"""Bytes to download, before decompression."""

_MAX_DECOMPRESSED = 64 << 20  # bytes; a limit for decompression bombs
_PIECE = 1 << 20
_PAGE_END, _EXPORT_END = b"</page>", b"\n</mediawiki>\n"
_ENDS = {"wikipedia": (_PAGE_END,), "cc100": (b"\n\n", b"\n"), "text": (b"\n\n", b"\n"), "jsonl": (b"\n",)}
"""Ends of a record, by reader. The first one that occurs in the file is used."""

SUPPORTED_READERS = frozenset(_ENDS)
"""Readers whose inputs can be truncated after a record."""


def head_path(file: RemoteFile, folder: Path) -> Path:
    """Return where the head of a file is stored: under its name, without a compression suffix."""
    [name] = files_by_name([file])
    return folder / next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def fetch_head(
    file: RemoteFile, folder: Path, reader: str, *, size: int = HEAD_BYTES, retry_policy: RetryPolicy | None = None
) -> Path:
    """Download the first bytes of a file and store their complete records, unless they are stored already.

    If the server does not support range requests, the connection is closed after the first bytes.

    Args:
        file: the remote file.
        folder: where to store the head of the file.
        reader: name of the reader, one of `SUPPORTED_READERS`, which defines a record.
        size: bytes to download.
        retry_policy: when to retry.

    Returns:
        The path of the stored file.

    Raises:
        ConfigError: the file is not on the server.
        InputError: the first bytes hold no complete record, or are damaged.
        MachineError: the server cannot be reached, or the disk cannot be written.
    """
    path = head_path(file, folder)
    if path.exists():
        return path
    retry_policy = retry_policy or RetryPolicy()
    data, whole = retry(lambda: _first_bytes(file.url, size, retry_policy.timeout_s), file.url, retry_policy)
    text = _decompressed(data, file.url)
    write_atomic(path, text if whole else _whole_records(text, reader, file.url))
    return path


def _first_bytes(url: str, size: int, timeout_s: float) -> tuple[bytes, bool]:
    """Return the first bytes of a file, and whether they are the whole file."""
    data = bytearray()
    with open_url(url, end=size, timeout_s=timeout_s) as answer:
        for chunk in answer.chunks():
            data += chunk
            if len(data) >= size:
                return bytes(data[:size]), False
    return bytes(data), True


def _decompressed(data: bytes, url: str) -> bytes:
    """Decompress as much as possible of data that may be truncated."""
    kind = codecs.detect_compression(data[: codecs.HEAD_BYTES])
    if not kind:
        return data
    found = bytearray()
    try:
        while data and len(found) < _MAX_DECOMPRESSED:
            decoder = codecs.DECODERS[kind]()
            while not decoder.eof and (data or not decoder.needs_input) and len(found) < _MAX_DECOMPRESSED:
                piece, data = data[:_PIECE], data[_PIECE:]
                found += decoder.decompress(piece, _PIECE)
            data = (decoder.unused_data + data).lstrip(b"\0") if decoder.eof else b""
            if codecs.detect_compression(data[: codecs.HEAD_BYTES]) != kind:
                break
    except codecs.DECODER_ERRORS as error:
        raise InputError(
            f"the first bytes of the file are damaged: {error}", where=url, fix="try another mirror"
        ) from error
    return bytes(found)


def _whole_records(text: bytes, reader: str, url: str) -> bytes:
    for end in _ENDS[reader]:
        if (at := text.rfind(end)) >= 0:
            return text[: at + len(end)] + (_EXPORT_END if end == _PAGE_END else b"")
    raise InputError(
        "the first bytes of the file hold no complete record", where=url, fix=f"check that its format is {reader}"
    )
