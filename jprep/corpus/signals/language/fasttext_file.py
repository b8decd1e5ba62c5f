"""Check a file in fastText's format: the library reads whatever it is given, and ends or hangs on a truncated file."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from jprep.errors import InputError

_WHERE = "signal 'fasttext'"
_MAGIC, _VERSION = 793712314, 12
_ARGUMENTS = struct.Struct("<12id")
_LABEL = 1


def read_labels(path: Path) -> list[str]:
    """Return the labels of a model.

    Raises:
        InputError: the file is not a whole supervised model in fastText's format.
    """
    with path.open("rb") as file:
        head = file.read(8)
        if len(head) < 8 or struct.unpack("<ii", head)[0] != _MAGIC:
            raise InputError(f"{path}: not in fastText's format", where=_WHERE, fix="a .bin or .ftz file of fastText")
        if struct.unpack("<ii", head)[1] > _VERSION:
            raise InputError(f"{path}: a newer version of fastText's format", where=_WHERE, fix="an older model")
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Walk(data).labels()
        except (struct.error, ValueError) as error:
            fix = "download or write it again"
            raise InputError(f"{path}: truncated or damaged: {error}", where=_WHERE, fix=fix) from error


class _Walk:
    """Walks through a model from its head to its end. Raises struct.error or ValueError where it is damaged."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at = data, 8

    def labels(self) -> list[str]:
        arguments = self._take(_ARGUMENTS)
        if arguments[0] <= 0 or arguments[7] != 3:
            raise ValueError("not a supervised model")
        size, words, labels, _, pruned = self._take(struct.Struct("<iiiqq"))
        if size != words + labels or min(words, size) < 0 or labels <= 0:
            raise ValueError("the numbers of words and labels do not agree")
        found = [name.decode("utf-8", "replace") for kind, name in map(self._entry, range(size)) if kind == _LABEL]
        self._skip(max(pruned, 0) * 8)
        for _ in range(2):
            self._matrix(arguments[0])
        return found

    def _entry(self, _: int) -> tuple[int, bytes]:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ValueError("a word has no end")
        name = self._data[self._at : end]
        self._at = end + 1
        return self._take(struct.Struct("<qb"))[1], name

    def _matrix(self, columns: int) -> None:
        """Pass a matrix, the first of which says whether it is quantized."""
        if self._take(struct.Struct("<?"))[0]:
            with_norms, rows, width, codes = self._take(struct.Struct("<?qqi"))
            self._skip(codes)
            self._quantizer()
            if with_norms:
                self._skip(rows)
                self._quantizer()
        else:
            rows, width = self._take(struct.Struct("<qq"))
            self._skip(rows * width * 4)
        if rows <= 0 or width != columns:
            raise ValueError("a matrix has a different shape than the head says")

    def _quantizer(self) -> None:
        self._skip(self._take(struct.Struct("<4i"))[0] * 256 * 4)

    def _take(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self._data, self._at)
        self._at += form.size
        return values

    def _skip(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError("it ends too early")
        self._at += size
