"""Building a job from a recipe's section: derived values, errors, fingerprint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import special_ids
from jprep.errors import ConfigError, InputError
from jprep.tokenizer import load_tokenizer
from jprep.train.job.build import build_job
from jprep.train.job.config import TrainConfig, parse_train_config
from jprep.train.job.labelled_data import read_labelled_splits
from jprep.train.models import parameter_count, parameters
from jprep.train.models.initial_weights import write_initial_weights
from tests.fakes.small_dataset import SPLITS, lay_out
from tests.unit.tokenizer.vocabularies import finished, small

ROWS = [{"text": f"日本語{number}", "label": ["b", "a", "c"][number % 3]} for number in range(30)]
TINY = {"preset": "bert-tiny"}


class Parts:
    """A tokenizer, and a dataset packed with it."""

    def __init__(self, folder: Path, special: str, **changes: Any) -> None:
        self.tokenizer = finished(folder / "tokenizer", small("unigram", special=[special]))
        loaded = load_tokenizer(self.tokenizer)
        documents = {
            name: [[[[4 + token % 250 for token in sentence] for sentence in part] for part in one] for one in several]
            for name, several in SPLITS.items()
        }
        made_from = {"tokenizer": {"fingerprint": loaded.card.fingerprint}, "segmenter": {"name": "pointwise"}}
        fields = {"made_from": made_from, "vocab_size": loaded.vocab_size} | changes
        self.dataset = lay_out(folder / "dataset", documents, **fields)

    def job(self, **section: Any):
        given = {"task": "mlm", "model": TINY, "batch": 4, "length": 32, "steps": 10} | section
        return build_job(parse_train_config(given, "here"), "run", "torch", {}, self.tokenizer, self.dataset)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path, "roberta")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS))
    return path


def labelled(parts: Parts, rows: Path, **section: Any):
    return parts.job(**{"task": "classify", "data": [str(rows)]} | section)


def test_a_job_knows_its_samples_steps_and_weights(parts):
    job = parts.job(steps=0, epochs=1.5)
    special = special_ids(load_tokenizer(parts.tokenizer))
    samples = Sampler(open_split_data(parts.dataset, "train"), SamplerConfig(batch=4, length=32), special).samples
    assert job.samples == samples
    assert 4 * (job.steps - 1) < 1.5 * samples <= 4 * job.steps
    assert job.special == special
    assert job.parameters == parameter_count(job.model, "mlm")
    assert job.model["vocab_size"] == special.vocab_size
    assert (job.model["pad_token_id"], job.labels) == (special.pad, [])


@pytest.mark.parametrize(
    ("section", "what", "fix"),
    [({"steps": 1, "epochs": 1}, "both steps and epochs", "--set train.steps=0"),
     ({}, "neither steps nor epochs", "epochs = 1"),
     ({"steps": 1, "task": "regress"}, "regress needs", "add data = "),
     ({"steps": 1, "task": "clm", "data": ["a.jsonl"]}, "clm trains on the dataset", "remove `data`"),
     ({"precision": "fp8"}, "'fp8' is not a valid value of `precision`", "fp32, bf16, fp16"),
     ({"trackers": ["wandb", "tensor"]}, "'tensor' is not a valid value of `trackers[1]`", "tensorboard, wandb"),
     ({"schedule": {"kind": "line"}}, "'line' is not a valid value of `schedule.kind`", "linear, cosine, constant")],
)  # fmt: skip
def test_errors_in_a_section_name_the_fix(section: dict[str, Any], what: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_train_config(section, "here")
    assert what in caught.value.what and fix in caught.value.fix


def test_epochs_are_exact_decimals(parts):
    """0.1 as a double is more than a tenth: a tenth of an epoch of ten samples is one row, not two."""
    samples = parts.job().samples
    assert parts.job(steps=0, epochs=0.1, batch=1).steps == -(-samples // 10)
    assert parts.job(steps=0, epochs=3, batch=samples).steps == 3


def test_paths_are_relative_to_the_run(parts, rows, tmp_path):
    section = {"task": "classify", "model": TINY, "data": [str(rows)], "steps": 1}
    run = tmp_path / "runs" / "one"
    job = build_job(parse_train_config(section, "here"), "one", "torch", {}, parts.tokenizer, run=run)
    assert job.tokenizer == "../../tokenizer"
    assert job.train.data == ["../../rows.jsonl"]
    assert job.dataset == ""
    assert (run / job.tokenizer / "card.json").resolve().is_file()
    assert parts.job().dataset == str(parts.dataset.resolve())


def test_classes_are_found_in_the_rows(parts, rows):
    job = labelled(parts, rows)
    assert job.labels == ["a", "b", "c"]
    assert job.model["id2label"] == {"0": "a", "1": "b", "2": "c"}
    assert job.samples == 30
    assert parameters(job.model, "classify")["classifier.weight"].shape[0] == 3


def test_a_fold_is_held_out(parts, rows):
    job = labelled(parts, rows, labelled={"folds": 3})
    found = read_labelled_splits(job.train, load_tokenizer(parts.tokenizer))
    assert job.samples == len(found.rows)
    assert sorted([*found.rows, *found.validation_rows]) == list(range(30))
    assert 0 < len(found.validation_rows) < 30


def test_rows_to_validate_on_have_known_labels(parts, rows, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "東京", "label": "c"}\n')
    job = labelled(parts, rows, validation_data=[str(other)], labelled={"folds": 3})
    found = read_labelled_splits(job.train, load_tokenizer(parts.tokenizer))
    assert (job.samples, found.validation.targets.tolist(), found.validation_rows.tolist()) == (30, [2], [0])
    other.write_text('{"text": "東京", "label": "d"}\n')
    with pytest.raises(InputError, match="'d' did not occur"):
        labelled(parts, rows, validation_data=[str(other)])


def test_scores_need_no_names(parts, tmp_path):
    scores = tmp_path / "scores.jsonl"
    scores.write_text('{"text": "東京", "label": 1.5}\n{"text": "京都", "label": 2}\n')
    job = labelled(parts, scores, task="regress")
    assert (job.labels, job.model["problem_type"]) == ([], "regression")
    assert parameters(job.model, "regress")["classifier.weight"].shape[0] == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2},
        {"steps": 11},
        {"batch": 8},
        {"precision": "bf16"},
        {"model": {"preset": "roberta-tiny"}},
        {"masking": {"rate": 0.2}},
        {"optimizer": {"lr": 0.1}},
        {"optimizer": {"decay": "all"}},
        {"schedule": {"warmup": 3}},
    ],
)
def test_the_fingerprint_covers_what_weights_depend_on(changed, parts):
    assert parts.job(**changed).fingerprint != parts.job().fingerprint


def test_the_fingerprint_ignores_everything_else(parts, tmp_path):
    free = {
        "log_every": 3,
        "trackers": [],
        "max_restarts": 1,
        "checkpoint": {"every_steps": 7},
        "backend": {"torch": {}},
    }
    expected = parts.job().fingerprint
    assert parts.job(**free).fingerprint == expected
    moved = parts.tokenizer.rename(tmp_path / "moved")
    section = parse_train_config({"task": "mlm", "model": TINY, "batch": 4, "length": 32, "steps": 10}, "here")
    job = build_job(section, "other", "flax", {"x": 1}, moved, parts.dataset, run=tmp_path / "run")
    assert job.fingerprint == expected


def test_steps_and_equal_epochs_give_the_same_run(parts):
    samples = parts.job().samples
    one, other = parts.job(steps=3, batch=samples), parts.job(steps=0, epochs=3, batch=samples)
    assert one.fingerprint == other.fingerprint


def test_the_fingerprint_depends_on_file_contents_not_paths(parts, rows, tmp_path):
    first = labelled(parts, rows).fingerprint
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(rows.read_bytes())
    assert labelled(parts, copy).fingerprint == first
    copy.write_text(copy.read_text().replace("日本", "東京"))
    assert labelled(parts, copy).fingerprint != first
    write_initial_weights(parts.job().model, "mlm", 3, tmp_path / "given")
    given = labelled(parts, rows, model={**TINY, "init": str(tmp_path / "given")})
    assert given.fingerprint != first
    assert given.train.model.init == str((tmp_path / "given").resolve())


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"task": "clm"}, "gpt2-tiny"),
        ({"model": {"preset": "bert-tiiny"}}, "bert-tiny"),
        ({"model": {**TINY, "config": {"max_position_embeddings": 31}}}, "32"),
        ({"optimizer": {"lr": 0}}, "optimizer.lr"),
        ({"optimizer": {"beta2": 1.0}}, "optimizer.beta2"),
        ({"schedule": {"warmup": 11}}, "warm-up"),
        ({"masking": {"rate": 2.0}}, "masking.rate"),
        ({"checkpoint": {"keep_last": 0}}, "keep_last"),
        ({"seed": -1}, "seed"),
        ({"steps": 0, "epochs": -1.0}, "epochs"),
        ({"length": 2}, "special tokens"),
        ({"model": {**TINY, "init": "nowhere.safetensors"}}, "no file or folder"),
    ],
)
def test_mismatched_inputs_are_refused(section, says, parts):
    with pytest.raises(ConfigError, match=says) as error:
        parts.job(**section)
    assert error.value.fix


def test_a_row_of_labelled_data_fits_into_the_positions(parts, rows):
    short = {**TINY, "config": {"max_position_embeddings": 100}}
    with pytest.raises(ConfigError, match="128 positions"):
        labelled(parts, rows, model=short)
    assert labelled(parts, rows, model=short, labelled={"length": 100}, length=512).samples == 30


def test_a_single_label_is_refused(parts, rows):
    rows.write_text('{"text": "東京", "label": "c"}\n')
    with pytest.raises(ConfigError, match="same label: c"):
        labelled(parts, rows)


def test_no_training_rows_are_refused(parts, rows):
    rows.write_text("")
    with pytest.raises(ConfigError, match="there are no rows"):
        labelled(parts, rows, task="regress")


def test_a_mask_is_needed(tmp_path):
    with pytest.raises(ConfigError, match="needs a mask token"):
        Parts(tmp_path, "gpt").job()
    assert Parts(tmp_path / "other", "gpt").job(task="clm", model={"preset": "gpt2-tiny"}).steps == 10


def test_whole_words_need_words(tmp_path):
    made_from = {"tokenizer": {"fingerprint": "small"}, "segmenter": None}
    parts = Parts(tmp_path, "roberta")
    made_from["tokenizer"] = {"fingerprint": load_tokenizer(parts.tokenizer).card.fingerprint}
    parts = Parts(tmp_path, "roberta", made_from=made_from)
    with pytest.raises(ConfigError, match="the corpus is not segmented"):
        parts.job(masking={"whole_word": True})
    assert parts.job().steps == 10


def test_another_tokenizer_is_refused(tmp_path):
    parts = Parts(tmp_path, "roberta", made_from={"tokenizer": {"fingerprint": "other"}})
    with pytest.raises(ConfigError, match="another tokenizer"):
        parts.job()


def test_another_number_of_ids_is_refused(tmp_path):
    parts = Parts(tmp_path, "roberta", vocab_size=12)
    with pytest.raises(ConfigError, match=re.escape("the dataset has 12 ids")):
        parts.job()


def test_there_must_be_something_to_validate_on(parts):
    manifest = parts.dataset / "dataset.json"
    about = json.loads(manifest.read_bytes())
    about["splits"][1]["tokens"] = 0
    del about["checksum"]
    manifest.write_text(json.dumps(about))
    with pytest.raises(ConfigError, match="nothing to validate on"):
        parts.job(validation={"every_steps": 5})


def test_a_task_needs_its_data(parts, tmp_path):
    with pytest.raises(ConfigError, match="needs a dataset"):
        build_job(TrainConfig(task="mlm", steps=1), "run", "torch", {}, parts.tokenizer)
    with pytest.raises(ConfigError, match="no finished tokenizer"):
        build_job(TrainConfig(task="mlm", steps=1), "run", "torch", {}, tmp_path / "none", parts.dataset)


CLM = {"task": "clm", "model": {"preset": "gpt2-tiny"}}


@pytest.mark.parametrize("packing", ["stream", "complete"])
def test_rows_of_running_text_have_no_special_tokens_around_them(packing, parts):
    job = parts.job(**CLM, packing=packing)
    assert (job.special.before, job.special.after) == ((), ())
    assert job.special.special == special_ids(load_tokenizer(parts.tokenizer)).special
    config = SamplerConfig(batch=4, length=32, packing=packing)
    batch = Sampler(open_split_data(parts.dataset, "train"), config, job.special).batch(0)
    tokens = IndexedSplit(parts.dataset / "train", "uint16").tokens
    first = batch.indices.tolist().index(0) if 0 in batch.indices else None
    ids = [row[:size].tolist() for row, size in zip(batch.input_ids, batch.lengths, strict=True)]
    text = " ".join(map(str, tokens.tolist()))
    assert first is None or ids[first] == tokens[: len(ids[first])].tolist()
    assert all(" ".join(map(str, row)) in text for row in ids)


def test_other_rows_have_the_special_tokens_of_the_set_around_them(parts):
    special = special_ids(load_tokenizer(parts.tokenizer))
    assert parts.job().special == parts.job(**CLM, packing="line").special == special


def test_an_existing_run_keeps_its_name(parts, tmp_path):
    run, section = (
        tmp_path / "moved" / "torch",
        parse_train_config({"batch": 4, "length": 32, "steps": 10} | CLM, "here"),
    )
    run.mkdir(parents=True)
    (run / "job.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(parts.job(**CLM), name="jawiki")))
    assert build_job(section, "torch", "flax", {}, parts.tokenizer, parts.dataset, run=run).name == "jawiki"
    other = build_job(section, "other", "flax", {}, parts.tokenizer, parts.dataset, run=tmp_path / "other")
    assert other.name == "other"


def test_an_existing_run_keeps_special_tokens_around_its_rows(parts, tmp_path):
    special, run = special_ids(load_tokenizer(parts.tokenizer)), tmp_path / "run"
    now = parts.job(**CLM)
    run.mkdir()
    (run / "job.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(now, special=special)))
    section = parse_train_config({"batch": 4, "length": 32, "steps": 10} | CLM, "here")
    again = build_job(section, "run", "torch", {}, parts.tokenizer, parts.dataset, run=run)
    assert again.special == special and again.fingerprint != now.fingerprint
