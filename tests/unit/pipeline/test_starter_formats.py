"""Input files of starter recipes that are not plain text in UTF-8: other formats, and other encodings."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest

from jprep.errors import ConfigError
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
    (tmp_path / "sub" / "a.txt.bz2").write_bytes(bz2.compress("一。\n".encode()))
    assert local_inputs([str(tmp_path)]).paths == (f"{tmp_path}/**/*.txt.bz2",)
