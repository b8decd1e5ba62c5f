"""Excel files in place of text are named as such, with what to do."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.document import Reject
from jprep.corpus.readers.delimited import CsvReader, TsvReader
from jprep.corpus.readers.lines import JsonlReader, TextReader
from jprep.dataset.labelled.reader import LabelledConfig, read_labelled_rows
from jprep.errors import ConfigError, InputError
from jprep.pipeline.starter.inputs import local_inputs
from tests.unit.corpus.test_readers_lines import made, put, read

OLD = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504)
FIX = "save it as CSV (UTF-8), and give that file"


def archive(*names: str) -> bytes:
    """An archive in which no line feed stands before the bytes that are not UTF-8."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.writestr(name, f"<?xml version='1.0'?>{name * 9}")
    return packed.getvalue()


XLSX = archive("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml", "xl/worksheets/sheet1.xml")


@pytest.mark.parametrize("data", [XLSX, OLD], ids=["xlsx", "xls"])
@pytest.mark.parametrize("reader", [CsvReader, TsvReader, TextReader, JsonlReader])
def test_readers_of_text_refuse_them(reader: Any, data: bytes, tmp_path: Path) -> None:
    path = put(tmp_path, data, "a.txt")
    with pytest.raises(InputError, match="this is an Excel file, not") as refused:
        read(reader(), path)
    assert refused.value.fix == FIX and "max_bad" not in str(refused.value)


def test_text_files_beside_one_are_read_if_bad_files_are_allowed(tmp_path: Path) -> None:
    (item,) = read(made(TextReader, max_bad=1.0), put(tmp_path, XLSX, "a.xlsx"))
    assert isinstance(item, Reject) and item.reason == "invalid_utf8"


def test_other_archives_are_not_taken_for_one(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(TextReader(), put(tmp_path, archive("word/document.xml"), "a.docx"))
    assert "Excel" not in str(refused.value)


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx", "a.txt", "a.jsonl"])
def test_starter_recipes_refuse_them(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, XLSX, name)
    with pytest.raises((ConfigError, InputError), match=r"Excel|spreadsheets") as refused:
        local_inputs([path])
    assert refused.value.fix == FIX


@pytest.mark.parametrize("name", ["a.xlsx", "a.XLS"])
def test_labelled_rows_refuse_them(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown format of labelled data") as refused:
        list(read_labelled_rows(Path(put(tmp_path, XLSX, name)), LabelledConfig(), "classify"))
    assert refused.value.fix == FIX
