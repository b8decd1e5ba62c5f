"""Data read from an input is compared with the hashes taken before."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import InputError
from jprep.io import hashing
from jprep.io.hashing import hash_content
from jprep.io.inputs import content_check
from jprep.io.inputs.content_check import compare_on_read, expect_contents, forget_contents
from jprep.io.inputs.streams import open_input, open_raw

DATA = random.Random(4).randbytes(3_300_000)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "BLOCK", 16)


@pytest.fixture(params=["", "gz", "bz2"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A file whose content is expected to stay."""
    compress = {"": bytes, "gz": gzip.compress, "bz2": bz2.compress}[request.param]
    path = tmp_path / f"input.{request.param}"
    path.write_bytes(compress(DATA))
    with open_raw(str(path)) as file:
        contents = {str(path): hash_content(file)}
    expect_contents(contents)
    yield str(path)
    forget_contents(contents)


def test_content_has_the_files_hash(path: str) -> None:
    with open_raw(path) as file:
        assert hash_content(file).sha256 == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_unchanged_content_is_read(path: str) -> None:
    assert open_input(path).read() == DATA


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.9999999])
def test_a_changed_byte_is_reported_with_its_position(path: str, place: float) -> None:
    data = bytearray(Path(path).read_bytes())
    at = int(len(data) * place)
    data[at] ^= 1
    Path(path).write_bytes(data)
    with pytest.raises(InputError, match="has changed") as caught, open_raw(path) as file:
        file.read()
    assert f"{path}, bytes {at >> 20 << 20:,} to" in caught.value.where and "--restart" in caught.value.fix


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""])
def test_another_length_is_reported(path: str, change) -> None:  # type: ignore[no-untyped-def]
    Path(path).write_bytes(change(Path(path).read_bytes()))
    with pytest.raises(InputError, match="has changed"), open_input(path) as file:
        file.read()


def test_added_whole_blocks_are_reported(tmp_path: Path, small_blocks: None) -> None:
    content = hash_content(io.BytesIO(bytes(32)))
    expect_contents({"x": content})
    assert compare_on_read(io.BytesIO(bytes(32)), "x").read(16) == bytes(16)
    grown = compare_on_read(io.BytesIO(bytes(48)), "x")
    grown.seek(32)
    with pytest.raises(InputError):
        grown.read(1)
    forget_contents({"x": content})
    assert not isinstance(compare_on_read(io.BytesIO(b""), "x"), content_check._ComparedFile)


@given(st.binary(max_size=100), st.lists(st.tuples(st.integers(0, 120), st.integers(1, 40)), max_size=12))
def test_any_order_of_reads_gives_the_files_bytes(data: bytes, reads: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "BLOCK", 16)
        expect_contents({"x": hash_content(io.BytesIO(data))})
        file = compare_on_read(io.BytesIO(data), "x")
        for offset, size in reads:
            assert file.seek(offset) == offset
            found = file.read(size)
            assert found == data[offset : offset + len(found)]
            assert len(found) > 0 or offset >= len(data)
        assert file.seek(0, io.SEEK_END) == len(data)
        forget_contents({"x": hash_content(io.BytesIO(data))})


def test_a_file_that_cannot_seek_is_compared_in_order(small_blocks: None) -> None:
    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise io.UnsupportedOperation

    content = hash_content(io.BytesIO(bytes(range(40))))
    expect_contents({"x": content})
    file = compare_on_read(Stream(bytes(range(40))), "x")
    assert not file.seekable()
    assert b"".join(iter(lambda: file.read(7), b"")) == bytes(range(40))
    with pytest.raises(InputError, match="has changed"):
        compare_on_read(Stream(bytes(40)), "x").read(1)
    forget_contents({"x": content})
