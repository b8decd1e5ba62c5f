"""Exports contain exactly the dataset's tokens. They are read here without jprep's code."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from jprep.cli.main import cli
from jprep.dataset.exports import export_dataset, fairseq, read_export_manifest, row_reader
from jprep.dataset.exports.base import ExportOptions
from jprep.dataset.manifest import read_dataset
from jprep.errors import ConfigError, MismatchError
from tests.conftest import digests
from tests.fakes.small_dataset import SPLITS, VOCAB, Document, as_lines, flat, lay_out, shards, tokenizer

IDS = st.integers(260, VOCAB - 2)
SENTENCES = st.lists(IDS, min_size=1, max_size=6)
DOCUMENTS = st.lists(st.lists(st.lists(SENTENCES, max_size=3), min_size=1, max_size=4), min_size=1, max_size=6)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    tokenizer(tmp_path / "tokenizer")
    return lay_out(tmp_path / "dataset", SPLITS)


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """Skip fsync: power failures are not tested here, and waiting for the disk would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def small_blocks(patch: pytest.MonkeyPatch, tokens: int = 50) -> None:
    patch.setattr(row_reader, "BLOCK", tokens)
    patch.setattr(fairseq, "BLOCK", 3)


# fairseq


def read_mmap(prefix: Path) -> list[list[int]]:
    """Read fairseq's memory-mapped indexed dataset."""
    index, data = prefix.with_suffix(".idx").read_bytes(), prefix.with_suffix(".bin").read_bytes()
    magic, version, code, count = struct.unpack_from("<9sQBQ", index)
    assert (magic, version) == (b"MMIDIDX\0\0", 1) and len(index) == 26 + 12 * count
    letter = {4: "i", 8: "H"}[code]
    sizes = struct.unpack_from(f"<{count}i", index, 26)
    pointers = struct.unpack_from(f"<{count}q", index, 26 + 4 * count)
    assert sum(sizes) * struct.calcsize(letter) == len(data)
    return [
        list(struct.unpack_from(f"<{size}{letter}", data, place)) for size, place in zip(sizes, pointers, strict=True)
    ]


@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_fairseq_export_contains_documents_and_ids(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    tokenizer(tmp_path / "tokenizer")
    dataset, out = lay_out(tmp_path / "dataset", SPLITS, dtype=dtype), tmp_path / "out"
    export_dataset(dataset, None, "fairseq", out)
    assert read_mmap(out / "train") == [flat(document) for document in SPLITS["train"]]
    assert read_mmap(out / "valid") == [flat(document) for document in SPLITS["validation"]]
    assert out.joinpath("train.bin").read_bytes() == dataset.joinpath("train.bin").read_bytes()
    lines = out.joinpath("dict.txt").read_text().splitlines()
    assert [lines[0], lines[-1], len(lines)] == ["piece4 1", f"piece{VOCAB - 2} 1", VOCAB - 5]  # <mask> is fairseq's


@given(documents=DOCUMENTS, unit=st.sampled_from(["paragraph", "sentence"]), block=st.integers(1, 40))
def test_fairseq_units_match_its_preprocessing_of_lines(
    documents: list[Document], unit: Any, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.getbasetemp() / "units"
    if not base.exists():
        tokenizer(base / "tokenizer")
    dataset = lay_out(base / "dataset", {"train": documents})
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, block)
        export_dataset(dataset, None, "fairseq", base / "out", ExportOptions(unit=unit))
    assert read_mmap(base / "out" / "train") == as_lines(documents, unit)


@given(sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=50), longest=st.integers(3, 700))
def test_long_sequences_are_split_into_the_fewest_parts(sizes: list[int], longest: int) -> None:
    cut = fairseq.split_long(np.array(sizes, np.int64), longest).tolist()
    assert len(cut) == sum(-(-size // longest) for size in sizes) and max(cut) <= longest
    assert set(accumulate(sizes)) <= set(accumulate(cut)), "a sequence's end is an end still"
    assert cut.count(1) == sizes.count(1), "no part looks like a blank line"


def test_fairseq_export_rejects_datasets_that_it_would_misread(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = tokenizer(tmp_path / "other", fingerprint="others")
    with pytest.raises(ConfigError, match="packed with another tokenizer"):
        export_dataset(dataset, other, "fairseq", out)
    with pytest.raises(ConfigError, match="<s> <pad> </s> <unk>") as refused:
        export_dataset(dataset, tokenizer(tmp_path / "bert", "bert"), "fairseq", out)
    assert "roberta" in refused.value.fix
    with pytest.raises(ConfigError, match="at least 3"):
        export_dataset(dataset, None, "fairseq", out, ExportOptions(length=2))
    spaced = lay_out(tmp_path / "spaced", SPLITS, newline=-1)
    with pytest.raises(ConfigError, match="no token at the end of paragraphs"):
        export_dataset(spaced, None, "fairseq", out, ExportOptions(unit="paragraph"))
    assert not out.exists()
    export_dataset(spaced, None, "fairseq", out)


# Arrow


def read_arrow(folder: Path) -> list[list[int]]:
    """Read the files that `state.json` lists, in order."""
    names = [file["filename"] for file in json.loads(folder.joinpath("state.json").read_text())["_data_files"]]
    assert names == [path.name for path in shards(folder, "*.arrow")]
    tables = [pa.ipc.open_stream(folder.joinpath(name).read_bytes()).read_all() for name in names]
    return [ids for table in tables for ids in table["input_ids"].to_pylist()]


@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_arrow_export_contains_documents(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    out = tmp_path / "out"
    export_dataset(lay_out(tmp_path / "dataset", SPLITS, dtype=dtype), None, "arrow", out)
    assert json.loads(out.joinpath("dataset_dict.json").read_text()) == {"splits": list(SPLITS)}
    for split, documents in SPLITS.items():
        assert read_arrow(out / split) == [flat(document) for document in documents]
    schema = pa.ipc.open_stream(next(out.glob("train/*.arrow")).read_bytes()).schema
    assert schema.field("input_ids").type == pa.list_(pa.type_for_alias(dtype))
    export_dataset(tmp_path / "dataset", None, "arrow", out, ExportOptions(length=7))
    stream = list(chain.from_iterable(map(flat, SPLITS["train"])))
    assert read_arrow(out / "train") == [stream[at : at + 7] for at in range(0, len(stream) - 6, 7)]


# All of them


@pytest.mark.parametrize(
    ("form", "one"),
    [
        ("fairseq", "train.bin"),
        ("tfrecord", "train-00001-of-00002.tfrecord"),
        ("arrow", "train/data-00001-of-00002.arrow"),
    ],
)
def test_export_over_an_earlier_one_gives_the_same_bytes(
    form: str, one: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(row_reader.RowReader, "shards", lambda self, tokens: [(n, n + 1) for n in range(len(self))])
        export_dataset(dataset, None, form, out, ExportOptions(length=9))
    out.joinpath("mine.txt").write_text("stays")
    (out / f"{one}.tmp-1").write_text("half a file of a killed run")
    (out / "another.bin.tmp-1").write_text("stays too: it is of something else at work")
    export_dataset(dataset, None, form, out)
    export_dataset(dataset, None, form, tmp_path / "fresh")
    left = digests(out)
    assert left.pop("mine.txt") and left.pop("another.bin.tmp-1")
    assert left == digests(tmp_path / "fresh")
    about = read_export_manifest(out)
    files = {file.path: file.sha256 for split in about.splits for file in split.files}
    files |= {file.path: file.sha256 for file in about.further}
    assert files == {name: digest for name, digest in left.items() if name not in ("export.json", ".lock")}
    assert about.dataset["fingerprint"] == "0" * 32


@pytest.mark.parametrize("form", ["fairseq", "tfrecord", "arrow"])
def test_split_without_documents_is_left_out(form: str, dataset: Path, tmp_path: Path) -> None:
    lay_out(dataset, {"train": SPLITS["train"], "validation": []})
    export_dataset(dataset, None, form, tmp_path / "out")
    assert [split.name for split in read_export_manifest(tmp_path / "out").splits] == ["train"]
    assert not list(tmp_path.glob("out/*valid*"))


@pytest.mark.parametrize("form", ["tfrecord", "arrow"])
def test_split_shorter_than_a_row_is_reported(form: str, dataset: Path, tmp_path: Path) -> None:
    short = {"validation": [[[[300]]]]}
    lay_out(dataset, {"train": SPLITS["train"]} | short)
    export_dataset(dataset, None, form, tmp_path / "out", ExportOptions(length=16))
    left = read_export_manifest(tmp_path / "out").splits[1]
    assert (left.name, left.rows, left.left_out, left.files) == ("validation", 0, 2, [])
    assert not list(tmp_path.glob("out/validation*"))


def test_directory_with_other_content_is_rejected(dataset: Path, tmp_path: Path) -> None:
    before = digests(dataset)
    with pytest.raises(ConfigError, match=r"found a finished dataset \(dataset.json\)"):
        export_dataset(dataset, None, "fairseq", dataset)
    assert digests(dataset) == before
    export_dataset(dataset, None, "arrow", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"exported as arrow \(finished\)"):
        export_dataset(dataset, None, "tfrecord", tmp_path / "out")


@pytest.mark.parametrize(
    ("form", "options", "what"),
    [
        ("parquet", ExportOptions(), "unknown format 'parquet'"),
        ("tfrecord", ExportOptions(unit="sentence"), "tfrecord has no option unit"),
        ("fairseq", ExportOptions(shard_mb=1), "fairseq has no option shard_mb"),
        ("arrow", ExportOptions(length=0), "length must be at least 1"),
    ],
)
def test_invalid_options_are_rejected(
    form: str, options: ExportOptions, what: str, dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=what):
        export_dataset(dataset, None, form, tmp_path / "out", options)
    assert not (tmp_path / "out").exists()


def test_failed_export_is_unfinished(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_dataset(dataset, None, "tfrecord", out)
    dataset.joinpath("validation.bin").write_bytes(b"")
    with pytest.raises(MismatchError):
        export_dataset(dataset, None, "tfrecord", out)
    with pytest.raises(ConfigError, match="no finished export"):
        read_export_manifest(out)


@pytest.mark.parametrize("spelling", ["--format", "--as"])
def test_the_command(spelling: str, dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = [spelling, "tfrecord", "-o", str(out), "--length", "16"]
    done = CliRunner().invoke(cli, ["dataset", "export", str(dataset), *options], catch_exceptions=False)
    assert done.exit_code == 0
    names = ["train-00000-of-00001.tfrecord", "validation-00000-of-00001.tfrecord", "README.md", "export.json"]
    assert done.stdout.splitlines() == [str(out / name) for name in names]
    assert "do not fill a row" in done.stderr


@pytest.mark.parametrize("form", ["fairseq", "tfrecord", "arrow"])
def test_export_has_a_card_with_its_licences(form: str, dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_dataset(dataset, None, form, out)
    card, about = (out / "README.md").read_text(encoding="utf-8"), read_export_manifest(out)
    assert card.startswith("---\nlanguage: ja\nlicense: ")
    assert about.dataset["fingerprint"] in card
    assert all(f"- {source['name']}" in card for source in read_dataset(dataset).sources)
    assert "README.md" in {file.path for file in about.further}
    assert ("config_name: default" in card) == (form == "arrow")


def test_a_readme_of_the_user_stays(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_dataset(dataset, None, "arrow", out)
    (out / "README.md").write_text("my own text")
    export_dataset(dataset, None, "arrow", out)
    assert (out / "README.md").read_text() == "my own text"
    assert "README.md" not in {file.path for file in read_export_manifest(out).further}
