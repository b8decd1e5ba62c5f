"""Test sets in the layouts in which they are published: nested JSON, tables without a header, arrays, compression."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from jprep.corpus.config import DecontaminateConfig
from jprep.corpus.decontamination.test_sets import read_test_sets
from jprep.corpus.input_files import find_inputs
from jprep.corpus.readers.json_records import JsonReader
from jprep.errors import ConfigError, InputError, JprepError
from jprep.testing.conformance.reader import ReaderSuite

ONE, TWO = "川の水が春に増えるのはなぜですか。", "町で一番古い橋の名前は何ですか。"
CHOICES = ["雪が解けるから", "魚が増えるから"]


def read(path: Path, fields: list[str], **keys: Any) -> list[tuple[tuple[str, ...], str]]:
    config = DecontaminateConfig("quiz", [str(path)], fields, **keys)
    [items] = read_test_sets([config], [find_inputs(config, path.parent / "inputs.json")])
    return [(item.parts, item.reject) for item in items]


def written(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def test_tables_without_a_header(tmp_path: Path) -> None:
    row = f'"{ONE}",{CHOICES[0]},"魚が増える,か",A\r\n'
    table = written(tmp_path / "t.csv", "\ufeff" + row)
    reader = {"use": "csv", "header": False}
    assert read(table, ["0", "1", "2"], reader=reader) == [((ONE, CHOICES[0], "魚が増える,か"), "")]
    numbers = written(tmp_path / "mgsm.tsv", f"{ONE}\t18\n{TWO}\t3\n")
    assert read(numbers, ["0"], reader={"use": "tsv", "header": False}) == [((ONE,), ""), ((TWO,), "")]
    named = written(tmp_path / "h.tsv.gz", gzip.compress(f"q.text\tanswer\n{ONE}\t雪\n".encode()))
    assert read(named, ["q.text", "answer"]) == [((ONE, "雪"), "")]


def test_nested_fields(tmp_path: Path) -> None:
    rows = [
        {"q": {"stem": ONE}, "choices": {"text": CHOICES, "label": ["A", "B"]}},
        {"q": {"stem": TWO}, "choices": [{"text": each, "label": "C"} for each in CHOICES]},
    ]
    data = lines(*rows).encode()
    for path in (
        written(tmp_path / "a.jsonl", b"\xef\xbb\xbf" + data),
        written(tmp_path / "b.jsonl.zst", zstandard.compress(data)),
    ):
        assert read(path, ["q.stem", "choices.text"]) == [((ONE, *CHOICES), ""), ((TWO, *CHOICES), "")]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_arrays_and_objects_with_samples(tmp_path: Path, name: str) -> None:
    samples = [{"input": ONE, "output": "雪"}, {"input": None}, {"input": TWO, "output": 3}]
    expected = [((ONE, "雪"), ""), ((), "no_text"), ((TWO, "3"), "")]
    packed = gzip.compress if name.endswith("gz") else bytes
    for value in (samples, {"instruction": "答えよ", "tags": ["a"], "samples": samples}):
        path = written(tmp_path / name, packed(b"\xef\xbb\xbf" + json.dumps(value).encode()))
        assert read(path, ["input", "output"]) == expected
    path = written(tmp_path / name, packed(json.dumps({"few_shots": samples, "test": {"items": samples}}).encode()))
    assert read(path, ["input", "output"], reader={"use": "json", "records": "test.items"}) == expected


@pytest.mark.parametrize(
    ("data", "keys", "kind", "what", "fix"),
    [
        ("{}\n", {}, ConfigError, "expected an array of objects", "records"),
        (json.dumps({"a": [{}], "b": [{}]}), {}, ConfigError, "found: a, b", "records"),
        (json.dumps({"a": [{}]}), {"reader": {"use": "json", "records": "b"}}, ConfigError, "no array 'b'", "a"),
        (json.dumps([{"input": ONE}]), {}, ConfigError, "no object has the field 'question'", "input"),
        (json.dumps([{"question": ONE}, 3]), {}, InputError, "the record is not an object", "max_bad"),
        (lines({"question": ONE}, {}), {}, InputError, "not JSON", "jsonl"),
        ("[" * 100_000, {}, InputError, "not JSON", "jsonl"),
        (b"\x82\xa0", {}, InputError, "not JSON", "UTF-8"),
    ],
)
def test_json_that_is_no_test_set(
    tmp_path: Path, data: str | bytes, keys: dict[str, Any], kind: type[JprepError], what: str, fix: str
) -> None:
    with pytest.raises(kind, match=what) as error:
        read(written(tmp_path / "t.json", data), ["question"], **keys)
    assert fix in error.value.fix and "t.json" in error.value.where


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_an_absent_field_is_an_error_that_names_the_others(tmp_path: Path, name: str) -> None:
    rows = [{"question": ONE, "answer": None, "options": {"a": "雪"}}]
    path = written(tmp_path / name, lines(*rows) if name == "t.jsonl" else json.dumps(rows))
    assert read(path, ["question", "answer"]) == [((ONE,), "")]
    with pytest.raises(ConfigError, match="no item has the field 'answr'") as error:
        read(path, ["question", "answr"])
    assert "answer" in error.value.fix
    with pytest.raises(ConfigError, match=r"choices\.text"):
        read(path, ["question", "choices.text"])


class TestJson(ReaderSuite):
    step = JsonReader
    options = {"text": "input", "meta": ("output",)}
    texts = (ONE, TWO)
    rejects = ("no_text",)

    def write(self, folder: Path) -> str:
        samples = [{"input": ONE, "output": "雪"}, {"output": "橋"}, {"input": TWO}]
        return str(written(folder / "sample.json", json.dumps({"samples": samples}, ensure_ascii=False)))


def test_a_damaged_file_of_a_zip_is_rejected_as_max_bad_allows(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.json", json.dumps([{"text": ONE}], ensure_ascii=False))
        archive.writestr("cut.json", '[{"text": "')

    def items(**options: Any) -> list[Any]:
        reader = JsonReader(JsonReader.Config(**options))
        return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]

    good, cut = items(max_bad=0.5)
    assert (good.text, cut.reason, cut.excerpt) == (ONE, "malformed_json", '[{"text": "')
    with pytest.raises(InputError, match="not JSON"):
        items()
