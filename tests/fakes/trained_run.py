"""A run with checkpoints that were not trained: they have initial weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jprep.tokenizer import load_tokenizer
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.run.directory import checkpoints_of, open_run, read_job
from jprep.train.run.events import record_event
from tests.fakes.small_dataset import SPLITS, lay_out
from tests.unit.tokenizer.vocabularies import finished, small

SOURCES = [
    {"name": "jawiki", "licence": "CC BY-SA 4.0", "homepage": "https://ja.wikipedia.org/",
     "files": [{"name": "dump.xml.bz2", "sha256": "a" * 64}]},
    {"name": "web", "licence": "Common Crawl terms of use", "homepage": "", "files": []},
]  # fmt: skip
ROWS = [
    {"text": f"日本語{number}", "other": "東京", "label": ["b", "a", "c"][number % 3], "score": number / 7}
    for number in range(30)
]
SETS = dict.fromkeys(("llama", "qwen3", "qwen3_moe", "roberta", "modernbert"), "roberta")
SETS |= {"gpt2": "gpt", "bert": "bert", "electra": "bert", "deberta-v2": "bert"}
KINDS = {"gpt": "byte-bpe", "bert": "wordpiece", "roberta": "unigram", "sentencepiece": "bpe"}
OPTIONS: dict[str, dict[str, Any]] = {"sentencepiece": {"boundaries": "spaces"}}
"""Options of the tokenizer by set of special tokens."""


def trained_run(
    folder: Path, task: str = "mlm", kind: str = "roberta", backend: str = "torch", special: str = "", **section: Any
) -> Path:
    """Create a run of a small model with checkpoints of steps 5 and 10; the first has the lower validation loss."""
    special = special or SETS[kind]
    tokenizer = finished(folder / "tokenizer", small(KINDS[special], special=[special], **OPTIONS.get(special, {})))
    loaded = load_tokenizer(tokenizer)
    made_from = {"tokenizer": {"fingerprint": loaded.card.fingerprint}, "segmenter": {"name": "pointwise"}}
    ids = {
        name: [[[[5 + token % 200 for token in sentence] for sentence in part] for part in one] for one in several]
        for name, several in SPLITS.items()
    }
    fields: dict[str, Any] = {"made_from": made_from, "vocab_size": loaded.vocab_size, "sources": SOURCES}
    end = loaded.special.eos or loaded.special.sep
    dataset = lay_out(folder / "dataset", ids, **fields, end=loaded.id_of(end))
    given: dict[str, Any] = {"task": task, "model": model_of(kind), "batch": 4, "length": 32, "steps": 10}
    if task in ("classify", "regress"):
        rows = folder / "rows.jsonl"
        rows.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS), encoding="utf-8")
        given["data"] = [str(rows)]
        given["labelled"] = {"length": 32, "label": "label" if task == "classify" else "score"}
    run = folder / "run"
    config = parse_train_config(given | section, "here")
    job = build_job(config, "small", backend, {}, tokenizer, None if "data" in given else dataset, run=run)
    open_run(run, job)
    for step, loss in ((5, 3.5), (10, 3.75)):
        save(run, step, loss)
    return run


def model_of(kind: str) -> dict[str, Any]:
    widths = {"n_embd": 16, "n_layer": 2, "n_head": 2} if kind == "gpt2" else {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    }  # fmt: skip
    positions = {"n_positions": 64} if kind == "gpt2" else {"max_position_embeddings": 64}
    return {"config": {"model_type": kind, "initializer_range": 0.3, **widths, **positions}}


def save(run: Path, step: int, loss: float) -> None:
    """Commit a checkpoint, and log the steps before it."""
    job: Job = read_job(run)
    for before in range(step - 4, step + 1):
        record_event(run, "log", before, {"loss": 6 - before / 4, "tokens_per_second": 1.0})
    record_event(run, "validation", step, {"loss": loss, "accuracy": 0.25})
    with checkpoints_of(run, job).saving(step, loss) as folder:
        write_initial_weights(job.model, job.train.objective, job.train.seed + step, folder / "model.safetensors")
        (folder / "optimizer.safetensors").write_bytes(b"not looked at")
