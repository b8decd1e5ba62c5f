"""A model and a tokenizer made by transformers: fine-tuned by jprep as by plain transformers on the same batches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from sentencepiece import SentencePieceTrainer

from jprep.corpus.document import SENTENCE, WORD
from jprep.dataset.manifest import SENTENCE_START
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.dataset.sampling.special_ids import special_ids
from jprep.errors import ConfigError
from jprep.io.safetensors_file import TensorFiles
from jprep.tokenizer import load_tokenizer
from jprep.train.exporting import export
from jprep.train.inference.masked_text import masked_request
from jprep.train.inference.pipeline import InferencePipeline
from jprep.train.launcher.launch import PreparedRun, RunInputs, create_run, prepare_run
from jprep.train.launcher.supervisor import supervise
from jprep.train.optimization.schedule import learning_rate
from jprep.train.pretrained.weights import open_weights
from jprep.train.run.events import metric_curve, read_events
from jprep.train.worker.batches import Batches
from tests.conftest import ROOT

pytestmark = pytest.mark.backends

SCRIPT = ROOT / "tests" / "fakes" / "transformers_models.py"
INSTALLED = ["flax", *(["keras"] if os.environ.get("JPREP_KERAS") else [])]
BACKENDS = ["torch", *(pytest.param(name, marks=pytest.mark.soak) for name in INSTALLED)]
STEPS, LENGTH, TOLERANCE = 20, 16, 1e-4
FIRST = ["吾輩は猫である。", "名前はまだない。", "どこ", "the cats run", "犬と走る。", "名前   犬と　ABC"]
SECOND = ["good", "bad cats", "吾輩は犬と猫である。名前はまだない。どこ どれ", ""]


class Made(NamedTuple):
    """What transformers made, and the rows to fine-tune on.

    Attributes:
        model: the folder of model and tokenizer.
        rows: the labelled rows, also in `data`.
        data: the file.
    """

    model: Path
    rows: list[dict[str, Any]]
    data: Path


def transformers(*arguments: object) -> str:
    """Run the script with PyTorch and transformers, and return its output."""
    if "JPREP_TORCH" not in os.environ:
        pytest.skip("JPREP_TORCH names no Python that has PyTorch")
    command = [os.environ["JPREP_TORCH"], str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    transformers("make", folder / "bert")
    rows = [
        {"text": first, "pair": second, "label": "good" if first in FIRST[::2] else "bad"}
        for at, (first, second) in enumerate((first, second) for first in FIRST for second in SECOND)
    ]
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return Made(folder / "bert", rows, data)


def prepare(made: Made, run: Path, backend: str) -> PreparedRun:
    section = {
        "task": "classify", "model": {"init": str(made.model)}, "batch": 4, "steps": STEPS, "data": [str(made.data)],
        "labelled": {"pair": "pair", "length": LENGTH}, "log_every": 1, "trackers": [],
        "optimizer": {"lr": 0.005}, "schedule": {"warmup": 3}, "backend": {backend: {"device": "cpu"}},
    }  # fmt: skip
    prepared = prepare_run(section, RunInputs("finetune", backend, run, made.model))
    create_run(prepared)
    return prepared


@pytest.fixture(scope="module")
def expected(made: Made, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of a plain transformers loop."""
    folder = tmp_path_factory.mktemp("plain")
    job = prepare(made, folder / "run", "torch").job
    sampler = Batches(folder / "run", job).train
    rows = [[made.rows[index] for index in sampler.batch(step).indices.tolist()] for step in range(STEPS)]  # type: ignore[union-attr]
    section = job.train
    plan = {
        "folder": str(made.model), "length": LENGTH, "weight_decay": section.optimizer.weight_decay,
        "rates": [learning_rate(step, STEPS, section.optimizer.lr, section.schedule) for step in range(STEPS)],
        "texts": [[row["text"] for row in batch] for batch in rows],
        "pairs": [[row["pair"] for row in batch] for batch in rows],
        "labels": [[job.labels.index(row["label"]) for row in batch] for batch in rows],
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    return [json.loads(line) for line in transformers("finetune", folder / "plan.json").splitlines()]


def test_pickles_of_pytorch_give_the_same_weights(made: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.model, tmp_path / "bert"))
    expected = open_weights(folder)
    values = {name: tensor.rows(name) for name, tensor in expected.items()}
    transformers("pickle", folder)
    for path in (folder, folder / "legacy.bin"):
        found = open_weights(path)
        assert found.keys() == values.keys()
        for name, tensor in found.items():
            np.testing.assert_array_equal(tensor.rows(name), values[name], name)


def test_a_tokenizer_that_only_transformers_reads(tmp_path: Path) -> None:
    transformers("japanese", tmp_path / "bert")
    texts = ["吾輩は猫である。", "the cats  run", "", "どこ ABC"]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"folders": [str(tmp_path / "bert")], "texts": texts}), encoding="utf-8")
    expected = [json.loads(line) for line in transformers("encode", plan).splitlines()]
    loaded = load_tokenizer(tmp_path / "bert")
    special = special_ids(loaded)
    assert loaded.unk is not None and special.types and special.mask is not None
    about: Any = SimpleNamespace(special=special)
    for text, (plain, pair, masked) in zip(texts, expected, strict=True):
        assert masked_request(f"{text} [MASK]{text}", loaded, about, 5, 99).ids == masked
        ids = loaded.encode(text)
        assert ids == plain
        assert [*special.before, *ids, *special.between, *ids, *special.pair_after] == pair
    assert loaded.decode(loaded.encode(texts[0])).replace(" ", "") == texts[0]
    document = f"吾輩{WORD}は{WORD}猫{WORD}である{WORD}。{SENTENCE}どこ"
    found = DocumentEncoder(loaded).encode([document.encode()])
    pieces = [loaded.piece_of(number) for number in found.tokens.tolist()]
    assert pieces[-1] == "[SEP]" and "".join(pieces[:-1]).replace("##", "") == "吾輩は猫である。どこ"
    sentences = [piece for piece, mark in zip(pieces, found.marks, strict=True) if mark & SENTENCE_START]
    assert sentences == [pieces[0], "ど"]
    with pytest.raises(ConfigError, match="transformers cannot load this tokenizer"):
        (tmp_path / "wrong").mkdir()
        (tmp_path / "wrong" / "vocab.json").write_text("{}")
        load_tokenizer(tmp_path / "wrong")


SENTENCEPIECE: dict[str, dict[str, Any]] = {
    "T5Tokenizer": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "AlbertTokenizer": {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
                        "user_defined_symbols": ["[CLS]", "[SEP]", "[MASK]"]},
    "XLNetTokenizer": {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1,
                       "user_defined_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]},
}  # fmt: skip


def write_sentencepiece(folder: Path, kind: str) -> Path:
    """Write a folder whose only vocabulary is a small model that sentencepiece has trained."""
    folder.mkdir()
    SentencePieceTrainer.train(
        sentence_iterator=iter(FIRST * 20), model_prefix=str(folder / "spiece"), vocab_size=70, minloglevel=2,
        character_coverage=1.0, hard_vocab_limit=False, **SENTENCEPIECE[kind],
    )  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    return folder


@pytest.mark.soak
def test_tokenizers_with_nothing_but_a_sentencepiece_model(tmp_path: Path) -> None:
    texts = ["吾輩は猫である。", "the cats  run", "名前はまだない。どこ"]
    folders = [write_sentencepiece(tmp_path / kind, kind) for kind in SENTENCEPIECE]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"folders": [str(folder) for folder in folders], "texts": texts}), encoding="utf-8")
    expected = iter([json.loads(line) for line in transformers("encode", plan).splitlines()])
    for folder in folders:
        loaded = load_tokenizer(folder)
        special = special_ids(loaded)
        about: Any = SimpleNamespace(special=special)
        assert loaded.unk is not None and loaded.pad is not None and special.after
        assert (loaded.mask is None) == (folder.name == "T5Tokenizer")
        for text in texts:
            plain, pair, masked = next(expected)
            if loaded.mask is not None:
                assert masked_request(f"{text} <mask>{text}", loaded, about, 5, 99).ids == masked
            ids = loaded.encode(text)
            assert ids == plain
            assert [*special.before, *ids, *special.between, *ids, *special.pair_after] == pair
        assert loaded.decode(loaded.encode("the cats run")) == "the cats run"
        document = f"吾輩{WORD}は{WORD}猫{SENTENCE}名{WORD}前{WORD}the cats"
        found = DocumentEncoder(loaded).encode([document.encode()])
        pieces = [loaded.piece_of(number) for number in found.tokens.tolist()][:-1]
        starts = [mark & SENTENCE_START for mark in found.marks.tolist()][:-1]
        assert "".join(pieces).replace("▁", "") == "吾輩は猫名前thecats"
        first, second = (at for at, one in enumerate(starts) if one)
        assert first == 0 and "".join(pieces[second:]).startswith("名前")


@pytest.mark.parametrize("backend", BACKENDS)
def test_finetuning_equals_a_plain_loop(backend: str, made: Made, expected: list[float], tmp_path: Path) -> None:
    prepared = prepare(made, tmp_path / "run", backend)
    assert supervise(prepared.run, prepared.plan, say=lambda message: None) == 0
    _, losses = metric_curve(read_events(prepared.run))
    assert np.mean(expected[-4:]) < np.mean(expected[:4]) - 0.1, "nothing is learnt: the comparison proves little"
    np.testing.assert_allclose(losses, expected, atol=TOLERANCE)
    exported = export(prepared.run)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        assert (exported / name).read_bytes() == (made.model / name).read_bytes()
    before, after = (TensorFiles([folder / "model.safetensors"]) for folder in (made.model, exported))
    assert (
        before["bert.embeddings.word_embeddings.weight"].shape == after["bert.embeddings.word_embeddings.weight"].shape
    )
    with InferencePipeline(exported, "torch") as pipeline:
        found = pipeline.predict(FIRST[0], pair=SECOND[0])
    assert set(found.probabilities) == {"good", "bad"}, found.error
