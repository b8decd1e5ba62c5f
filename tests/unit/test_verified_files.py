"""Files are checked against their hash, once; JSON files against the checksum inside them."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.stage import Output, Receipt
from jprep.errors import DamagedError, MachineError, MismatchError
from jprep.io import hashing as module
from jprep.io.verified_files import copy_verified, find_damage, read_verified, verify_file

DATA = bytes(range(256)) * 9000
SHA256 = hashlib.sha256(DATA).hexdigest()


def copied(path: Path, sha256: str, fix: str) -> bytes:
    """What `copy_verified` hands on."""
    out = bytearray()
    copy_verified(path, sha256, out.extend, fix)
    return bytes(out)


READERS = [lambda *args: verify_file(*args).read_bytes(), read_verified, copied]


@pytest.mark.parametrize("read", READERS)
def test_an_undamaged_file_is_read(read: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    assert read(tmp_path / "file", SHA256, "repair it") == DATA


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("data", [DATA[:-1], DATA + b"x", DATA[:5] + b"x" + DATA[6:], b"", None])
def test_a_damaged_or_missing_file_is_refused(data: bytes | None, read: Any, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "file").write_bytes(data)
    with pytest.raises(DamagedError, match="is missing" if data is None else "was changed or damaged") as caught:
        read(tmp_path / "file", SHA256, "repair it")
    assert caught.value.where == str(tmp_path / "file") and caught.value.fix == "repair it"
    assert isinstance(caught.value, MismatchError) and caught.value.exit_code == 2


def test_an_unchanged_file_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, hashed = tmp_path / "file", []

    def note(path: Path) -> str:
        hashed.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    path.write_bytes(DATA)
    later = time.time_ns() + 5_000_000_000
    monkeypatch.setattr(module.time, "time_ns", lambda: later)
    monkeypatch.setattr(module, "file_sha256", note)
    assert [find_damage(path, SHA256) for _ in range(3)] == [""] * 3 and len(hashed) == 1
    before = path.stat()
    path.write_bytes(DATA[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the time of change cannot be put back
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of some kernels ticks every few milliseconds
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find_damage(path, SHA256) == "was changed or damaged" and len(hashed) == 2


def test_a_file_that_has_just_changed_is_hashed_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(DATA)
    assert find_damage(tmp_path / "file", SHA256) == ""
    monkeypatch.setattr(module, "file_sha256", lambda path: "other")
    assert find_damage(tmp_path / "file", SHA256) == "was changed or damaged"


RECEIPT = Receipt("0001", "d", "f", [Output("a/b", 3, "0" * 64)], {"documents": 3}, {"filter/short": 2})


@pytest.mark.parametrize("indent", [-1, 1])
def test_a_flipped_bit_never_changes_the_data(indent: int) -> None:
    data = encode_checksummed(RECEIPT, indent=indent)
    assert decode_checksummed(data, Receipt) == RECEIPT
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):
            decode_checksummed(bytes(flipped), Receipt)


@given(st.binary(max_size=40))
def test_garbage_is_a_value_error(data: bytes) -> None:
    assume(not data.strip().startswith(b"{"))  # a JSON object without a checksum is a file of jprep 0.1
    for kind in (Receipt, dict[str, Any]):
        with pytest.raises(ValueError):
            decode_checksummed(data, kind)


def test_files_of_jprep_0_1_are_read() -> None:
    data = msgspec.json.encode(RECEIPT)
    assert decode_checksummed(data, Receipt) == RECEIPT
    assert decode_checksummed(b'{"salt":""}', dict[str, Any]) == {"salt": ""}
    assert decode_checksummed(b"{}", dict[str, Any]) == {}


def test_deep_nesting_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested"):
        decode_checksummed(b'{"a":' + b"[" * 100_000, Receipt)


def test_an_inaccessible_file_does_not_count_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stat(path: Path, **_: Any) -> os.stat_result:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    (tmp_path / "file").write_bytes(DATA)
    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(Path, "exists", lambda path: False)  # as from Python 3.14 on
    with pytest.raises(MachineError):
        find_damage(tmp_path / "file", SHA256)
