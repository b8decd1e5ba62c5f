"""Opening inputs: detection of compression, damage, decompression bombs, paths and names."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from jprep.errors import ConfigError, InputError, MachineError, TruncatedError
from jprep.io.inputs import raw, streams
from jprep.io.inputs.paths import expand_patterns, short_names
from jprep.io.inputs.streams import open_input

PLAIN = "".join(f"{i} 行目のことば {i * 7919 % 10007}\n" for i in range(32_000)).encode()
COMPRESS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": functools.partial(lzma.compress, preset=0),
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}
PACKED = {kind: compress(PLAIN) for kind, compress in COMPRESS.items()}
SKIPPABLE = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"


@pytest.fixture(params=["gzip", "bzip2", "bzip2 by the standard library", "xz", "zstd"])
def kind(request, monkeypatch):
    name, _, module = request.param.partition(" ")
    if module:
        monkeypatch.setattr(raw, "indexed_bzip2", None)
    elif name == "bzip2" and raw.indexed_bzip2 is None:
        pytest.skip("indexed_bzip2 is not installed")
    return name


def put(folder: Path, data: bytes) -> str:
    path = folder / "input"
    path.write_bytes(data)
    return str(path)


def read(path: str) -> bytes:
    with open_input(path) as stream:
        return b"".join(iter(lambda: stream.read(100_003), b""))


class TestCompressed:
    def test_reads_many_streams_one_after_another(self, kind, tmp_path):
        compress = COMPRESS[kind]
        path = put(tmp_path, compress(PLAIN[:100_000]) + compress(b"") + compress(PLAIN[100_000:]))
        assert read(path) == PLAIN
        assert streams.compression_of(path) == kind

    def test_padding_with_zeros_is_ignored(self, kind, tmp_path):
        assert read(put(tmp_path, PACKED[kind] + bytes(100_000))) == PLAIN

    @pytest.mark.parametrize("left", [0.999, 0.5, 0.0])
    def test_a_truncated_file_is_reported(self, kind, left, tmp_path):
        whole = PACKED[kind]
        cut = max(10, int(len(whole) * left))
        path = put(tmp_path, whole[:cut])
        with pytest.raises(TruncatedError, match=f"(?s)truncated.*{path}, compressed byte {cut}.*jprep corpus fetch"):
            read(path)

    def test_a_truncated_last_checksum_is_reported(self, kind, tmp_path):
        with pytest.raises(TruncatedError):
            read(put(tmp_path, PACKED[kind][:-2]))

    def test_trailing_data_is_reported(self, kind, tmp_path):
        with pytest.raises(InputError, match="other data follows"):
            read(put(tmp_path, PACKED[kind] + b"something else"))

    def test_data_before_the_damage_is_correct(self, kind, tmp_path):
        path = put(tmp_path, PACKED[kind][:-2])
        got = bytearray()
        with open_input(path) as stream, pytest.raises(TruncatedError):
            while block := stream.read1(4096):
                got += block
        assert PLAIN.startswith(got)

    def test_a_bomb_is_stopped_early(self, kind, tmp_path):
        path = put(tmp_path, COMPRESS[kind](bytes(100 << 20)))
        with open_input(path) as stream:
            with pytest.raises(InputError, match=r"(?s)250:1.*compressed byte.*max_ratio"):
                while stream.read(1 << 20):
                    pass
            assert stream.tell() <= 65 << 20
        with open_input(path, max_ratio=1e9) as stream:
            assert sum(map(len, iter(lambda: stream.read(1 << 20), b""))) == 100 << 20

    def test_knows_where_it_is(self, kind, tmp_path):
        path = put(tmp_path, PACKED[kind])
        with open_input(path) as stream:
            stream.read(1000)
            assert stream.tell() == 1000
            assert 0 < stream.consumed <= Path(path).stat().st_size
            stream.read()
            assert stream.consumed == Path(path).stat().st_size


def test_a_flipped_bit_is_reported(kind, tmp_path):
    if kind == "zstd":
        pytest.skip("Zstandard's checksum is optional, and off by default")
    data = bytearray(PACKED[kind])
    data[len(data) // 2] ^= 4
    with pytest.raises(InputError, match="corrupt"):
        read(put(tmp_path, bytes(data)))


def test_any_flipped_bit_is_reported_or_harmless(kind, tmp_path):
    plain = "吾輩は猫である。\n".encode() * 3
    whole = COMPRESS[kind](plain)
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        try:
            found = read(put(tmp_path, bytes(data)))
        except InputError:
            continue
        if kind != "zstd":  # whose checksum is optional, and off by default
            assert found in (plain, bytes(data))  # a changed magic number is that of no compression


def test_text_may_begin_with_bzh(tmp_path):
    data = "BZhは圧縮形式である。".encode()
    assert read(put(tmp_path, data)) == data


@pytest.mark.parametrize("data", [b"BZh9", b"BZh91AY"])
def test_a_cut_bzip2_file_is_an_error(data, tmp_path):
    with pytest.raises(InputError):
        read(put(tmp_path, data))


def test_zstd_skippable_frames_are_skipped(tmp_path):
    path = put(tmp_path, SKIPPABLE + COMPRESS["zstd"](b"abc") + SKIPPABLE + COMPRESS["zstd"](b"def"))
    assert read(path) == b"abcdef"


@pytest.mark.parametrize("data", [b"", b"a", b"\x1f", b"BZ", b"plain text\n"])
def test_plain_files_are_read_unchanged(data, tmp_path):
    path = put(tmp_path, data)
    assert read(path) == data
    assert streams.is_plain(path)
    with open_input(path, start=1) as stream:
        assert stream.read() == data[1:]


@pytest.mark.parametrize("packed", ["", *COMPRESS])
def test_standard_input(packed, monkeypatch):
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write((COMPRESS[packed] if packed else bytes)(b"through a pipe\n"))
    with os.fdopen(reader, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        stream = open_input("-")
        assert stream.compression == packed
        assert stream.read() == b"through a pipe\n"
        assert streams.size_of("-") is None


def test_a_uri_is_read_through_fsspec(tmp_path):
    import fsspec

    with fsspec.open("memory://box/a.txt.gz", "wb") as file:
        file.write(gzip.compress(PLAIN))
    assert read("memory://box/a.txt.gz") == PLAIN
    assert not streams.is_plain("memory://box/a.txt.gz")
    assert streams.size_of("memory://box/a.txt.gz") == len(gzip.compress(PLAIN))
    assert expand_patterns(["memory://box/*.gz"]) == ["memory:///box/a.txt.gz"]
    with pytest.raises(ConfigError, match="no such file"):
        open_input("memory://box/none")


def test_leaving_a_bzip2_file_open_does_not_abort_the_interpreter(tmp_path):
    path = put(tmp_path, bz2.compress(PLAIN))
    code = f"from jprep.io.inputs.streams import open_input; f = open_input({path!r}); f.read(10)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")


def test_errors_have_their_kinds(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        open_input(str(tmp_path / "none"))
    with pytest.raises(MachineError, match=r"directory"):
        open_input(str(tmp_path))
    with pytest.raises(ConfigError, match="not a valid path"):
        open_input("nosuchscheme://x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_rights_is_the_machines_fault(tmp_path):
    path = put(tmp_path, b"x")
    Path(path).chmod(0)
    with pytest.raises(MachineError, match=r"(?s)rmission.*rights"):
        open_input(path)


class TestExpand:
    def test_patterns(self, tmp_path):
        for name in ("b.txt", "a.txt", "sub/c.txt", "odd[1].txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        found = expand_patterns([f"{tmp_path}/sub/*", "-", f"{tmp_path}/?.txt", f"{tmp_path}/odd[1].txt"])
        assert found == [f"{tmp_path}/sub/c.txt", "-", *(f"{tmp_path}/{n}.txt" for n in ("a", "b", "odd[1]"))]
        assert len(expand_patterns([f"{tmp_path}/**/*.txt"])) == 4

    def test_refuses_a_path_that_is_not_an_input(self, tmp_path):
        (tmp_path / "a.txt").touch()
        with pytest.raises(ConfigError, match="no file matches"):
            expand_patterns([f"{tmp_path}/*.xz"])
        with pytest.raises(ConfigError, match="twice"):
            expand_patterns([f"{tmp_path}/a.txt", f"{tmp_path}/../{tmp_path.name}/*.txt"])
        with pytest.raises(ConfigError, match="twice"):
            expand_patterns(["-", "-"])
        with pytest.raises(ConfigError, match=r"(?s)got a directory.*\*\*/\*\.txt"):
            expand_patterns([str(tmp_path)])

    def test_web_addresses_are_no_patterns(self):
        assert expand_patterns(["https://example.com/a?b=[c]"]) == ["https://example.com/a?b=[c]"]


def test_names_are_as_short_as_possible():
    assert short_names(["/data/x/a.txt.gz", "/data/x/b.txt"]) == {"/data/x/a.txt.gz": "a.txt", "/data/x/b.txt": "b.txt"}
    assert list(short_names(["/d/x/README.md", "/d/y/README.md"]).values()) == ["x/README.md", "y/README.md"]
    assert list(short_names(["/d/a.txt", "/d/a.txt.gz"]).values()) == ["a.txt", "a.txt.gz"]
    assert short_names(["-"]) == {"-": "stdin"}
    assert short_names([]) == {}
