"""Fields that a recipe names must exist, in the readers `jsonl` and `json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.readers.json_records import JsonReader
from jprep.corpus.readers.lines import JsonlReader
from jprep.errors import ConfigError
from tests.unit.corpus.test_readers_lines import made, put, read

RECORD = {"text": "本文", "title": "題", "key": 1, "page": {"url": "u"}}


def file_of(kind: Any, records: list[Any], folder: Path) -> str:
    lines = kind is JsonlReader
    return put(folder, "\n".join(map(json.dumps, records)) if lines else json.dumps(records), f"a.{kind.name}")


@pytest.mark.parametrize("kind", [JsonlReader, JsonReader])
@pytest.mark.parametrize(
    ("option", "value", "fix"),
    [
        ("text", "body", "`text = ...`: available: key, page, page.url, text, title"),
        ("title", "titel", "`title = ...`: did you mean 'title'?"),
        ("id", "keys", "`id = ...`: did you mean 'key'?"),
        ("url", "page.ur", "`url = ...`: did you mean 'page.url'?"),
        ("meta", ("title", "Title"), "`meta = ...`: did you mean 'title'?"),
    ],
)
def test_a_field_that_no_record_has_is_refused(kind: Any, option: str, value: Any, fix: str, tmp_path: Path) -> None:
    path = file_of(kind, [RECORD] * 100, tmp_path)
    with pytest.raises(ConfigError, match="no object has the field") as refused:
        read(made(kind, **{option: value}), path)
    assert refused.value.fix == fix and "a.json" in refused.value.where


@pytest.mark.parametrize("kind", [JsonlReader, JsonReader])
def test_fields_that_are_rare_or_not_named_are_no_error(kind: Any, tmp_path: Path) -> None:
    path = file_of(kind, [{"text": "一"}, {"text": "二", "note": "n"}], tmp_path)
    assert len(read(made(kind), path)) == 2
    assert [doc.meta for doc in read(made(kind, meta=("note",)), path)] == [{}, {"note": "n"}]
    assert [doc.title for doc in read(made(kind, title="head"), path)] == ["", ""]
