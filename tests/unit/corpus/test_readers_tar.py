"""Readers of text refuse tar archives, compressed or not, before anything is built from them."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jprep.corpus.document import Document
from jprep.corpus.readers.aozora.reader import AozoraReader
from jprep.corpus.readers.archives import refuse_tar
from jprep.corpus.readers.delimited import CsvReader, TsvReader
from jprep.corpus.readers.json_records import JsonReader
from jprep.corpus.readers.lines import Cc100Reader, JsonlReader, TextReader
from jprep.corpus.step import Reader
from jprep.errors import InputError
from jprep.pipeline.starter.inputs import local_inputs


def archive(folder: Path, compress: Callable[[bytes], bytes] = bytes) -> str:
    """Write a tar archive with one text, and return its path."""
    written, text = io.BytesIO(), "これは文です。\n".encode() * 100
    with tarfile.open(fileobj=written, mode="w") as tar:
        member = tarfile.TarInfo("text.txt")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    path = folder / "texts.tar.xz"
    path.write_bytes(compress(written.getvalue()))
    return str(path)


@pytest.mark.parametrize("compress", [bytes, lzma.compress])
@pytest.mark.parametrize("kind", [TextReader, Cc100Reader, JsonlReader, TsvReader, CsvReader, JsonReader, AozoraReader])
def test_a_tar_archive_is_refused(kind: type[Reader], compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path, reader = archive(tmp_path, compress), kind()
    with pytest.raises(InputError, match="got a tar archive") as caught:
        [list(reader.read(shard, "source")) for shard in reader.shards(path)]
    assert caught.value.where == path and caught.value.fix.startswith("unpack it (tar -xf)")


@pytest.mark.parametrize("kind", [TextReader, Cc100Reader, JsonlReader])
def test_workers_are_not_asked_to_cut_a_tar_archive(kind: type[Reader], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got a tar archive"):
        kind().record_scan(archive(tmp_path, lzma.compress))


def test_a_starter_recipe_is_not_written_for_a_tar_archive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got a tar archive"):
        local_inputs([archive(tmp_path, lzma.compress)])


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_all_formats_are_known_by_their_checksum(form: int) -> None:
    member = tarfile.TarInfo("text.txt")
    head = member.tobuf(form)
    old = head[:257] + bytes(255)  # without the magic word, as before POSIX
    for each in (head, _with_checksum(old)):
        with pytest.raises(InputError, match="got a tar archive"):
            refuse_tar(each, "a.tar")
    refuse_tar(head[:200] + b"x" + head[201:], "text.txt")


def _with_checksum(head: bytes) -> bytes:
    total = sum(head[:148] + b" " * 8 + head[156:])
    return head[:148] + b"%06o\0 " % total + head[156:]


@pytest.mark.parametrize("text", [b"", b"ustar", b"a" * 257 + b"ustar\0" + b"a" * 300, bytes(1024)])
def test_text_is_no_archive(text: bytes, tmp_path: Path) -> None:
    refuse_tar(text, "text.txt")
    path, reader = tmp_path / "text.txt", TextReader()
    path.write_bytes(text + "これは文です。\n".encode())
    [found] = [each for shard in reader.shards(str(path)) for each in reader.read(shard, "source")]
    assert isinstance(found, Document) and found.text.endswith("これは文です。")
