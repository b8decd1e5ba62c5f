"""Refuse tar archives, whose bytes readers of text would take for the text."""

from __future__ import annotations

import tarfile

from jprep.errors import InputError

TAR_HEAD = tarfile.BLOCKSIZE
"""Number of bytes of a tar archive's first header, which has a checksum."""


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
