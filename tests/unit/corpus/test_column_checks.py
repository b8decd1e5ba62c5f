"""Columns and fields that a recipe names are looked for before a build writes anything."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep import Corpus
from jprep.corpus.config import CorpusRecipe, decode_recipe
from jprep.corpus.stages import sources
from jprep.corpus.stages.sources import check_sources
from jprep.errors import ConfigError, InputError

TEXT = "これは日本語の文章であり、十分に長い。"


def write_table(path: Path, column: str) -> None:
    separator = "\t" if path.suffix == ".tsv" else ","
    path.write_text(f"id{separator}{column}\n1{separator}{TEXT}\n", encoding="utf-8")


def write_json_lines(path: Path, column: str) -> None:
    path.write_bytes(gzip.compress(json.dumps({"id": 1, column: TEXT}).encode()))


def write_parquet(path: Path, column: str) -> None:
    pq.write_table(pa.table({"id": [1], column: [TEXT]}), path)


WRITERS: dict[str, Callable[[Path, str], None]] = {
    "csv": write_table,
    "tsv": write_table,
    "jsonl": write_json_lines,
    "parquet": write_parquet,
}


def recipe(*tables: dict[str, Any]) -> CorpusRecipe:
    corpus = {"sources": list(tables), "segmenter": "none", "filters": [], "dedup": {"documents": False}}
    return decode_recipe({"name": "r", "corpus": corpus})


def source(path: Path, name: str = "a", reader: str = "csv", text: str = "text", **keys: Any) -> dict[str, Any]:
    return {"name": name, "paths": [str(path)], "reader": {"use": reader, "text": text}} | keys


@pytest.mark.parametrize("reader", WRITERS)
def test_a_wrong_column_of_any_source_leaves_nothing_behind(reader: str, tmp_path: Path) -> None:
    WRITERS[reader](right := tmp_path / f"right.{reader}", "text")
    WRITERS[reader](wrong := tmp_path / f"wrong.{reader}", "本文")
    first = source(right, reader=reader)
    with pytest.raises(ConfigError, match="'honbun'") as refused:
        Corpus.build(recipe(first, source(wrong, "b", reader, "honbun")), tmp_path / "out")
    assert refused.value.where == str(wrong) and "available: id, 本文" in refused.value.fix
    assert not (tmp_path / "out").exists()
    assert len(Corpus.build(recipe(first, source(wrong, "b", reader, "本文")), tmp_path / "out")) == 2


def test_a_wrong_column_is_named_before_what_the_directory_holds(tmp_path: Path) -> None:
    write_table(path := tmp_path / "a.csv", "text")
    Corpus.build(recipe(source(path)), tmp_path / "out")
    with pytest.raises(ConfigError, match="column 'texts' not found"):
        Corpus.build(recipe(source(path, text="texts")), tmp_path / "out", restart=True)
    assert len(Corpus(tmp_path / "out")) == 1  # nothing was deleted


def test_missing_files_and_pipes_are_left_to_the_build(tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", "本文")
    missing = [str(tmp_path / "no" / "*.csv"), "-", "https://host.invalid/a.csv"]
    check_sources(recipe(source(tmp_path, paths=missing)).corpus.sources)
    with pytest.raises(ConfigError, match="column 'text' not found"):
        check_sources(recipe(source(tmp_path, paths=[*missing, str(tmp_path / "*.csv")])).corpus.sources)


def test_a_limited_number_of_files_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, column in (("1", "text"), ("2", "text"), ("3", "本文")):
        write_table(tmp_path / f"{name}.csv", column)
    paths = [str(tmp_path / "*.csv")]
    check_sources(recipe(source(tmp_path, paths=paths, shards=1)).corpus.sources)
    monkeypatch.setattr(sources, "_CHECKED_FILES", 2)
    check_sources(recipe(source(tmp_path, paths=paths)).corpus.sources)
    monkeypatch.setattr(sources, "_CHECKED_FILES", 3)
    with pytest.raises(ConfigError, match=r"(?s)column 'text' not found.*3\.csv"):
        check_sources(recipe(source(tmp_path, paths=paths)).corpus.sources)


def test_only_the_head_is_read(tmp_path: Path) -> None:
    rows = b"id,text\n" + b"1,a\n" * 1_000_000
    (path := tmp_path / "a.csv.gz").write_bytes(gzip.compress(rows, 0)[:-100_000])
    check_sources(recipe(source(path)).corpus.sources)


def test_damaged_files_are_left_to_the_build(tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_bytes(b'id,"te"xt\n1,a\n')
    check_sources(recipe(source(path)).corpus.sources)
    with pytest.raises(InputError, match="the first line is malformed"):
        Corpus.build(recipe(source(path)), tmp_path / "out")
