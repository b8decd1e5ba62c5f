"""Refuse tar archives, whose bytes readers of text would take for the text."""

from __future__ import annotations

from jprep.errors import InputError

TAR_HEAD = 262
"""Number of bytes that identify a tar archive."""

_USTAR, _AT = b"ustar", 257


def refuse_tar(head: bytes, path: str) -> None:
    """Refuse an input that is a tar archive.

    Args:
        head: its first decompressed bytes, at least `TAR_HEAD` if there are as many.
        path: its path, for the error.

    Raises:
        InputError: it is one.
    """
    if head[_AT:TAR_HEAD] == _USTAR:
        fix = "unpack it (tar -xf), and give the files in it"
        raise InputError("this is a tar archive, which contains files, and no text itself", where=path, fix=fix)
