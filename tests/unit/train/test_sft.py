"""Jobs of the task sft: what their section means, their batches, and their export."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.corpus.config import CorpusConfig
from jprep.dataset.conversations.config import Chat
from jprep.dataset.conversations.encoding import ChatEncoder
from jprep.errors import ConfigError
from jprep.pipeline.unused_keys import find_unused_keys
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.exporting import export
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.job.features import check_features
from jprep.train.planning.memory_estimate import estimate_job_memory
from jprep.train.run.directory import open_run, read_job
from jprep.train.worker.batches import Batches
from tests.fakes.trained_run import model_of, save, trained_run
from tests.unit.tokenizer.vocabularies import finished, small

TEMPLATE = "{% for m in messages %}{{ bos_token }}{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"
TEMPLATE += "{% if add_generation_prompt %}{{ bos_token }}assistant {% endif %}"


def lines(path: Path, count: int) -> str:
    turns = [[("user", f"日本{n}"), ("assistant", "東京" * n)] for n in range(1, count + 1)]
    found = [json.dumps({"messages": [{"role": a, "content": b} for a, b in each]}) for each in turns]
    path.write_text("\n".join(found))
    return str(path)


def section(folder: Path, **changes: Any) -> dict[str, Any]:
    given = {"task": "sft", "model": model_of("gpt2"), "batch": 2, "length": 48, "steps": 10}
    held = lines(folder / "held.jsonl", 3)
    return given | {"data": [lines(folder / "train.jsonl", 8)], "validation_data": [held]} | changes


def job_of(folder: Path, **changes: Any) -> Job:
    tokenizer = folder / "tokenizer"
    if not tokenizer.exists():
        finished(tokenizer, small("byte-bpe", special=["gpt", "<|im_start|>", "<|im_end|>"]))
    train = parse_train_config(section(folder, **changes), "here")
    return build_job(train, "chat", "torch", {}, tokenizer, run=folder / "run")


def test_a_job_has_template_end_and_counts(tmp_path: Path):
    job = job_of(tmp_path)
    chat, tokenizer = job.chat, load_tokenizer(tmp_path / "tokenizer")
    assert isinstance(chat, Chat)
    assert "<|im_start|>" in chat.template
    assert tokenizer.piece_of(chat.end) == "<|im_end|>"
    assert (chat.counts["conversations"], chat.counts["too_long"]) == (8, 0)
    assert (job.train.packing, job.train.document_masks, job.train.objective) == ("best_fit", True, "clm")
    assert job.model["architectures"] == ["GPT2LMHeadModel"]
    assert estimate_job_memory(job, 2, attention=False) > estimate_job_memory(job, 0, attention=False)
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job


def test_batches_are_those_of_the_job(tmp_path: Path):
    job = job_of(tmp_path)
    open_run(tmp_path / "run", job)
    batches = Batches(tmp_path / "run", read_job(tmp_path / "run"))
    assert batches.train.samples == job.samples
    shown = [row for batch in batches.validating(0, 1) for row in batch.documents.max(axis=1)]
    assert sum(shown) + len(shown) == 3  # conversations


def test_the_fingerprint_depends_on_the_template_and_not_on_its_path(tmp_path: Path):
    paths = [tmp_path / name for name in ("a.jinja", "b.jinja", "c.jinja")]
    for path, text in zip(
        paths,
        (
            TEMPLATE,
            TEMPLATE,
            TEMPLATE.replace("user", "User")
            .replace(" {{ m.content", "  {{ m.content")
            .replace("assistant ", "assistant  "),
        ),
        strict=True,
    ):
        path.write_text(text)
    one, same, other = (job_of(tmp_path, sft={"template": str(path)}).fingerprint for path in paths)
    assert one == same != other
    assert job_of(tmp_path).fingerprint not in (one, other)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"data": []}, "needs conversations"),
        ({"packing": "line"}, "packed as best_fit"),
        ({"stages": [{"until_step": 5, "length": 16}]}, "no stages"),
        ({"labelled": {"folds": 5}}, "no folds"),
        ({"next_sentence": True}, "next_sentence"),
        ({"sft": {"template": "missing.jinja"}}, "cannot be read"),
        ({"length": 8}, "nothing is left"),
        ({"validation_data": [], "validation": {"every_steps": 5}}, "nothing to validate on"),
        ({"model": model_of("bert")}, "sft|clm"),
    ],
)
def test_what_has_no_meaning_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str):
    with pytest.raises(ConfigError, match=problem):
        job_of(tmp_path, **changes)


def test_an_empty_file_is_named(tmp_path: Path):
    (tmp_path / "empty.jsonl").touch()
    for key in ("data", "validation_data"):
        with pytest.raises(ConfigError, match="there are no conversations: the file is empty") as refused:
            job_of(tmp_path, **{key: [str(tmp_path / "empty.jsonl")]})
        assert refused.value.where == str(tmp_path / "empty.jsonl")


def test_backends_without_document_masks_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="document_masks"):
        check_features(job_of(tmp_path).train, "flax", ("z_loss",))


def test_keys_without_effect_are_named(tmp_path: Path):
    train = parse_train_config(section(tmp_path, masking={"rate": 0.3}), "here")
    [found] = [
        each for each in find_unused_keys(CorpusConfig(sources=[]), TokenizerConfig(), train) if "masking" in each
    ]
    assert "conversations do not use it" in found


@pytest.mark.usefixtures("copying")
def test_a_pretrained_model_is_tuned_with_the_tokens_of_its_export(tmp_path: Path):
    base = export(trained_run(tmp_path / "base", "clm", "llama", packing="line"))
    stated = json.loads((base / "tokenizer_config.json").read_text())
    (tmp_path / "mine.jinja").write_text(TEMPLATE.replace("<|im_end|>", "{{ eos_token }}"))
    changes = {"model": {"init": str(base)}, "sft": {"template": str(tmp_path / "mine.jinja")}}
    job = build_job(parse_train_config(section(tmp_path, **changes), "here"), "chat", "torch", {}, base)
    tokenizer = load_tokenizer(base)
    assert job.chat
    encoder = ChatEncoder(tokenizer, job.chat.template)
    ids = encoder.encode_prompt([{"role": "user", "content": "日本"}])
    text = tokenizer.decode(ids)
    assert text == "{bos_token}user 日本{eos_token}{bos_token}assistant ".format(**stated)
    assert tokenizer.piece_of(job.chat.end) == stated["eos_token"]


@pytest.mark.usefixtures("copying")
def test_an_export_has_the_template_and_stops_at_the_end_of_an_answer(tmp_path: Path):
    (tmp_path / "mine.jinja").write_text(TEMPLATE)
    job, run = job_of(tmp_path, sft={"template": os.path.relpath(tmp_path / "mine.jinja")}), tmp_path / "run"
    open_run(run, job)
    (tmp_path / "mine.jinja").unlink()  # the run has its text
    save(run, 5, 1.0)
    folder = export(run)
    assert (folder / "chat_template.jinja").read_text() == TEMPLATE
    generation = json.loads((folder / "generation_config.json").read_text())
    assert job.chat
    assert generation["eos_token_id"] == job.chat.end
    assert job.chat.end not in generation["suppress_tokens"]
    assert generation["bos_token_id"] == job.model["bos_token_id"] != job.chat.end
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert config["eos_token"] == "<|endoftext|>"  # which a template may use
    card = (folder / "README.md").read_text()
    assert "apply_chat_template(" in card
    assert "pipeline_tag: text-generation" in card
