"""Read exports with the programs that they are written for, and compare them with the dataset.

JPREP_FAIRSEQ, JPREP_TENSORFLOW and JPREP_DATASETS name Python interpreters with those packages; tests without one are
skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jprep.dataset.exports import export_dataset
from jprep.dataset.exports.base import ExportOptions
from tests.fakes.small_dataset import SPLITS, as_lines, flat, lay_out, tokenizer


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    tokenizer(tmp_path / "tokenizer")
    return lay_out(tmp_path / "dataset", SPLITS)


def real(variable: str, script: str, *arguments: object) -> Any:
    """Run a script in another Python and return its JSON output."""
    if not (python := os.environ.get(variable)):
        pytest.skip(f"{variable} names no Python")
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    command = [python, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, check=True)
    return json.loads(done.stdout.splitlines()[-1])


FAIRSEQ = """
import dataclasses, json, sys
process = dataclasses._process_class
def hashable(cls, *rest):  # Python 3.11 refuses fairseq's defaults of dataclasses that cannot be hashed
    made = process(cls, *rest)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made
dataclasses._process_class = hashable
from fairseq.data import Dictionary, data_utils
words = Dictionary.load(sys.argv[1] + "/dict.txt")
words.add_symbol("<mask>")
read = {name: data_utils.load_indexed_dataset(f"{sys.argv[1]}/{name}", words) for name in ("train", "valid")}
print(json.dumps([words.symbols, {name: [row.tolist() for row in rows] for name, rows in read.items()}]))
"""


@pytest.mark.backends
@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_fairseq_reads_the_export(unit: Any, dataset: Path, tmp_path: Path) -> None:
    export_dataset(dataset, None, "fairseq", tmp_path / "out", ExportOptions(unit=unit))
    symbols, read = real("JPREP_FAIRSEQ", FAIRSEQ, tmp_path / "out")
    vocab = json.loads(dataset.parent.joinpath("tokenizer", "tokenizer.json").read_text())["model"]["vocab"]
    assert {symbol: number for number, symbol in enumerate(symbols)} == vocab
    for name, split in (("train", "train"), ("valid", "validation")):
        whole = [flat(document) for document in SPLITS[split]]
        assert read[name] == (whole if unit == "document" else as_lines(SPLITS[split], unit))


TENSORFLOW = """
import glob, json, sys
import tensorflow as tf
feature = {"input_ids": tf.io.RaggedFeature(tf.int64)}
files = sorted(glob.glob(sys.argv[1] + "/train-*.tfrecord"))
rows = tf.data.TFRecordDataset(files).map(lambda row: tf.io.parse_single_example(row, feature)["input_ids"])
print(json.dumps([row.numpy().tolist() for row in rows]))
"""


def test_tensorflow_reads_the_export(dataset: Path, tmp_path: Path) -> None:
    export_dataset(dataset, None, "tfrecord", tmp_path / "out")
    assert real("JPREP_TENSORFLOW", TENSORFLOW, tmp_path / "out") == [flat(document) for document in SPLITS["train"]]


DATASETS = """
import json, sys
import datasets
read = datasets.load_from_disk(sys.argv[1])
files = {"train": sys.argv[1] + "/train/*.arrow"}
again = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=sys.argv[2])
assert list(again["input_ids"]) == list(read["train"]["input_ids"])
print(json.dumps({name: list(split["input_ids"]) for name, split in read.items()}))
"""


@pytest.mark.soak
def test_datasets_reads_the_export(dataset: Path, tmp_path: Path) -> None:
    export_dataset(dataset, None, "arrow", tmp_path / "out")
    read = real("JPREP_DATASETS", DATASETS, tmp_path / "out", tmp_path / "cache")
    assert read == {split: [flat(document) for document in documents] for split, documents in SPLITS.items()}
