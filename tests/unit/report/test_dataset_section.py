"""The section about a dataset: sizes, shares, rows with their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jprep.dataset.manifest import LeftOut, ShardRange, read_dataset
from jprep.dataset.mix import MixConfig
from jprep.dataset.mix_parts import MixPart
from jprep.errors import DamagedError
from jprep.report.build import build_report
from jprep.report.datasets.figures import dataset_figures
from jprep.tokenizer import load_tokenizer
from tests.fakes.parts_dataset import divide
from tests.fakes.small_dataset import lay_out
from tests.unit.report.pages import HOSTILE, SHOWN, page_of
from tests.unit.tokenizer.vocabularies import finished, small

SENTENCES = [["日本語です", "東京"], ["です"]]


def packed(folder: Path, **changes: Any) -> Path:
    """Write a tokenizer, and a dataset of three documents of two sources."""
    tokenizer = load_tokenizer(finished(folder / "tokenizer", small("unigram", special=["roberta"])))
    ids = [[tokenizer.encode(sentence) for sentence in paragraph] for paragraph in SENTENCES]
    shards = [
        ShardRange(f"documents/000{number}-{name}-000000.parquet", "a" * 64, {"train": spans[0]}, {"train": spans[1]})
        for number, (name, spans) in enumerate({"wiki": ((0, 1), (0, 7)), "web": ((1, 2), (7, 14))}.items())
    ]
    sources = [
        {
            "name": HOSTILE,
            "licence": "CC0",
            "homepage": "",
            "files": [{"name": HOSTILE, "size": 5, "sha256": "b" * 64}],
        },
        {"name": "web", "licence": "", "homepage": "", "files": []},
    ]
    made_from = {"tokenizer": {"fingerprint": ""}, "corpus": {"fingerprint": "none"}, "config": {"validation": 0.1}}
    fields = {"made_from": made_from, "vocab_size": tokenizer.vocab_size, "parts": shards, "sources": sources}
    counts = {"train.bytes": 66, "train.words": 8, "train.sentences": 6}
    end = tokenizer.eos
    return lay_out(
        folder / "dataset",
        {"train": [ids, ids], "validation": [ids]},
        **fields | {"counts": counts, "end": end} | changes,
    )


def test_figures_of_a_dataset(tmp_path: Path) -> None:
    folder = packed(tmp_path)
    found = dataset_figures(folder, read_dataset(folder))
    train, validation = found.splits
    assert train.tokens == 2 * validation.tokens and train.counted == train.tokens
    assert train.special["</s> (end of a document)"] == 2 / train.tokens
    assert found.lengths is not None and sum(found.lengths.counts) == 3
    assert list(found.by_source.values()) == [7, 7]
    assert train.disk_bytes == sum(path.stat().st_size for path in folder.glob("train.*"))


def test_rows_decode_to_the_documents_with_their_marks(tmp_path: Path) -> None:
    folder = packed(tmp_path)
    rows = dataset_figures(folder, read_dataset(folder)).rows
    assert [(row.split, row.document) for row in rows] == [("train", 0), ("train", 1), ("validation", 0)]
    for row in rows:
        assert "".join(token.text for token in row.tokens[:-1]).replace("\n", "") == "日本語です東京です"
        assert sum(token.sentence for token in row.tokens) == 3 and row.tokens[-1].special and not row.left_out


def test_a_page_about_a_dataset_is_escaped(tmp_path: Path) -> None:
    page = page_of([packed(tmp_path)])
    assert SHOWN in page and "日本語" in page


def test_parts_of_a_mixture_are_listed(tmp_path: Path) -> None:
    mix = MixConfig(weights={"top": 1}, parts=[MixPart(name="top")])
    folder = divide(packed(tmp_path), mix, {"top": 2}, left_out=[LeftOut("web", 1234, 5)])
    page = page_of([folder])
    assert "Parts of the mixture in the training split" in page and "in no part, of web" in page and "1,234" in page
    [section] = build_report([folder]).sections
    assert section.figures["left_out"] == [{"source": "web", "documents": 1234, "bytes": 5}]
    assert section.figures["mix_parts"][0]["documents"] == 2
    assert "mix_parts" not in build_report([packed(tmp_path / "plain")]).sections[0].figures


def test_a_dataset_without_its_tokenizer_or_documents(tmp_path: Path) -> None:
    made_from = {"tokenizer": {"fingerprint": "lost"}, "corpus": {"fingerprint": "lost"}}
    page = page_of([packed(tmp_path, made_from=made_from)])
    assert "No rows can be shown" in page and "not found nearby" in page
    empty = lay_out(tmp_path / "empty", {"train": []}, made_from=made_from)
    assert "There are no documents." in page_of([empty])


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    folder = packed(tmp_path)
    (folder / "train.bin").write_bytes(b"\0" * (folder / "train.bin").stat().st_size)
    with pytest.raises(DamagedError):
        build_report([folder])
