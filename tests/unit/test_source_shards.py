"""`corpus.sources.N.shards`: a source that is read from its beginning, and no further."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from jprep import Corpus
from jprep.corpus.config import Recipe, decode_recipe
from jprep.errors import ConfigError, MismatchError

SHARD = 0.01  # megabytes


def recipe(paths: list[Path], shards: int, **reader: Any) -> Recipe:
    source = {"name": "lines", "paths": [str(path) for path in paths], "shards": shards}
    source["reader"] = {"use": "text", "documents": "line", "shard_mb": SHARD} | reader
    corpus = {"sources": [source], "segmenter": "none", "filters": [], "dedup": {"documents": False}}
    return decode_recipe({"name": "cut", "corpus": corpus})


def written(path: Path, lines: int = 60_000) -> Path:
    """Some two megabytes, a document a line."""
    text = "".join(f"これは{number}番目の文である。\n" for number in range(lines)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_it_reads_the_beginning_only(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name)
    whole = [document.id for document in Corpus.build(recipe([path], 0, shard_mb=1.0), tmp_path / "whole")]
    cut = [document.id for document in Corpus.build(recipe([path], 1, shard_mb=1.0), tmp_path / "cut")]
    assert cut == whole[: len(cut)]
    assert 0 < len(cut) < len(whole)


def test_the_manifest_says_how_much_was_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt")
    manifest = Corpus.build(recipe([path], 1, shard_mb=1.0), tmp_path / "cut").manifest
    assert manifest.sources[0]["shards"] == 1
    assert manifest.counts["source.lines.bytes_read"] == 1_000_000 < manifest.sources[0]["files"][0]["size"]
    assert "shards" not in Corpus.build(recipe([path], 0), tmp_path / "whole").manifest.sources[0]


def test_small_files_count_together_as_one(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{number}.txt", 10) for number in range(30)]
    assert len(Corpus.build(recipe(paths, 1, documents="file"), tmp_path / "corpus")) == 30


def test_more_shards_than_there_are_read_all(tmp_path: Path) -> None:
    assert len(Corpus.build(recipe([written(tmp_path / "a.txt", 100)], 9), tmp_path / "corpus")) == 100


def test_another_number_of_shards_is_another_corpus(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", 100)
    Corpus.build(recipe([path], 1), tmp_path / "corpus")
    with pytest.raises(MismatchError, match="shards"):
        Corpus.build(recipe([path], 2), tmp_path / "corpus")


def test_fewer_than_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shards"):
        recipe([tmp_path], -1)
