"""Japanese encodings: what is detected, and how the reader `text` reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.detection import detect_encoding
from jprep.corpus.readers.lines import TextReader
from jprep.errors import InputError
from jprep.testing.conformance.reader import ReaderSuite

TEXT = "日本語の文章です。\r\nカタカナも、漢字も、ＡＢＣも含む。\r\n\r\n次の段落は「かぎ括弧」で終わる。\r\n"
FIRST, SECOND = "日本語の文章です。\nカタカナも、漢字も、ＡＢＣも含む。", "次の段落は「かぎ括弧」で終わる。"
ENCODINGS = ("utf-8", "cp932", "euc_jp", "iso2022_jp")


def read(path: Path, **options: object) -> list[Document | Reject]:
    reader = TextReader(TextReader.Config(**options))  # type: ignore[arg-type]
    return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]


class TestDetected(ReaderSuite):
    step = TextReader
    options = {"encoding": "detect", "documents": "blank_line"}
    texts = (FIRST, SECOND)

    def write(self, folder: Path) -> str:
        path = folder / "euc.txt"
        path.write_bytes(TEXT.encode("euc_jp"))
        return str(path)

    def make(self) -> TextReader:
        return TextReader(TextReader.Config(encoding="detect", documents="blank_line"))


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(
    "text", [TEXT, "東京都千代田区", "カタカナ", "ひらがなだけのぶん", "mixed ASCII と日本語 100%", "吾輩は猫である。"]
)
def test_detects_each_encoding(name: str, text: str) -> None:
    assert text.encode(name).decode(detect_encoding(text.encode(name))) == text


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_cut_character_does_not_matter(name: str) -> None:
    data = TEXT.encode(name) * 3
    for cut in range(len(data) - 12, len(data)):
        assert detect_encoding(data[:cut], complete=False) == name


def test_marks_come_first_and_noise_is_nothing() -> None:
    assert detect_encoding("あ".encode("utf-16")) == "utf-16"
    assert detect_encoding("あ".encode("utf-8-sig")) == "utf-8"
    assert detect_encoding(b"plain ASCII") == "utf-8"
    assert detect_encoding(b"") == "utf-8"
    assert detect_encoding(bytes(range(128, 256)) * 20) == ""
    assert detect_encoding("①②Ⅲ髙﨑".encode("cp932") + TEXT.encode("cp932")) == "cp932"
    assert detect_encoding("①はEUCの機種依存文字".encode("euc_jis_2004")) == "cp51932"
    assert detect_encoding("侶の異体字は俱である。".encode("euc_jis_2004")) == "euc_jis_2004"


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("shard_mb", [0.00001, 32.0])
def test_the_reader_reads_declared_and_detected_text(tmp_path: Path, name: str, shard_mb: float) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode(name))
    for encoding in (name, "detect"):
        items = read(path, encoding=encoding, documents="blank_line", shard_mb=shard_mb)
        assert [item.text for item in items if isinstance(item, Document)] == [FIRST, SECOND]


def test_originals_are_decoded_with_the_detected_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode("cp932"))
    reader = TextReader(TextReader.Config(encoding="detect"))
    (shard,) = reader.shards(str(path))
    ((item, original),) = reader.read_with_originals(shard, "s")
    assert original == TEXT.rstrip("\r\n")
    assert isinstance(item, Document)
    assert reader.tally["crlf.to_lf"] == 4


def test_bad_bytes_are_errors_or_counted_rejects(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    lines = [f"これは{number}行目の文です。".encode("cp932") for number in range(100)]
    path.write_bytes(b"\n".join([*lines, b"\x81\xff bad", *lines]))
    with pytest.raises(InputError, match="not valid cp932"):
        read(path, encoding="cp932", documents="line")
    rejects = [i for i in read(path, encoding="cp932", documents="line", max_bad=0.01) if isinstance(i, Reject)]
    assert [item.reason for item in rejects] == ["invalid_cp932"]
    with pytest.raises(InputError) as refused:  # no encoding fits: UTF-8 is tried, and the error names the byte
        read(path, encoding="detect", documents="line")
    assert "detect" not in refused.value.fix
    with pytest.raises(InputError, match='`encoding = "detect"`'):
        read(path, encoding="utf-8", documents="line")


def test_utf16_is_read_as_a_whole_file_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode("utf-16"))
    (item,) = read(path, encoding="detect")
    assert isinstance(item, Document)
    assert item.text.startswith(FIRST)
    with pytest.raises(InputError, match="UTF-16"):
        read(path, encoding="detect", documents="line")
