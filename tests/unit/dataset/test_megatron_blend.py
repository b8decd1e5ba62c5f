"""The export for Megatron-LM's blended data set: the documents of each source, and the lists."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from jprep.cli.main import cli
from jprep.dataset.exports import export_dataset, read_export_manifest, row_reader
from jprep.dataset.exports.base import ExportOptions
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import read_dataset
from jprep.dataset.mix import MixConfig, MixStage
from jprep.dataset.sampling.sources import source_ranges
from jprep.errors import ConfigError
from tests.conftest import digests
from tests.fakes.config_sections import dataset_config
from tests.fakes.parts_dataset import mixed_parts_dataset
from tests.fakes.small_dataset import VOCAB, lay_out, some
from tests.unit.dataset.test_mixtures import about, mixed_dataset

SHARES = {"top": 3, "rest": 0.5}
SIZES = {"top": 12, "rest": 58}
MIX = {"repeats": SHARES, "parts": [{"name": "top", "where": [{"signal": "x", "min": 0.5}]}, {"name": "rest"}]}
FILES = {"wiki": "train-0000-wiki", "web": "train-0002-web", "books": "train-0003-books"}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return mixed_dataset(tmp_path / "dataset")


def read_megatron(prefix: Path) -> list[list[int]]:
    """Return the documents of an indexed dataset, read with `struct` as Megatron-core's source says."""
    index, data = prefix.with_suffix(".idx").read_bytes(), prefix.with_suffix(".bin").read_bytes()
    magic, version, code, sequences, documents = struct.unpack_from("<9sQBQQ", index)
    assert (magic, version, code, documents) == (b"MMIDIDX\x00\x00", 1, 8, sequences + 1)
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    pointers = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    assert len(index) == 34 + 20 * sequences + 8 and sum(lengths) * 2 == len(data)
    return [list(struct.unpack_from(f"<{n}H", data, at)) for n, at in zip(lengths, pointers, strict=True)]


def lists(folder: Path, name: str = "blend.txt") -> list[list[str]]:
    return [line.split() for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize("block", [50, 1 << 20])
def test_each_source_has_its_documents(
    dataset: Path, tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_reader, "BLOCK", block)
    export_dataset(dataset, None, "megatron-blend", tmp_path / "out")
    found = [read_megatron(tmp_path / "out" / file) for file in FILES.values()]
    assert list(map(len, found)) == [40, 23, 7]
    expected = [document.tolist() for document in IndexedSplit(dataset / "train", "uint16")]
    assert [row for rows in found for row in rows] == expected
    sizes = {one.name: one.stop - one.start for one in source_ranges(read_dataset(dataset), "train")}
    assert lists(tmp_path / "out") == [[f"{float(sizes[name])}", file] for name, file in FILES.items()]


def test_lists_have_the_weights_of_the_mixture(dataset: Path, tmp_path: Path) -> None:
    stages = [MixStage(until_step=9, weights={"wiki": 0, "web": 1, "books": 0.5})]
    mix = MixConfig(repeats={"wiki": 2, "web": 0, "books": 0.25}, stages=stages)
    out = tmp_path / "out"
    export_dataset(dataset, None, "megatron-blend", out, ExportOptions(mix=mix, prefix="/data/"))
    sizes = {one.name: one.stop - one.start for one in source_ranges(read_dataset(dataset), "train")}
    last = [[repr(2.0 * sizes["wiki"]), "/data/train-0000-wiki"], [repr(sizes["books"] / 4), "/data/train-0003-books"]]
    assert [[float(weight), place] for weight, place in lists(out)] == [[float(a), b] for a, b in last]
    assert lists(out, "blend-stage-0.txt") == [["1.0", "/data/train-0002-web"], ["0.5", "/data/train-0003-books"]]
    by_split = json.loads((out / "splits.json").read_text())
    assert by_split == {"train": [part for pair in lists(out) for part in pair], "valid": None, "test": None}
    assert read_export_manifest(out).options["mix"]["repeats"]["wiki"] == 2


def test_held_out_splits_are_whole(tmp_path: Path) -> None:
    documents = {"train": some(4, 1), "validation": some(3, 2), "test": some(2, 3)}
    ranges = {name: (0, len(one)) for name, one in documents.items()}
    dataset = lay_out(tmp_path / "dataset", documents)
    splits = read_dataset(dataset).splits
    part = {"path": "documents/0000-a-0.parquet", "sha256": "", "documents": ranges,
            "tokens": {one.name: (0, one.tokens) for one in splits}}  # fmt: skip
    lay_out(dataset, documents, parts=[part], sources=[about("a")])
    before = digests(dataset)
    export_dataset(dataset, None, "megatron-blend", tmp_path / "out")
    export_dataset(dataset, None, "megatron-blend", tmp_path / "again")
    assert digests(tmp_path / "out") == digests(tmp_path / "again") and digests(dataset) == before
    for name in ("valid", "test"):
        assert json.loads((tmp_path / "out" / "splits.json").read_text())[name] == [f"{name}-all"]
    for suffix in ("bin", "idx"):
        assert (tmp_path / "out" / f"test-all.{suffix}").read_bytes() == (dataset / f"test.{suffix}").read_bytes()


def test_parts_are_written_like_sources(tmp_path: Path) -> None:
    found = dataset_config({"mix": MIX | {"stages": [{"until_step": 3, "weights": dict.fromkeys(SIZES, 2)}]}}, "")
    assert found.mix
    dataset, out = mixed_parts_dataset(tmp_path / "dataset", found.mix, SIZES, VOCAB), tmp_path / "out"
    export_dataset(dataset, None, "megatron-blend", out, ExportOptions(mix=found.mix))
    split, parts = IndexedSplit(dataset / "train", "uint16"), read_dataset(dataset).mix_parts
    weights = {name: share * part.tokens for part in parts for name, share in SHARES.items() if name == part.name}
    files = {name: f"train-{number:04d}-{name}" for number, name in enumerate(SIZES)}
    assert lists(out) == [[f"{float(weights[name])}", file] for name, file in files.items()]
    assert lists(out, "blend-stage-0.txt") == [["2.0", file] for file in files.values()]
    by_split = json.loads((out / "splits.json").read_text())
    assert by_split["train"] == [entry for pair in lists(out) for entry in pair]
    rows = [read_megatron(out / file) for file in files.values()]
    assert list(map(len, rows)) == list(SIZES.values())
    assert [row for each in rows for row in each] == [document.tolist() for document in split]
    with pytest.raises(ConfigError, match="packed in different parts"):
        export_dataset(
            dataset, None, "megatron-blend", tmp_path / "b", ExportOptions(mix=MixConfig(weights={"wiki": 1}))
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ExportOptions(prefix="my data"), "the prefix has spaces"),
        (ExportOptions(mix=MixConfig(weights={"wiki": 1, "web": 1})), "how much of books"),
        (ExportOptions(mix=MixConfig(weights={"wiki": 1, "web": 1, "books": 1, "none": 1})), "'none' has no token"),
        (ExportOptions(length=5), "has no option length"),
    ],
)
def test_what_megatron_could_not_use_is_refused(
    dataset: Path, tmp_path: Path, options: ExportOptions, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        export_dataset(dataset, None, "megatron-blend", tmp_path / "out", options)
    assert not (tmp_path / "out").exists()


def test_the_command_takes_the_mixture_of_a_recipe(dataset: Path, tmp_path: Path) -> None:
    recipe, out = tmp_path / "a.toml", tmp_path / "out"
    command = ["dataset", "export", str(dataset), "--format", "megatron-blend", "-o", str(out), "--recipe", str(recipe)]
    recipe.write_text('name = "a"\n[dataset.mix]\nweights = { wiki = 1, web = 2, books = 0 }\n')
    shown = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert shown.exit_code == 0 and lists(out) == [["1.0", FILES["wiki"]], ["2.0", FILES["web"]]]
    assert '| mix | `{"weights":{"wiki":1.0,' in (out / "README.md").read_text()
    other = CliRunner().invoke(cli, [*command[:4], "arrow", "-o", str(tmp_path / "b"), "--prefix", "x"])
    assert other.exit_code == 2 and "it is for --format megatron-blend" in other.output
    recipe.write_text('name = "a"\n')
    refused = CliRunner().invoke(cli, command)
    assert "has no [dataset.mix]" in str(refused.exception) + refused.output
