"""Random access to .xz files of several blocks, as `xz -T0`, `xz --block-size` and pixz write them.

A stream is a header, blocks that decode independently, an index with the sizes of the blocks, and a footer; the index
is found from the end of the file. One block, given a header, an index and a footer of its own, is a complete stream: so
liblzma decodes it, and checks its size and its checksum. (Format: https://tukaani.org/xz/xz-file-format.txt.)
"""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from jprep.io.inputs.limits import BombGuard, corrupt_error, truncated_error
from jprep.io.inputs.raw import RawInput

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_HEADER = 12  # bytes of a stream's header, and of its footer
_MAGIC, _END = b"\xfd7zXZ\x00", b"YZ"
_LONGEST_INDEX = 16 << 20  # bytes: some million blocks
_PIECE = 1 << 16


class XzBlock(NamedTuple):
    """A block of an .xz file.

    Attributes:
        start: offset of the block in the file.
        unpadded: stored bytes without padding to a multiple of four.
        size: decompressed bytes, as the index says.
        flags: the flags of its stream, two bytes.
    """

    start: int
    unpadded: int
    size: int
    flags: bytes


def list_blocks(file: BinaryIO) -> list[XzBlock]:
    """Return the blocks of all streams of a seekable .xz file, in order.

    Nothing that the file says of itself is trusted: sizes have to add up to the size of the file, and checksums have to
    be right. If they are not, there are no blocks; whoever decodes the file from its start reports the damage.
    """
    try:
        return list(_blocks_of(file))[::-1]
    except _IndexError:
        return []


class _IndexError(Exception):
    """The file is damaged, or is no .xz file."""


def _blocks_of(file: BinaryIO) -> Iterator[XzBlock]:
    """Yield the blocks from the last to the first."""
    end = file.seek(0, io.SEEK_END)
    while end := _without_padding(file, end):
        footer = _read_at(file, end - _HEADER, _HEADER)
        flags, size = footer[8:10], (int.from_bytes(footer[4:8], "little") + 1) * 4
        _require(footer[10:] == _END and _crc(footer[4:10]) == footer[:4] and size <= _LONGEST_INDEX)
        at = end - _HEADER - size
        sizes = _parse_index(_read_at(file, at, size))
        for unpadded, decompressed in reversed(sizes):
            at -= _padded(unpadded)
            _require(at >= _HEADER)
            yield XzBlock(at, unpadded, decompressed, flags)
        end = at - _HEADER
        _require(_read_at(file, end, _HEADER) == _header(flags))


def _without_padding(file: BinaryIO, end: int) -> int:
    """Return the end of the last stream before an offset: zeros in groups of four may follow a stream."""
    _require(end % 4 == 0)
    while end:
        begin = max(0, end - _PIECE)
        kept = len(_read_at(file, begin, end - begin).rstrip(b"\0"))
        if kept:
            return begin + (kept + 3) // 4 * 4
        end = begin
    return 0


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    _require(offset >= 0)
    file.seek(offset)
    data = file.read(size)
    _require(len(data) == size)
    return data


def _parse_index(data: bytes) -> list[tuple[int, int]]:
    """Return the stored size, without padding, and the decompressed size of each block."""
    _require(data[:1] == b"\0" and _crc(data[:-4]) == data[-4:])
    count, at = _decode_number(data, 1)
    _require(count <= len(data) // 2)
    sizes = []
    for _ in range(count):
        unpadded, at = _decode_number(data, at)
        size, at = _decode_number(data, at)
        _require(unpadded > 4)
        sizes.append((unpadded, size))
    _require(len(data) - 4 - at < 4 and not any(data[at:-4]))
    return sizes


def _decode_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the offset after it."""
    value = 0
    for position in range(9):
        _require(at + position < len(data) - 4)
        byte = data[at + position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value, at + position + 1
    raise _IndexError


def _encode_number(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded) + bytes([value])


def _header(flags: bytes) -> bytes:
    return _MAGIC + flags + _crc(flags)


def _ending(block: XzBlock) -> bytes:
    """Return the index and the footer of a stream that consists of one block."""
    index = b"\0\x01" + _encode_number(block.unpadded) + _encode_number(block.size)
    index += bytes(-len(index) % 4)
    index += _crc(index)
    about = (len(index) // 4 - 1).to_bytes(4, "little") + block.flags
    return index + _crc(about) + about + _END


def _padded(size: int) -> int:
    return (size + 3) // 4 * 4


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _require(condition: bool) -> None:
    if not condition:
        raise _IndexError


class XzBlockInput(io.RawIOBase):
    """The decompressed bytes of consecutive blocks.

    Args:
        source: the file.
        blocks: the blocks.
        guard: limits the expansion.

    Attributes:
        segment: offset of the block that the bytes read last come from.

    Raises:
        InputError: on reading, where the data is truncated or corrupt, or expands beyond the limit.
    """

    def __init__(self, source: RawInput, blocks: list[XzBlock], guard: BombGuard) -> None:
        self._source, self._guard = source, guard
        self._blocks = iter(blocks)
        self._decoder: lzma.LZMADecompressor | None = None
        self._left, self._ending = 0, b""
        self._consumed = self._produced = 0
        self.segment = blocks[0].start if blocks else 0

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer or a part of it with bytes of one block; return 0 after the last block."""
        view = memoryview(buffer)
        while self._decoder is not None or self._next_block():
            data = self._decompress(len(view))
            if data:
                view[: len(data)] = data
                self._produced += len(data)
                self._guard.check(self._consumed, self._produced)
                return len(data)
        return 0

    def _next_block(self) -> bool:
        if (block := next(self._blocks, None)) is None:
            return False
        self._source.seek(block.start)
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        self._decoder.decompress(_header(block.flags))
        self._left, self._ending, self.segment = _padded(block.unpadded), _ending(block), block.start
        return True

    def _decompress(self, size: int) -> bytes:
        """Return at most `size` bytes of the block; none at its end."""
        assert self._decoder is not None
        data = self._next_input() if self._decoder.needs_input else b""
        try:
            decompressed = self._decoder.decompress(data, size)
        except lzma.LZMAError as error:
            raise corrupt_error(self._source.path, self._source.consumed, error) from error
        if self._decoder.eof:
            self._decoder = None
        return decompressed

    def _next_input(self) -> bytes:
        if self._left:
            data = self._source.read(min(_PIECE, self._left)) or b""
            if not data:
                raise truncated_error(self._source.path, self._source.consumed)
            self._left -= len(data)
            self._consumed += len(data)
            return data
        data, self._ending = self._ending, b""
        if not data:  # the decoder wants more than the index says
            raise corrupt_error(self._source.path, self._source.consumed, "a block is longer than its index says")
        return data

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._source.close()
        super().close()
