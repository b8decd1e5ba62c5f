"""The beginning of a remote file: enough to try a recipe, without the gigabytes of the whole.

What is stored is decompressed and ends after a whole record, so that readers need not accept files that are cut off.
"""

from __future__ import annotations

from pathlib import Path

from jprep.corpus.config import RemoteFile
from jprep.corpus.download.fetch import files_by_name
from jprep.corpus.download.remote import RetryPolicy, ask, persist
from jprep.errors import InputError
from jprep.io.atomic import write_atomic
from jprep.io.inputs import codecs
from jprep.io.inputs.paths import SUFFIXES

HEAD_BYTES = 2 << 20
"""Bytes that are downloaded, as the file is stored."""

_MOST = 64 << 20  # decompressed bytes, of a file that expands without end
_PIECE = 1 << 20
_PAGE_END, _EXPORT_END = b"</page>", b"\n</mediawiki>\n"
_ENDS = {"wikipedia": (_PAGE_END,), "cc100": (b"\n\n", b"\n"), "text": (b"\n\n", b"\n"), "jsonl": (b"\n",)}
"""What ends a record, by reader; the first that occurs counts."""

SUPPORTED_READERS = frozenset(_ENDS)
"""Readers whose inputs can be cut."""


def head_path(file: RemoteFile, folder: Path) -> Path:
    """Return where the beginning of a file is stored: under its name, without the suffix of a compression."""
    [name] = files_by_name([file])
    return folder / next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def fetch_head(
    file: RemoteFile, folder: Path, reader: str, *, size: int = HEAD_BYTES, patience: RetryPolicy | None = None
) -> Path:
    """Download a file's first bytes and store their whole records, or return what is stored already.

    A server that knows no ranges sends the whole file: the connection is closed after the first bytes.

    Args:
        file: the file.
        folder: where to store its beginning.
        reader: the reader's name, one of `SUPPORTED_READERS`: it says what a record is.
        size: bytes to download.
        patience: how often to try again.

    Raises:
        ConfigError: the file is not on the server.
        InputError: the beginning holds no whole record, or is damaged.
        MachineError: the server cannot be reached, or the disk cannot be written.
    """
    path = head_path(file, folder)
    if path.exists():
        return path
    patience = patience or RetryPolicy()
    data, whole = persist(lambda: _first_bytes(file.url, size, patience.timeout_s), file.url, patience)
    text = _decompressed(data, file.url)
    write_atomic(path, text if whole else _whole_records(text, reader, file.url))
    return path


def _first_bytes(url: str, size: int, timeout_s: float) -> tuple[bytes, bool]:
    """Return a file's first bytes, and whether these are all of it."""
    data = bytearray()
    with ask(url, end=size, timeout_s=timeout_s) as answer:
        for chunk in answer.chunks():
            data += chunk
            if len(data) >= size:
                return bytes(data[:size]), False
    return bytes(data), True


def _decompressed(data: bytes, url: str) -> bytes:
    """Return what can be decompressed of data that may end anywhere."""
    kind = codecs.detect_compression(data[: codecs.HEAD_BYTES])
    if not kind:
        return data
    found = bytearray()
    try:
        while data and len(found) < _MOST:
            decoder = codecs.DECODERS[kind]()
            while not decoder.eof and (data or not decoder.needs_input) and len(found) < _MOST:
                piece, data = data[:_PIECE], data[_PIECE:]
                found += decoder.decompress(piece, _PIECE)
            data = (decoder.unused_data + data).lstrip(b"\0") if decoder.eof else b""
            if codecs.detect_compression(data[: codecs.HEAD_BYTES]) != kind:
                break
    except codecs.DECODER_ERRORS as error:
        raise InputError(
            f"the beginning of the file is damaged: {error}", where=url, fix="try another mirror"
        ) from error
    return bytes(found)


def _whole_records(text: bytes, reader: str, url: str) -> bytes:
    for end in _ENDS[reader]:
        if (at := text.rfind(end)) >= 0:
            return text[: at + len(end)] + (_EXPORT_END if end == _PAGE_END else b"")
    raise InputError(
        "the beginning of the file holds no whole record", where=url, fix=f"see whether it is for {reader}"
    )
