"""Refuse tar archives and spreadsheets, whose bytes readers of text would take for the text."""

from __future__ import annotations

import tarfile

from jprep.errors import InputError

TAR_HEAD = tarfile.BLOCKSIZE
"""Number of bytes of a tar archive's first header, which has a checksum."""

SAVE_AS_CSV = "save it as CSV (UTF-8), and give that file"
"""The fix for spreadsheets."""

_ZIP, _OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def refuse_tar(head: bytes, path: str) -> None:
    """Refuse an input that is a tar archive.

    Args:
        head: its first decompressed bytes, at least `TAR_HEAD` if there are as many.
        path: its path, for the error.

    Raises:
        InputError: it is one.
    """
    try:
        tarfile.TarInfo.frombuf(head[:TAR_HEAD], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return
    fix = "unpack it (tar -xf), and give the files in it"
    raise InputError("expected documents, got a tar archive", where=path, fix=fix)


def is_spreadsheet(head: bytes) -> bool:
    """Return whether a file is one of Excel (.xlsx, or .xls, which is told from no other file of old Office)."""
    return (head.startswith(_ZIP) and b"xl/" in head) or head.startswith(_OLD_OFFICE)


def spreadsheet_error(path: str, expected: str) -> InputError:
    """Return the error for a spreadsheet.

    Args:
        path: its path.
        expected: what was expected in its place.
    """
    return InputError(f"this is an Excel file, not {expected}", where=path, fix=SAVE_AS_CSV)
