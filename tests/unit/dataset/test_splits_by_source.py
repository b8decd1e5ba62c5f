"""Splits that consist of whole sources, and a test split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jprep.dataset.manifest import TEST, TRAIN, VALIDATION, read_dataset
from jprep.dataset.preprocessing.split_assignment import SplitAssignment, split_of_key
from jprep.dataset.sampling.sources import source_ranges
from jprep.errors import ConfigError
from tests.conftest import Run
from tests.fakes.config_sections import dataset_config

RECIPE = """
name = "legal"
[corpus]
normalizers = []
segmenter = "pointwise"
dedup = { documents = false, lines = false }
[[corpus.sources]]
name = "train"
reader = "jsonl"
paths = ["train.jsonl"]
[[corpus.sources]]
name = "dev"
reader = "jsonl"
paths = ["dev.jsonl"]
[[corpus.sources]]
name = "test"
reader = "jsonl"
paths = ["test.jsonl"]
[tokenizer]
model = "bpe"
vocab_size = 340
[dataset]
validation = ["dev"]
test = ["test"]
"""
TEXTS = {
    "train": [f"これは第{number}条の文章です。東京都の規則を定めるものとする。" for number in range(60)],
    "dev": ["検証のための文章である。"] * 3,
    "test": ["龘は試験にだけ出る文字である。"] * 5,
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    folder = tmp_path_factory.mktemp("splits")
    (folder / "legal.toml").write_text(RECIPE, encoding="utf-8")
    for name, lines in TEXTS.items():
        rows = "".join(json.dumps({"text": line}) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(rows, encoding="utf-8")
    for command in (("corpus", "build"), ("tokenizer", "train"), ("dataset", "pack")):
        jprep(*command, "legal.toml", cwd=folder)
    return folder / "work" / "legal"


def test_a_split_consists_of_its_sources(work: Path) -> None:
    dataset = read_dataset(work / "dataset")
    documents = {split.name: split.documents for split in dataset.splits}
    assert documents == {
        name: len(TEXTS[source]) for name, source in ((TRAIN, "train"), (VALIDATION, "dev"), (TEST, "test"))
    }
    assert dataset.made_from["config"] == {"validation": ["dev"], "test": ["test"]}
    assert "validation:dev|test:test" in dataset.signature


def test_the_tokenizer_is_trained_on_the_training_sources_only(work: Path) -> None:
    card = json.loads((work / "tokenizer" / "card.json").read_bytes())
    assert card["made_from"]["material"]["held_out"] == ["dev", "test"]
    assert [source["name"] for source in card["sources"]] == ["train"]
    pieces = json.loads((work / "tokenizer" / "tokenizer.json").read_bytes())["model"]["vocab"]
    assert "規" in pieces and "龘" not in pieces and "検" not in pieces


def test_the_test_split_is_inspected_and_exported(work: Path, jprep: Run, tmp_path: Path) -> None:
    shown = jprep("dataset", "inspect", work / "dataset", "--split", "test", "--document", 0).stdout
    assert "document  0 of test" in shown and "試験にだけ" in shown
    jprep("dataset", "export", work / "dataset", "--format", "fairseq", "-o", tmp_path / "data-bin")
    assert {path.stem for path in (tmp_path / "data-bin").glob("*.bin")} == {"train", "valid", "test"}


def test_a_mixture_is_not_part_of_the_packed_files(work: Path, jprep: Run) -> None:
    """Sources that are held out need not be named; packing again finds the finished dataset."""
    dataset, folder = read_dataset(work / "dataset"), work.parents[1]
    tokens = dataset.splits[0].tokens
    assert [tuple(one) for one in source_ranges(dataset, TRAIN)] == [
        ("train", 0, tokens), ("dev", tokens, tokens), ("test", tokens, tokens)
    ]  # fmt: skip
    again = jprep("dataset", "pack", "legal.toml", "--set", "dataset.mix.repeats.train=3", cwd=folder)
    assert dataset.signature in again.stdout and read_dataset(work / "dataset") == dataset
    other = jprep("dataset", "pack", "legal.toml", "--set", "dataset.mix.weights.tran=3", cwd=folder, code=2).stderr
    assert "names the source 'tran', which does not exist" in other and "train, dev, test" in other


def test_an_unknown_source_is_named(work: Path, jprep: Run) -> None:
    folder = work.parents[1]
    said = jprep(
        "dataset", "pack", "legal.toml", "--set", 'dataset.test=["tset"]', "-o", "x", cwd=folder, code=2
    ).stderr
    assert "no source 'tset'" in said and "train, dev, test" in said


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"validation": 1.0}, "must be a share"), ({"test": -0.1}, "must be a share"),
        ({"validation": 0.5, "test": 0.5}, "nothing to train on"),
        ({"validation": ["a"], "test": ["b", "a"]}, "named twice"),
    ],
)  # fmt: skip
def test_impossible_splits_are_refused(section: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        dataset_config(section, "here")


def test_a_test_share_leaves_the_validation_split_unchanged() -> None:
    keys = [f"jawiki:{number}" for number in range(4000)]
    both, alone = ([split_of_key(key, 0.1, share) for key in keys] for share in (0.2, 0.0))
    assert [one == VALIDATION for one in both] == [one == VALIDATION for one in alone]
    assert abs(both.count(TEST) / len(keys) - 0.2) < 0.03 and TEST not in alone


def test_sources_and_shares_are_combined() -> None:
    mixed = SplitAssignment(0.5, ["late"], by_text=["web"])
    assert mixed.columns == ["id", "source", "text"] and mixed.split_by("1", "late") == TEST
    assert {mixed.split_by(str(number), "early") for number in range(50)} == {TRAIN, VALIDATION}
    assert SplitAssignment(0.5).columns == ["id"] and SplitAssignment(["a"]).columns == ["id", "source"]
