"""Input files of starter recipes that are not plain text in UTF-8: other formats, and other encodings."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest

from jprep.errors import ConfigError
from jprep.pipeline.starter.formats import refuse_as_text
from jprep.pipeline.starter.inputs import local_inputs

DUMP = b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"><page></page></mediawiki>'
HTML = "<!DOCTYPE html>\n<p>本文。</p>\n".encode()


@pytest.mark.parametrize(
    ("name", "data", "what", "fix"),
    [
        ("a.html", b"<p>a</p>", "these are HTML files, not plain text", 'reader = "html"'),
        ("a.HTM", HTML, "HTML", 'reader = "html"'),
        ("page", b"\xef\xbb\xbf\n" + HTML, "HTML", 'reader = "html"'),
        ("a.pdf", b"%PDF-1.7\n", "PDF", 'reader = "pdf"'),
        ("a.txt", b"%PDF-1.7\n", "PDF", 'reader = "pdf"'),
        ("a.json", b'[{"text": "a"}]', "JSON", 'reader = "json"'),
        ("a.warc", b"WARC/1.0\r\n", "WARC", 'reader = "warc"'),
        ("jawiki.xml", DUMP, "dumps of a wiki", "--from wikipedia"),
        ("jawiki.xml.bz2", bz2.compress(DUMP), "dumps of a wiki", "--from wikipedia"),
        ("law.xml", b'<?xml version="1.0"?><Law/>', "XML", 'reader = "law"'),
        ("a.docx", b"PK\x03\x04", "word processor", "save the text"),
        ("texts.zip", b"PK\x03\x04", "ZIP", "unpack"),
        ("a.xlsx", b"PK\x03\x04", "spreadsheets", "save it as CSV (UTF-8)"),
        ("a.XLS", b"\xd0\xcf\x11\xe0", "spreadsheets", "save it as CSV (UTF-8)"),
    ],
)
def test_files_of_other_formats_are_not_read_as_text(
    name: str, data: bytes, what: str, fix: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    for pattern in (tmp_path / name, tmp_path / "*"):
        with pytest.raises(ConfigError, match=what) as refused:
            local_inputs([str(pattern)])
        assert fix in refused.value.fix and name in refused.value.where


def test_a_later_file_or_a_url_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("一。\n")
    (tmp_path / "b.html").write_bytes(HTML)
    for paths in ([str(tmp_path / "*")], ["https://example.com/a.html"]):
        with pytest.raises(ConfigError, match="HTML"):
            local_inputs(paths)


def test_a_directory_without_text_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the directory has no files"):
        local_inputs([str(tmp_path)])
    (tmp_path / "sub").mkdir()
    for number in range(2):
        (tmp_path / "sub" / f"{number}.dat").write_bytes(b"a")
    with pytest.raises(ConfigError, match=r"no files that end in .txt, but 2 \*\.dat"):
        local_inputs([str(tmp_path)])
    (tmp_path / "sub" / "a.html").write_bytes(HTML)
    with pytest.raises(ConfigError, match=r"HTML(?s:.*)a\.html"):
        local_inputs([str(tmp_path)])


def test_a_directory_stands_for_its_files_of_one_format(tmp_path: Path) -> None:
    folder = tmp_path / "texts [1]"
    (folder / ".cache").mkdir(parents=True)
    (folder / "a.txt.bz2").write_bytes(bz2.compress("一。\n".encode()))
    (folder / "info.json").write_text("{}")
    (folder / ".cache" / "a.csv").write_text("text\n")
    assert local_inputs([str(folder)]).paths == (f"{tmp_path}/texts [[]1]/**/*.txt.bz2",)
    (folder / "b.txt").write_text("二。\n")
    assert local_inputs([f"{folder}/"]).paths == tuple(f"{tmp_path}/texts [[]1]/**/*.txt{end}" for end in ("", ".bz2"))


@pytest.mark.parametrize("other", ["README.txt", "b.csv.gz", "sub/a.html"])
def test_a_directory_of_several_formats_is_refused_and_names_a_file_of_each(other: str, tmp_path: Path) -> None:
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).write_text("about")
    (tmp_path / "a.jsonl").write_text('{"text": "吾輩は猫である。"}\n')
    with pytest.raises(ConfigError, match="the directory has files of several formats") as refused:
        local_inputs([str(tmp_path)])
    assert f"({other})" in refused.value.what and "jsonl (a.jsonl)" in refused.value.what
    assert refused.value.fix.endswith(f"--input '{tmp_path}/**/*.jsonl'")


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_file_without_records_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ConfigError, match="the file is empty"):
        local_inputs([str(tmp_path / name)])


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", ";")])
def test_a_table_with_another_separator_names_it(name: str, separator: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"id{separator}text\n1{separator}一\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="one column found") as refused:
        local_inputs([str(tmp_path / name)])
    written = separator.replace("\t", "\\t")
    assert f'reader = {{ use = "csv", separator = "{written}" }}' in refused.value.fix


TEXT = "吾輩は猫である。\r\n\r\n名前はまだ無い。\r\n"


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "iso2022_jp"])
def test_text_in_another_encoding_is_detected_by_the_recipe(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode("utf-8"))
    plain = local_inputs([str(path)])
    assert plain.reader == {"use": "text", "documents": "blank_line"}
    path.write_bytes(TEXT.encode(encoding))
    found = local_inputs([str(path)])
    assert found.reader == {"use": "text", "documents": "blank_line", "encoding": "detect"}
    assert (found.size, found.documents, found.alphabet) == (plain.size, 2, plain.alphabet)


def test_many_files_in_utf16_are_documents_and_one_is_refused(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_bytes(TEXT.encode("utf-16"))
    assert local_inputs([str(tmp_path)]).reader == {"use": "text", "documents": "file", "encoding": "detect"}
    with pytest.raises(ConfigError, match=r"in utf-16(?s:.*)iconv -f utf-16 -t utf-8"):
        local_inputs([str(tmp_path / "0.txt")])


@pytest.mark.parametrize(("kind", "separator"), [("csv", ","), ("tsv", "\t")])
@pytest.mark.parametrize("encoding", ["cp932", "euc_jp"])
def test_tables_in_another_encoding_name_it(kind: str, separator: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes((f"番号{separator}本文\n" + f"1{separator}吾輩は猫である。\n" * 9).encode(encoding))
    named = {"euc_jp": "cp51932"}.get(encoding, encoding)  # other characters may come later
    assert local_inputs([str(path)]).reader == {"use": kind, "text": "本文", "encoding": named}


@pytest.mark.parametrize(
    ("name", "encoding", "iconv"),
    [
        ("a.csv", "utf-16", "utf-16"),
        ("a.csv", "iso2022_jp", "iso-2022-jp"),
        ("a.jsonl", "cp932", "cp932"),
        ("a.jsonl", "utf-16", "utf-16"),
    ],
)
def test_encodings_that_a_reader_does_not_read_are_refused(
    name: str, encoding: str, iconv: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    rows = '{"text": "吾輩は猫である。"}\n' if name == "a.jsonl" else "text\n吾輩は猫である。\n"
    path.write_bytes((rows * 3).encode(encoding))
    with pytest.raises(ConfigError, match=f"the file is in {iconv}, which the reader") as refused:
        local_inputs([str(path)])
    assert refused.value.fix == f"convert it (iconv -f {iconv} -t utf-8)"


def test_the_encoding_of_other_files_than_the_first_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "b.txt").write_bytes(TEXT.encode("cp932"))
    assert local_inputs([str(tmp_path)]).reader == {"use": "text", "documents": "blank_line", "encoding": "detect"}


def test_an_empty_first_file_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.txt").write_bytes((TEXT * 9).encode("cp932"))
    found = local_inputs([str(tmp_path)])
    assert found.reader == {"use": "text", "documents": "blank_line", "encoding": "detect"}
    assert found.size and found.documents > 9


def test_a_file_in_utf16_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT.encode("cp932"))
    (tmp_path / "b.txt").write_bytes(TEXT.encode("utf-16"))
    with pytest.raises(ConfigError, match=r"in utf-16(?s:.*)b\.txt"):
        local_inputs([str(tmp_path)])


def test_tables_of_one_encoding_and_ascii_are_read_and_several_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text\nASCII\n")
    (tmp_path / "b.csv").write_bytes("text\n吾輩は猫である。\n".encode("cp932"))
    assert local_inputs([str(tmp_path)]).reader == {"use": "csv", "text": "text", "encoding": "cp932"}
    (tmp_path / "c.csv").write_text("text\n吾輩は猫である。\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"several encodings: \S*b\.csv is in cp932, \S*c\.csv is in utf-8"
    ) as refused:
        local_inputs([str(tmp_path)])
    assert f"iconv -f cp932 -t utf-8 {tmp_path / 'b.csv'}" in refused.value.fix


@pytest.mark.parametrize(
    ("pattern", "fix"),
    [
        ("b.jsonl", "--jsonl b.jsonl"),
        ("*.jsonl", "--jsonl '*.jsonl'"),
        ("s3://bucket/a.tsv.gz", "--tsv s3://bucket/a.tsv.gz"),
        ("a.html", 'reader = "html"'),
        ("c.xlsx", "save it as CSV (UTF-8)"),
    ],
)
def test_inputs_given_as_text_name_the_option_of_their_format(
    pattern: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.jsonl", "a.html", "c.xlsx"):
        Path(name).touch()
    refuse_as_text(["a.txt", "absent.txt", "absent/*.csv.zst", "-", ".", "*"])
    with pytest.raises(ConfigError, match="not plain text") as refused:
        refuse_as_text(["a.txt", pattern])
    assert fix in refused.value.fix


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "csv"])
def test_characters_of_many_small_files_are_counted(suffix: str, tmp_path: Path) -> None:
    def alphabet(files: int) -> int:
        texts = ["".join(map(chr, range(0x4E00 + start, 0x4E00 + start + 10))) for start in range(0, 2000, 10)]
        wrapped = {"txt": "{}\n", "jsonl": '{{"text": "{}"}}\n', "csv": "text\n{}\n"}[suffix]
        folder = tmp_path / str(files)
        folder.mkdir()
        for number, text in enumerate(texts[:files]):
            (folder / f"{number:03}.{suffix}").write_text(wrapped.format(text), encoding="utf-8")
        return local_inputs([str(folder / "*")]).alphabet

    assert alphabet(200) > 1900 > alphabet(1)
