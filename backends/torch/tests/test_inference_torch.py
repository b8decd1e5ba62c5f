"""Exports loaded by transformers, and the predictions of the inference server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import transformers

from jprep.errors import InputError
from jprep.train.exporting import export, weights
from jprep.train.inference.protocol import Classify, FillMask, Generate, Response, Score
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import read_job
from jprep_torch.models.transformers_models import build_model, load_weights, weight_names
from jprep_torch.worker import inference
from jprep_torch.worker.inference import load_model, predict
from tests.fakes.trained_run import trained_run

LOADERS = {
    "clm": transformers.AutoModelForCausalLM,
    "mlm": transformers.AutoModelForMaskedLM,
    "classify": transformers.AutoModelForSequenceClassification,
    "regress": transformers.AutoModelForSequenceClassification,
}
CASES = [("clm", "gpt2"), ("clm", "llama"), ("mlm", "bert"), ("mlm", "roberta"), ("mlm", "electra"),
         ("classify", "bert"), ("classify", "gpt2"), ("regress", "roberta"), ("regress", "electra")]  # fmt: skip
IDS = [9, 30, 31, 32, 8, 70, 71]


@pytest.fixture(autouse=True)
def export_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy the checkpoint's weights without a worker."""
    monkeypatch.setattr(
        weights, "_run_worker", lambda name, run, checkpoint, folder: CheckpointReader(checkpoint).export(folder)
    )


def exported(folder: Path, task: str, kind: str, **more: Any) -> tuple[Path, Any]:
    """Return an export, and the checkpoint's model as the trainer builds it."""
    run = trained_run(folder, task, kind)
    job = read_job(run)
    model = build_model(job.model, task)
    tensors = CheckpointReader(run / "checkpoints" / "step-00000010").weights
    load_weights(model, weight_names(model, job.model, task), tensors, lambda tensor, _: tensor)
    return export(run, **more), model.eval()


@pytest.mark.parametrize(("task", "kind"), CASES)
def test_transformers_loads_every_weight_and_computes_the_same_logits(task: str, kind: str, tmp_path: Path) -> None:
    folder, model = exported(tmp_path, task, kind)
    loaded, about = LOADERS[task].from_pretrained(folder, output_loading_info=True)
    assert not any(about.values()), about
    assert loaded.config.architectures == [type(loaded).__name__] and loaded.dtype == torch.float32
    ids = torch.tensor([IDS])
    with torch.inference_mode():
        assert torch.allclose(loaded.eval()(input_ids=ids).logits, model(input_ids=ids).logits, rtol=1e-6, atol=1e-6)
    if task == "classify":
        assert loaded.config.id2label == {0: "a", 1: "b", 2: "c"}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_exports_in_half_precision_load_in_that_precision(dtype: str, tmp_path: Path) -> None:
    folder, model = exported(tmp_path, "clm", "llama", dtype=dtype)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    assert loaded.dtype == half
    for name, weight in loaded.named_parameters():
        assert torch.equal(weight, model.get_parameter(name).to(half))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_generation_equals_transformers_generate(kind: str, tmp_path: Path) -> None:
    folder, _ = exported(tmp_path, "clm", kind)
    model = load_model(folder)
    answer = predict(model, Generate(ids=IDS, tokens=12))
    row = torch.tensor([IDS])
    expected = model.generate(row, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert answer.ids == expected[0, len(IDS) :].tolist()
    third = answer.ids[2]
    ended = predict(model, Generate(ids=IDS, tokens=12, end=[third]))
    assert ended.ids == answer.ids[: answer.ids.index(third)]
    never = predict(model, Generate(ids=IDS, tokens=12, never=answer.ids))
    assert not set(never.ids) & set(answer.ids)


def test_sampling_depends_on_the_seed_only(tmp_path: Path) -> None:
    model = load_model(exported(tmp_path, "clm", "gpt2")[0])
    request = Generate(ids=IDS, tokens=20, temperature=1.0, top_k=50, top_p=0.9)
    first = predict(model, request)
    other = predict(model, msgspec.structs.replace(request, seed=2))
    assert predict(model, request) == first != other


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_scores_are_log_likelihoods_whatever_rows_are_computed_together(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = exported(tmp_path, "clm", kind)
    rows, starts = [IDS, IDS[:3], [5, 6], IDS[::-1]], [1, 2, 1, 4]
    with torch.inference_mode():
        shares = [model(input_ids=torch.tensor([row])).logits[0].double().log_softmax(-1) for row in rows]
    expected = [
        sum(float(share[at - 1, row[at]]) for at in range(start, len(row)))
        for share, row, start in zip(shares, rows, starts, strict=True)
    ]
    loaded = load_model(folder)
    assert predict(loaded, Score(rows, starts)).scores == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(inference, "_BATCH_TOKENS", 1)
    assert predict(loaded, Score(rows, starts)).scores == pytest.approx(expected, rel=1e-5)
    for wrong in (
        Score([IDS], [0]),
        Score([IDS], [len(IDS)]),
        Score([[1, 10**6]], [1]),
        Score([], []),
        Score([IDS], []),
    ):
        with pytest.raises(InputError):
            predict(loaded, wrong)


def test_a_model_that_has_diverged_does_not_score() -> None:
    with pytest.raises(InputError, match="diverged"):
        inference.score(lambda ids: torch.full((*ids.shape, 100), torch.nan), Score([[1, 2, 3]], [1]))


def test_a_model_that_sees_both_sides_does_not_score(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not score"):
        predict(load_model(exported(tmp_path, "mlm", "bert")[0]), Score([IDS], [1]))


def test_mask_predictions_are_sorted_by_probability(tmp_path: Path) -> None:
    folder, model = exported(tmp_path, "mlm", "roberta")
    ids = [0, 30, 408, 31, 408, 2]
    answer = predict(load_model(folder), FillMask(ids=ids, mask=408, top=4))
    with torch.inference_mode():
        shares = model(input_ids=torch.tensor([ids])).logits[0, [2, 4]].softmax(-1)
    for guesses, share in zip(answer.masks, shares, strict=True):
        assert [guess.id for guess in guesses] == share.topk(4).indices.tolist()
        assert [guess.probability for guess in guesses] == pytest.approx(share.topk(4).values.tolist(), rel=1e-5)


def test_classification_and_regression_outputs(tmp_path: Path) -> None:
    folder, model = exported(tmp_path / "a", "classify", "bert")
    types = [0, 0, 0, 1, 1, 1, 1]
    answer = predict(load_model(folder), Classify(ids=IDS, token_types=types))
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([IDS]), token_type_ids=torch.tensor([types])).logits[0]
    assert answer.scores == pytest.approx(logits.softmax(-1).tolist(), rel=1e-5)
    for wrong in ([0, 0, 0, 2, 1, 1, 1], [0, 1]):
        with pytest.raises(InputError, match="from 0 to 1"):
            predict(load_model(folder), Classify(ids=IDS, token_types=wrong))
    folder, model = exported(tmp_path / "b", "regress", "roberta")
    with torch.inference_mode():
        score = model(input_ids=torch.tensor([IDS])).logits[0]
    assert predict(load_model(folder), Classify(ids=IDS)).scores == pytest.approx(score.tolist(), rel=1e-5)


def test_the_server_answers_line_by_line_and_reports_errors(tmp_path: Path) -> None:
    folder, _ = exported(tmp_path, "mlm", "bert")
    good = msgspec.json.encode(FillMask(ids=[2, 4, 3], mask=4, top=2))
    lines = [good, b"no json", b'{"task":"fill-mask","ids":[99999],"mask":4}', b'{"task":"judge","ids":[]}', good]
    lines.append(msgspec.json.encode(FillMask(ids=[4] * 65, mask=4)))
    command = [sys.executable, "-m", "jprep_torch.worker", "infer", str(folder)]
    done = subprocess.run(command, input=b"\n".join(lines) + b"\n", capture_output=True, timeout=600)
    answers = [msgspec.json.decode(line, type=Response) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [bool(answer.error) for answer in answers] == [False, True, True, True, False, True]
    assert answers[0] == answers[4] and len(answers[0].masks[0]) == 2
    assert "64 positions" in answers[5].error


def test_a_missing_weight_is_refused(tmp_path: Path) -> None:
    folder, _ = exported(tmp_path, "mlm", "bert")
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(InputError, match="lacks the tensor"):
        load_model(folder)
