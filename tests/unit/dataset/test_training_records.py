"""TFRecord exports with features: their rows, their shards, interruptions, and TensorFlow as their reader."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from jprep.dataset.exports import export_dataset, read_export_manifest
from jprep.dataset.exports.base import ExportOptions
from jprep.dataset.exports.tfrecord import training_rows
from jprep.dataset.manifest import read_dataset
from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import IGNORE_INDEX, Masking
from jprep.dataset.sampling.pair_sampler import PairSampler
from jprep.dataset.sampling.sampler import Batch, Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import SpecialIds, special_ids
from jprep.engine.executors.local import Local
from jprep.engine.manifest import write_manifest
from jprep.errors import ConfigError, DamagedError
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from jprep.tokenizer import load_tokenizer
from tests.conftest import digests
from tests.fakes.example_message import read_example

LENGTH, PREDICTIONS = 40, 6
BERT = {"features": "bert", "length": LENGTH, "max_predictions": PREDICTIONS, "next_sentence": True, "dupe_factor": 3,
        "rows_per_shard": 200, "whole_word": True, "seed": 4}  # fmt: skip


class Inputs:
    """The suite's dataset and tokenizer."""

    def __init__(self, folder: Path, special: str = "bert") -> None:
        self.tokenizer = write_suite_tokenizer(folder / "tokenizer", special)
        self.dataset = write_suite_dataset(folder / "dataset", special)

    @property
    def special(self) -> SpecialIds:
        return special_ids(load_tokenizer(self.tokenizer))

    def export(self, out: Path, workers: int = 1, **options: Any) -> list[Path]:
        return export_dataset(
            self.dataset, self.tokenizer, "tfrecord", out, ExportOptions(**options), None, Local(workers)
        )


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("records"))


def rows(folder: Path, split: str) -> list[dict[str, Any]]:
    """Return the rows of a split in the order of its shards; TensorFlow checks checksums below."""
    found = []
    for path in sorted(folder.glob(f"{split}-*.tfrecord")):
        data = path.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            found.append(read_example(data[12 : 12 + size]))
            data = data[16 + size :]
    return found


def batch_of(inputs: Inputs, split: str, count: int, **masking: Any) -> Batch:
    """Return the first rows of the training that the options of `BERT` describe."""
    source = open_split_data(inputs.dataset, split)
    config = SamplerConfig(batch=count, length=LENGTH, seed=4, split=split)
    masks = Masking(MaskingConfig(**masking), inputs.special, source.separators.newline)
    return PairSampler(source, config, inputs.special, masks).batch(0)


def test_rows_of_bert_are_those_of_training(inputs: Inputs, tmp_path: Path) -> None:
    inputs.export(tmp_path / "out", **BERT)
    manifest = read_export_manifest(tmp_path / "out")
    for split in manifest.splits:
        found = rows(tmp_path / "out", split.name)
        samples = PairSampler(
            open_split_data(inputs.dataset, split.name),
            SamplerConfig(batch=1, length=LENGTH, split=split.name),
            inputs.special,
        ).samples
        assert len(found) == split.rows == 3 * samples
        batch = batch_of(inputs, split.name, len(found), whole_word=True)
        assert batch.epochs.max() == 2
        for number, row in enumerate(found):
            length = int(batch.lengths[number])
            assert list(map(len, row.values())) == [LENGTH] * 3 + [PREDICTIONS] * 3 + [1]
            assert row["input_mask"] == [1] * length + [0] * (LENGTH - length)
            assert row["segment_ids"] == batch.segments[number].tolist()
            assert row["next_sentence_labels"] == [batch.next_sentence[number]]
            labels = batch.labels[number]
            count = int(sum(row["masked_lm_weights"]))
            assert row["masked_lm_weights"] == [1.0] * count + [0.0] * (PREDICTIONS - count)
            positions, ids = row["masked_lm_positions"][:count], row["masked_lm_ids"][:count]
            assert positions == sorted(set(positions)) and not any(row["masked_lm_positions"][count:])
            assert labels[positions].tolist() == ids
            if (labels != IGNORE_INDEX).sum() <= PREDICTIONS:
                assert count == (labels != IGNORE_INDEX).sum() and row["input_ids"] == batch.input_ids[number].tolist()
            restored = np.where(labels == IGNORE_INDEX, batch.input_ids[number], labels)
            restored[positions] = batch.input_ids[number][positions]
            assert row["input_ids"] == restored.tolist()
    counts = manifest.counts
    assert counts["rows"] == sum(split.rows for split in manifest.splits) and counts["dropped_labels"] > 0
    assert manifest.features == {
        **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ("int64", LENGTH)),
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), ("int64", PREDICTIONS)),
        "masked_lm_weights": ("float", PREDICTIONS),
        "next_sentence_labels": ("int64", 1),
    }


def test_copies_have_masks_of_their_own(inputs: Inputs, tmp_path: Path) -> None:
    inputs.export(tmp_path / "out", features="transformers", length=32, dupe_factor=2)
    found = rows(tmp_path / "out", "train")
    texts = [
        tuple(label if label >= 0 else token for token, label in zip(row["input_ids"], row["labels"], strict=True))
        for row in found
    ]
    half = len(found) // 2
    assert sorted(texts[:half]) == sorted(texts[half:]) and texts[:half] != texts[half:]
    first, second = ({text: row["labels"] for text, row in zip(texts[at], found[at], strict=True)}
                     for at in (slice(half), slice(half, None)))  # fmt: skip
    assert sum(first[text] != second[text] for text in first) > 0.9 * len(first)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"features": "electra"}, ["input_ids", "input_mask", "segment_ids"]),
        (
            {"features": "bert", "masks": "dynamic"},
            ["input_ids", "input_mask", "segment_ids", "next_sentence_labels"],
        ),
        ({"features": "transformers"}, ["input_ids", "attention_mask", "token_type_ids", "labels"]),
        (
            {"features": "transformers", "masks": "dynamic"},
            ["input_ids", "attention_mask", "token_type_ids", "special_tokens_mask"],
        ),
        (
            {"features": "transformers", "next_sentence": True},
            ["input_ids", "attention_mask", "token_type_ids", "labels", "next_sentence_label"],
        ),
    ],
)
def test_features_have_the_names_of_their_readers(
    options: dict[str, Any], names: list[str], inputs: Inputs, tmp_path: Path
) -> None:
    inputs.export(tmp_path / "out", length=32, **options)
    found, masked = rows(tmp_path / "out", "train"), "labels" in names
    assert list(found[0]) == names
    special = inputs.special
    assert masked == any(special.mask in row["input_ids"] for row in found)
    for row in found:
        if "special_tokens_mask" in row:
            assert row["special_tokens_mask"] == [int(token in special.special) for token in row["input_ids"]]
        if masked and "next_sentence" not in options:
            assert any(label == IGNORE_INDEX for label in row["labels"])


def test_rows_without_pairs_are_those_of_the_packing(inputs: Inputs, tmp_path: Path) -> None:
    inputs.export(tmp_path / "out", features="electra", length=32, packing="line", seed=9)
    source = open_split_data(inputs.dataset, "train")
    sampler = Sampler(source, SamplerConfig(batch=1, length=32, packing="line", seed=9), inputs.special)
    expected = [sampler.batch(step).input_ids[0].tolist() for step in range(sampler.samples)]
    assert [row["input_ids"] for row in rows(tmp_path / "out", "train")] == expected


def test_a_model_without_token_types_gets_none(tmp_path: Path) -> None:
    Inputs(tmp_path / "roberta", "roberta").export(tmp_path / "out", features="transformers", length=32)
    assert list(rows(tmp_path / "out", "train")[0]) == ["input_ids", "attention_mask", "labels"]


def test_shards_have_their_number_of_rows_in_their_names(inputs: Inputs, tmp_path: Path) -> None:
    written = inputs.export(tmp_path / "out", features="electra", length=32, rows_per_shard=100)
    assert [path.name for path in written if path.suffix == ".tfrecord"] == [
        "train-00000-of-00003-100.tfrecord", "train-00001-of-00003-100.tfrecord", "train-00002-of-00003-37.tfrecord",
        "validation-00000-of-00001-26.tfrecord",
    ]  # fmt: skip
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".lock", *(path.name for path in written)}
    for file in (file for split in read_export_manifest(tmp_path / "out").splits for file in split.files):
        assert int(file.path.removesuffix(".tfrecord").split("-")[-1]) == file.rows


def test_bytes_do_not_depend_on_workers_or_interruptions(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs.export(tmp_path / "one", **BERT)
    inputs.export(tmp_path / "two", workers=2, **BERT)
    run, done = training_rows.TrainingRows.run, []

    def killed(self: Any, task: Any, root: Path) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task.id)
        return run(self, task, root)

    monkeypatch.setattr(training_rows.TrainingRows, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        inputs.export(tmp_path / "three", **BERT)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "three").glob("*.tfrecord")}
    assert len(before) == 2 and not (tmp_path / "three/export.json").exists()
    monkeypatch.setattr(training_rows.TrainingRows, "run", run)
    inputs.export(tmp_path / "three", **BERT)
    assert before == {path: path.stat().st_mtime_ns for path in before}, "finished shards are not written again"
    assert digests(tmp_path / "one") == digests(tmp_path / "two") == digests(tmp_path / "three")


def test_another_export_replaces_the_files(inputs: Inputs, tmp_path: Path) -> None:
    inputs.export(tmp_path / "out", features="electra", length=32, rows_per_shard=50)
    inputs.export(tmp_path / "out", features="transformers", length=32)
    inputs.export(tmp_path / "new", features="transformers", length=32)
    assert digests(tmp_path / "out") == digests(tmp_path / "new")
    inputs.export(tmp_path / "out", length=32)  # rows with one feature
    inputs.export(tmp_path / "plain", length=32)
    assert digests(tmp_path / "out") == digests(tmp_path / "plain")
    assert "counts" not in json.loads((tmp_path / "out/export.json").read_bytes())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "bert"}, "need a length"),
        ({"length": 32, "masks": "static"}, "masks is for rows with the features of other programs"),
        ({"length": 32, "dupe_factor": 2}, "dupe_factor is for rows"),
        ({"features": "electra", "length": 32, "masks": "static"}, "ELECTRA masks its rows itself"),
        ({"features": "electra", "length": 32, "next_sentence": True}, "no next-sentence task"),
        ({"features": "bert", "length": 32, "shard_mb": 5}, "shards have a number of rows"),
        ({"features": "bert", "length": 32, "packing": "line", "next_sentence": True}, "rows are sentence pairs"),
        ({"features": "transformers", "length": 32, "max_predictions": 5}, "it is for bert"),
        ({"features": "bert", "length": 32, "masks": "dynamic", "dupe_factor": 2}, "would be the same"),
        ({"features": "bert", "length": 32, "masks": "dynamic", "mask_rate": 0.2}, "rows are not masked"),
        ({"features": "bert", "length": 32, "rows_per_shard": 0}, "rows_per_shard must be at least 1"),
        ({"features": "bert", "length": 2}, "leaves no room"),
        ({"features": "bert", "length": 32, "mask_rate": -0.1}, "mask_rate must be a share"),
        ({"features": "bert", "length": 32, "mask_rate": float("nan")}, "mask_rate must be a share"),
        ({"features": "electra", "length": 32, "mask_rate": float("inf")}, "mask_rate must be a share"),
        ({"features": "bert", "length": 4, "next_sentence": True}, "cannot hold two segments"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    options: dict[str, Any], message: str, inputs: Inputs, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        inputs.export(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_unsuitable_tokenizers_and_damaged_datasets_are_refused(tmp_path: Path) -> None:
    gpt, bert = Inputs(tmp_path / "gpt", "gpt"), Inputs(tmp_path / "bert")
    with pytest.raises(ConfigError, match="no mask token"):
        gpt.export(tmp_path / "out", features="transformers", length=32)
    gpt.export(tmp_path / "out", features="transformers", length=32, masks="dynamic")
    assert list(rows(tmp_path / "out", "train")[0]) == ["input_ids", "attention_mask", "special_tokens_mask"]
    with pytest.raises(ConfigError, match="packed with another tokenizer"):
        export_dataset(
            bert.dataset, gpt.tokenizer, "tfrecord", tmp_path / "no", ExportOptions(features="electra", length=32)
        )
    about = read_dataset(bert.dataset)
    unsegmented = msgspec.structs.replace(about, made_from=about.made_from | {"segmenter": None})
    write_manifest(bert.dataset / "dataset.json", unsegmented)
    words = ExportOptions(features="bert", length=32, whole_word=True)
    with pytest.raises(ConfigError, match="the corpus is not segmented"):
        export_dataset(bert.dataset, bert.tokenizer, "tfrecord", tmp_path / "no", words)
    path = bert.dataset / read_dataset(bert.dataset).splits[0].files[0].path
    path.write_bytes(path.read_bytes()[:-2] + b"\0\0")
    with pytest.raises(DamagedError):
        bert.export(tmp_path / "no", features="electra", length=32)
    assert not (tmp_path / "no").exists()


TENSORFLOW = """
import glob, json, sys
import tensorflow as tf
folder, length, predictions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ints = lambda size: tf.io.FixedLenFeature([size], tf.int64)
row = {"input_ids": ints(length), "input_mask": ints(length), "segment_ids": ints(length)}
specs = {
    "bert": row | {
        "masked_lm_positions": ints(predictions), "masked_lm_ids": ints(predictions),
        "masked_lm_weights": tf.io.FixedLenFeature([predictions], tf.float32), "next_sentence_labels": ints(1),
    },
    "electra": row,
    "transformers": {name: ints(length) for name in ("input_ids", "attention_mask", "token_type_ids", "labels")},
}
read = {}
for name, spec in specs.items():
    files = sorted(glob.glob(f"{folder}/{name}/train-*.tfrecord"))
    rows = tf.data.TFRecordDataset(files).map(lambda record: tf.io.parse_single_example(record, spec))
    batches = list(rows.batch(50))  # fails for a row of another shape
    read[name] = {key: tf.concat([batch[key] for batch in batches], 0).numpy().tolist() for key in spec}
print(json.dumps(read))
"""


@pytest.mark.backends
def test_tensorflow_reads_the_features_that_google_research_specifies(inputs: Inputs, tmp_path: Path) -> None:
    """The FixedLenFeatures are those of run_pretraining.py of google-research/bert and electra's build of examples."""
    python = os.environ.get("JPREP_TENSORFLOW") or os.environ.get("JPREP_KERAS")
    if not python:
        pytest.skip("neither JPREP_TENSORFLOW nor JPREP_KERAS names a Python")
    for name in ("electra", "transformers"):
        inputs.export(tmp_path / name, features=name, length=LENGTH)
    inputs.export(tmp_path / "bert", **BERT)
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    command = [python, "-c", TENSORFLOW, tmp_path, LENGTH, PREDICTIONS]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env, timeout=600, check=True)
    read = json.loads(done.stdout.splitlines()[-1])
    for name, columns in read.items():
        expected = rows(tmp_path / name, "train")
        assert columns == {key: [row[key] for row in expected] for key in columns}
        assert list(columns) == list(expected[0])
