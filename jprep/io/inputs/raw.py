"""Raw streams of an input: its stored bytes, counted, and their decompression."""

from __future__ import annotations

import io
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from jprep.io.inputs import codecs
from jprep.io.inputs.content_check import compare_on_read
from jprep.io.inputs.limits import BombGuard, corrupt_error, truncated_error
from jprep.io.inputs.paths import STDIN, is_local
from jprep.io.os_errors import translate_read_errors
from jprep.io.remote.objects import open_object
from jprep.io.remote.ranges import ObjectFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

indexed_bzip2 = codecs.indexed_bzip2
_BLOCK = 1 << 16
_NO_MORE_BITS = "std::exception"
# The message of indexed_bzip2 for truncated input; other errors have messages of their own.


class RawInput(io.RawIOBase):
    """The stored bytes of an input, counted.

    Attributes:
        path: its path or URL.
        consumed: the offset that it was read to.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be opened; reading raises it too.
    """

    def __init__(self, path: str, start: int = 0) -> None:
        self.path = path
        self.consumed = 0
        self._head = b""
        with translate_read_errors(path):
            self._file = compare_on_read(self._open(), path)
        if start:
            self.seek(start)

    def _open(self) -> BinaryIO | ObjectFile:
        if self.path == STDIN:
            return sys.stdin.buffer
        if is_local(self.path):
            return Path(self.path).open("rb", buffering=0)
        return open_object(self.path)

    def head(self) -> bytes:
        """Return the first bytes without consuming them."""
        while len(self._head) < codecs.HEAD_BYTES and (more := self._take(codecs.HEAD_BYTES - len(self._head))):
            self._head += more
        return self._head

    def _take(self, size: int) -> bytes:
        with translate_read_errors(self.path):
            return self._file.read(size) or b""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer."""
        view = memoryview(buffer)
        if self._head:
            data, self._head = self._head[: len(view)], self._head[len(view) :]
        else:
            data = self._take(len(view))
        view[: len(data)] = data
        self.consumed += len(data)
        return len(data)

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset that it was read to."""
        return self.consumed

    def seekable(self) -> bool:
        """Return whether it can be read again from its start."""
        return self.path != STDIN and self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position in the file."""
        if whence == io.SEEK_CUR:
            offset, whence = self.consumed + offset, io.SEEK_SET
        self._head = b""
        with translate_read_errors(self.path):
            self.consumed = self._file.seek(offset, whence)
        return self.consumed

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if not self.closed and self.path != STDIN:
            self._file.close()
        super().close()


class DecompressedInput(io.RawIOBase):
    """The decompressed bytes of any number of concatenated compressed streams.

    Attributes:
        segment: offset in the file of the stream that the bytes read last come from.

    Raises:
        InputError: on reading, where the data is truncated or corrupt, or expands beyond the limit.
    """

    def __init__(self, source: RawInput, kind: str, guard: BombGuard) -> None:
        self._source, self._kind, self._guard = source, kind, guard
        self._decoder = codecs.DECODERS[kind]()
        self._input = b""
        self._output = memoryview(b"")
        self._produced = 0
        self.segment = self._start = source.consumed

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer or a part of it with bytes of one stream; return 0 after the last stream."""
        view = memoryview(buffer)
        while not self._output and self._advance(len(view)):
            pass
        size = min(len(view), len(self._output))
        view[:size], self._output = self._output[:size], self._output[size:]
        self._produced += size
        return size

    def _advance(self, size: int) -> bool:
        """Decompress more; return False at the end of the input."""
        if self._decoder.eof:
            return self._next_stream()
        if self._decoder.needs_input and not self._input and not self._fill():
            raise truncated_error(self._source.path, self._source.consumed)
        data, self._input = self._input, b""
        try:
            self._output = memoryview(self._decoder.decompress(data, size))
        except codecs.DECODER_ERRORS as error:
            raise self._corrupt(error) from error
        self._guard.check(self._source.consumed - self._start, self._produced + len(self._output))
        return True

    def _next_stream(self) -> bool:
        self._input = self._decoder.unused_data.lstrip(b"\0")  # gzip and xz may be padded with zeros
        while len(self._input) < codecs.HEAD_BYTES and self._fill():
            self._input = self._input.lstrip(b"\0")
        if self._input and codecs.detect_compression(self._input) != self._kind:
            raise self._corrupt("other data follows it")
        if self._input:
            self._decoder, self.segment = codecs.DECODERS[self._kind](), self._source.consumed - len(self._input)
        return bool(self._input)

    def _fill(self) -> bool:
        more = self._source.read(_BLOCK)
        self._input += more or b""
        return bool(more)

    def _corrupt(self, detail: object) -> Exception:
        return corrupt_error(self._source.path, self._source.consumed, detail)

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of decompressed bytes read so far."""
        return self._produced

    def close(self) -> None:
        """Close the file."""
        self._source.close()
        super().close()


class IndexedBzip2(io.RawIOBase):
    """The decompressed bytes of a seekable bzip2 file, by a faster decoder than the standard library's.

    Raises:
        InputError: as `DecompressedInput`.
    """

    def __init__(self, source: RawInput, guard: BombGuard) -> None:
        self._source, self._guard = source, guard
        source.seek(0)
        self._file = indexed_bzip2.open(source, parallelization=1)
        # Its thread aborts the interpreter at exit unless it is closed before.
        self._release = weakref.finalize(self, self._file.close)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer or a part of it; return 0 at the end."""
        try:
            size: int = self._file.readinto(buffer)
            if not size:
                self._check_rest()
        except (RuntimeError, ValueError) as error:
            raise self._failed(error) from error
        self._guard.check(self._source.consumed, self._file.tell())
        return size

    def _failed(self, error: Exception) -> Exception:
        at = self._source.consumed
        if str(error) == _NO_MORE_BITS and not self._source.read(1):
            return truncated_error(self._source.path, at)
        return corrupt_error(self._source.path, at, error)

    def _check_rest(self) -> None:
        # The library only warns where something else follows the last stream.
        self._source.seek(self._file.raw.bz2reader.tell_compressed() // 8)
        while rest := self._source.read(_BLOCK):
            if rest.strip(b"\0"):
                raise corrupt_error(self._source.path, self._source.consumed, "other data follows it")

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of decompressed bytes read so far."""
        return int(self._file.tell())

    def close(self) -> None:
        """Close the file and the decoder's thread."""
        self._release()
        self._source.close()
        super().close()


def decompress_input(source: RawInput, kind: str, guard: BombGuard) -> io.RawIOBase:
    """Return a stream of the decompressed bytes of an input."""
    if kind == "bzip2" and indexed_bzip2 and source.seekable():
        return IndexedBzip2(source, guard)
    return DecompressedInput(source, kind, guard)
