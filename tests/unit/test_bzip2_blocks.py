"""bzip2 files read block by block: no data is lost, and no damage is missed."""

from __future__ import annotations

import bz2
import io
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jprep.errors import InputError, TruncatedError
from jprep.io.inputs import bzip2_blocks
from jprep.io.inputs.bzip2_blocks import find_magics, read_blocks


@pytest.fixture(params=["indexed", "module"])
def decoder(request, monkeypatch):
    if request.param == "module":
        monkeypatch.setattr(bzip2_blocks, "_indexed", None)
    elif bzip2_blocks._indexed is None:
        pytest.skip("indexed_bzip2 is not installed")


def joined(data: bytes, start_bit: int = 0) -> bytes:
    return b"".join(block.data for block in read_blocks(io.BytesIO(data), start_bit, "file"))


def text(size: int, seed: int = 0) -> bytes:
    """Text that compresses to about half its size, so that 100 kB blocks are soon full."""
    return random.Random(seed).randbytes(size // 2).hex().encode()


LARGE = text(500_000)
STREAMS = bz2.compress(b"head", 9) + bz2.compress(LARGE, 1) + bz2.compress(b"") + bz2.compress(text(3_000), 5)

runs = st.builds(lambda byte, times: bytes([byte]) * times, st.integers(0, 255), st.integers(0, 5000))
pieces = st.binary(max_size=200) | runs


@pytest.mark.usefixtures("decoder")
def test_blocks_of_many_streams_are_the_whole() -> None:
    assert joined(STREAMS) == bz2.decompress(STREAMS)
    assert sum(is_block for _, is_block in find_magics(io.BytesIO(STREAMS))) == 8  # 1 + 6 of 100 kB + 0 + 1


@given(st.lists(st.tuples(pieces, st.integers(1, 9)), max_size=6))
@example([])
@example([(b"", 9)])
def test_any_streams_give_what_the_bz2_module_gives(streams: list[tuple[bytes, int]]) -> None:
    data = b"".join(bz2.compress(part, level) for part, level in streams)
    assert joined(data) == b"".join(part for part, _ in streams)


def test_reading_begins_at_any_block() -> None:
    whole = list(read_blocks(io.BytesIO(STREAMS), 0, "file"))
    for number, block in enumerate(whole):
        assert joined(STREAMS, block.begin) == b"".join(b.data for b in whole[number:])


@pytest.mark.parametrize("piece", [64, 1000, 1 << 20])
def test_magics_are_found_wherever_pieces_of_the_search_end(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(find_magics(io.BytesIO(STREAMS)))
    monkeypatch.setattr(bzip2_blocks, "_PIECE", piece)
    assert list(find_magics(io.BytesIO(STREAMS))) == expected


def test_zeros_after_the_last_stream_are_no_data() -> None:
    assert joined(STREAMS + bytes(512)) == bz2.decompress(STREAMS)


STREAMS_OF_SMALL = [bz2.compress(b"one stream"), bz2.compress(text(2_000)), bz2.compress(b"three")]
SMALL = b"".join(STREAMS_OF_SMALL)


@pytest.mark.parametrize("size", [1, 3, 4, 7, 13, 14, 20])
def test_a_file_that_ends_in_its_first_stream_is_cut_off(size: int) -> None:
    with pytest.raises(TruncatedError):
        joined(SMALL[:size])


@given(st.integers(1, len(SMALL)))
def test_a_truncated_file_is_reported_unless_it_ends_with_a_stream(size: int) -> None:
    ends = {sum(map(len, STREAMS_OF_SMALL[:n])): bz2.decompress(b"".join(STREAMS_OF_SMALL[:n])) for n in range(1, 4)}
    if size in ends:
        assert joined(SMALL[:size]) == ends[size]
    else:
        with pytest.raises(TruncatedError, match="truncated") as caught:
            joined(SMALL[:size])
        assert "file, " in caught.value.where and caught.value.fix


@settings(max_examples=300)
@given(st.integers(0, len(SMALL) * 8 - 1))
def test_a_flipped_bit_never_changes_the_data(bit: int) -> None:
    damaged = bytearray(SMALL)
    damaged[bit // 8] ^= 0x80 >> bit % 8
    try:
        data = joined(bytes(damaged))
    except InputError as error:
        assert "file" in error.where and error.fix
    else:
        assert data == bz2.decompress(SMALL)


def test_other_data_after_a_bzip2_stream_is_damage() -> None:
    with pytest.raises(InputError):
        joined(bz2.compress(b"sound") + b"something else entirely")
