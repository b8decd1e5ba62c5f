"""Random access to bzip2 files: split a file at its blocks without decompressing it.

A bzip2 stream is a header, blocks of up to 900 kB that decode independently, and a footer; blocks begin at any bit.
Each begins with the 48 bits 0x314159265359 and each footer with 0x177245385090. One block, moved to a byte boundary and
given a header and a footer of its own, is a complete bzip2 file: so the fastest library can decode it and check its
CRC. (Format: https://en.wikipedia.org/wiki/Bzip2#File_format.)
"""

from __future__ import annotations

import bz2
import io
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from jprep.errors import InputError, TruncatedError
from jprep.io.inputs import codecs
from jprep.io.inputs.limits import DOWNLOAD_AGAIN

_indexed = codecs.indexed_bzip2  # about 1.3 times as fast as the bz2 module
_BLOCK, _FOOTER = 0x314159265359, 0x177245385090
_BITS = 48
_HEADER = 32  # bits of "BZh9"
_PIECE = 1 << 20  # bytes searched at a time
_NEAR = 1 << 17  # bytes searched at a time for the next block: they are some 200 kB apart
_LONGEST = 8 << 20  # bits (1 MiB) of a compressed block: incompressible 900 kB take 904 kB
_OVERLAP = 15  # bytes that contain a magic and its check bits at any bit offset


def _needles(magic: int) -> list[tuple[int, bytes]]:
    """Return, for each of the eight bit offsets of a magic, the offset and the five bytes that it fills."""
    return [(shift, (magic << 8 - shift).to_bytes(7, "big")[1:6]) for shift in range(8)]


_NEEDLES = [(magic, shift, needle) for magic in (_BLOCK, _FOOTER) for shift, needle in _needles(magic)]


def next_block(file: BinaryIO, bit: int) -> int | None:
    """Return the bit at which the first block at or after a bit begins, or None after the last one.

    It reads the file from there to the block only, so that a file is cut into shards without reading it as a whole.
    """
    found = find_magics(file, bit // 8, _NEAR)
    return next((begin for begin, is_block in found if is_block and begin >= bit), None)


def find_magics(file: BinaryIO, start: int = 0, size: int = _PIECE) -> Iterator[tuple[int, bool]]:
    """Yield the bit offset of each block and footer from byte `start` on, in order, and whether it is a block.

    Between two results the caller may move the file's position. `size` bytes are searched at a time.
    """
    base, held = start, b""
    while True:
        file.seek(base + len(held))
        piece = file.read(size)
        data = held + piece
        # A magic in the last bytes is found in the next round, when all of it and its check bits are available.
        limit = len(data) - _OVERLAP if len(piece) == size else len(data)
        yield from _magics_in(data, base, limit)
        if limit == len(data):
            return
        base, held = base + limit, data[limit:]


def _magics_in(data: bytes, base: int, limit: int) -> list[tuple[int, bool]]:
    found = []
    for magic, shift, needle in _NEEDLES:
        position = data.find(needle, 1)
        while position != -1:
            bit = (position - 1) * 8 + shift
            if bit < limit * 8 and _is_magic(data, bit, magic):
                found.append((base * 8 + bit, magic == _BLOCK))
            position = data.find(needle, position + 1)
    return sorted(found)


def _is_magic(data: bytes, bit: int, magic: int) -> bool:
    """Check all 48 bits and a block's origin pointer: so a false match occurs in one of 10⁵ files, not of 10³."""
    byte, shift = divmod(bit, 8)
    window = data[byte : byte + _OVERLAP]
    bits = len(window) * 8 - shift
    value = int.from_bytes(window, "big") & (1 << bits) - 1
    if bits < _BITS or value >> bits - _BITS != magic:
        return False
    after_pointer = bits - _BITS - 32 - 1 - 24  # the magic, the CRC, one bit, the pointer
    return magic == _FOOTER or after_pointer < 0 or (value >> after_pointer & 0xFFFFFF) < 900_000


class Bzip2Block(NamedTuple):
    """A block: the bits at which it begins and ends, and its decompressed bytes."""

    begin: int
    end: int
    data: bytes


def read_blocks(file: BinaryIO, start_bit: int, path: str) -> Iterator[Bzip2Block]:
    """Yield the blocks from the one at `start_bit` on.

    Raises:
        TruncatedError: the file ends inside a stream.
        InputError: a block's checksum is wrong, or other data lies between streams.
    """
    begun, due = -1, start_bit or _HEADER
    for bit, is_block in find_magics(file, start_bit // 8):
        if bit < start_bit:
            continue
        if begun >= 0:
            yield Bzip2Block(begun, bit, _decode(file, begun, bit, path))
        elif bit != due:  # a magic is damaged: its block must not be skipped
            raise _damaged("a stream does not begin where it should", path, due // 8)
        begun, due = bit if is_block else -1, _after_footer(bit)
    if begun >= 0:
        raise _cut_off(path, begun // 8)
    _check_rest(file, (due - _HEADER) // 8, path)


def _after_footer(bit: int) -> int:
    """Return the bit at which the next stream's first block or footer begins: streams are padded to whole bytes."""
    return (bit + _BITS + 32 + 7) // 8 * 8 + _HEADER


def _check_rest(file: BinaryIO, end: int, path: str) -> None:
    """Refuse data other than zeros after the last stream."""
    if file.seek(0, io.SEEK_END) < end:
        raise _cut_off(path, end)
    file.seek(end)
    while rest := file.read(_PIECE):
        if b"BZh".startswith(rest[:3]):
            raise _cut_off(path, end)
        if rest.strip(b"\0"):
            raise _damaged("other data follows it", path, end)


def _cut_off(path: str, byte: int) -> TruncatedError:
    where = f"{path}, in the block at compressed byte {byte:,}"
    return TruncatedError("the bzip2 file is truncated", where=where, fix=DOWNLOAD_AGAIN)


def _damaged(detail: object, path: str, byte: int) -> InputError:
    where = f"{path}, in the block at compressed byte {byte:,}"
    return InputError(f"the bzip2 file is damaged ({detail})", where=where, fix=DOWNLOAD_AGAIN)


def _decode(file: BinaryIO, begin: int, end: int, path: str) -> bytes:
    """Decompress the bits from `begin` to `end`, with a header and a footer added."""
    first, last = begin // 8, (end + 7) // 8
    length = end - begin
    if length > _LONGEST:  # magics in between are damaged, or it is not bzip2: it must not be read as a whole
        raise _damaged("a block is longer than blocks can be", path, first)
    file.seek(first)
    block = int.from_bytes(file.read(last - first), "big") >> last * 8 - end & (1 << length) - 1
    crc = block >> length - _BITS - 32 & 0xFFFFFFFF
    padding = -(length + _BITS + 32) % 8
    stream = ((block << _BITS | _FOOTER) << 32 | crc) << padding
    try:
        return _decompress(b"BZh9" + stream.to_bytes((length + _BITS + 32 + padding) // 8, "big"))
    except (OSError, ValueError, RuntimeError, EOFError) as error:
        raise _damaged(error, path, first) from error


def _decompress(stream: bytes) -> bytes:
    if _indexed is None:
        return bz2.decompress(stream)
    # The library keeps a reference to the file that it was given; closing that file frees its memory.
    with io.BytesIO(stream) as source, _indexed.IndexedBzip2File(source, parallelization=1) as file:
        data: bytes = file.read()
    return data
