"""An export in plain transformers continues prompts and fills masks as `jprep infer` does, token for token.

JPREP_TRANSFORMERS4 and JPREP_TRANSFORMERS5 name Pythons that have that version; the torch backend's PyTorch runs them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jprep.train.exporting import export, weights
from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline
from tests.fakes.trained_run import trained_run
from tests.sampling import every

pytestmark = pytest.mark.backends

PROMPTS = ["東京都の日本語", "すもももももも", "the world ２０２０年", "日本 の 東京 、", "龘"]
TOKENS = 12
MODELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "gpt2": ("clm", "gpt2", "gpt", {"packing": "stream"}),
    "llama": ("clm", "llama", "roberta", {"packing": "complete"}),
    "llama-line": ("clm", "llama", "roberta", {"packing": "line"}),
    "gpt2-spaces": ("clm", "gpt2", "sentencepiece", {"packing": "stream"}),
    "gpt2-bert": ("clm", "gpt2", "bert", {"packing": "stream"}),
    "qwen3": ("clm", "qwen3", "gpt", {"packing": "stream"}),
    "qwen3-moe": ("clm", "qwen3_moe", "gpt", {"packing": "stream"}),
    "roberta-mlm": ("mlm", "roberta", "roberta", {}),
    "bert-mlm": ("mlm", "bert", "bert", {}),
    "modernbert-mlm": ("mlm", "modernbert", "roberta", {}),
    "deberta-mlm": ("mlm", "deberta-v2", "bert", {}),
    "bert-pairs": ("classify", "bert", "bert", {"labelled": {"length": 32, "pair": "other"}}),
    "roberta-pairs": ("classify", "roberta", "bert", {"labelled": {"length": 32, "pair": "other"}}),
    "modernbert-pairs": ("classify", "modernbert", "roberta", {"labelled": {"length": 32, "pair": "other"}}),
    "deberta-pairs": ("classify", "deberta-v2", "bert", {"labelled": {"length": 32, "pair": "other"}}),
    "llama-score": ("regress", "llama", "roberta", {}),
}
"""Name → task, model type, special tokens, further settings."""

MASKED = {"roberta-mlm": "東京都は<mask>です。", "bert-mlm": "東京都は[MASK]です。"}
MASKED |= {"modernbert-mlm": MASKED["roberta-mlm"], "deberta-mlm": MASKED["bert-mlm"]}
PAIRS = ("bert-pairs", "roberta-pairs", "modernbert-pairs", "deberta-pairs")
SCRIPT = """
import contextlib, io, json, os, re, sys
from pathlib import Path
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

root, about = Path(sys.argv[1]), json.loads(sys.argv[2])
assert transformers.__version__.startswith(about["version"])
prompts, tokens = about["prompts"], about["tokens"]


def generated(folder):
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    rows = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    alone = [model.generate(**tokenizer(prompt, return_tensors="pt"), max_new_tokens=tokens) for prompt in prompts]
    new = [made[0, len(row):].tolist() for row, made in zip(rows, alone)]
    batch = tokenizer(prompts, return_tensors="pt", padding=True)
    width = batch["input_ids"].shape[1]
    together = model.generate(**batch, max_new_tokens=tokens)[:, width:].tolist()
    asked = pipeline("text-generation", model=str(folder))
    greedy = {"max_new_tokens": tokens, "do_sample": False, "return_full_text": False}
    piped = [asked(prompt, **greedy)[0]["generated_text"] for prompt in prompts]
    decoded = [tokenizer.decode(row, skip_special_tokens=True) for row in new]
    # transformers 4 decodes the prompt with it: the number of marks for incomplete bytes at the beginning may differ.
    assert [text.strip().strip("�") for text in piped] == [text.strip().strip("�") for text in decoded]
    assert asked(prompts[0])[0]["generated_text"]  # with its own settings: it samples, as far as there are positions
    several = asked(prompts[0], num_return_sequences=5, do_sample=True, max_new_tokens=2)
    assert len(several) == 5 and all(each["generated_text"].startswith(prompts[0]) for each in several)
    config = model.generation_config
    ids = [config.bos_token_id, config.eos_token_id, config.pad_token_id]
    roles = [tokenizer.bos_token_id, tokenizer.eos_token_id]
    empty = model.generate(max_new_tokens=tokens)[0].tolist()
    return {"rows": rows, "new": new, "together": together, "empty": empty, "ids": ids, "roles": roles}


def printed(folder):
    "What the model card's snippet prints, run in the folder."
    [snippet] = re.findall(r"```python\\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    os.chdir(folder)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(snippet, {})
    return out.getvalue()


report = {name: generated(root / name / "model") for name in about["generating"]}
for name, text in about["masked"].items():
    fill = pipeline("fill-mask", model=str(root / name / "model"))
    report[name] = [[each["token"], each["score"]] for each in fill(text)]
for name in about["pairs"]:
    judge = pipeline("text-classification", model=str(root / name / "model"), top_k=None)
    report[name] = {each["label"]: each["score"] for each in judge({"text": "日本語", "text_pair": "東京"})}
report["printed"] = {name: printed(root / name / "model") for name in about["all"]}
print(json.dumps(report))
"""
GENERATING = [name for name, (task, *_) in MODELS.items() if task == "clm"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of exported models with random weights."""

    def work(name: str, run: Path, checkpoint: Path, folder: Path) -> None:
        shutil.copyfile(checkpoint / "model.safetensors", folder / "model.safetensors")

    if not os.environ.get("JPREP_TORCH"):
        pytest.skip("JPREP_TORCH names no Python that has PyTorch")
    root = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "_run_worker", work)
        for name, (task, kind, special, section) in MODELS.items():
            export(trained_run(root / name, task, kind, special=special, **section), root / name / "model")
    yield root


@pytest.fixture(params=[pytest.param("4", marks=pytest.mark.soak), "5"])
def seen(request: pytest.FixtureRequest, root: Path) -> dict[str, Any]:
    """The results of each version of transformers."""
    return plain(request.param, root)


@cache
def plain(version: str, root: Path) -> dict[str, Any]:
    """Return the results of a version of transformers, with the torch backend's PyTorch."""
    if not (python := os.environ.get(f"JPREP_TRANSFORMERS{version}")):
        pytest.skip(f"no transformers {version}: JPREP_TRANSFORMERS{version} names no Python")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    env = os.environ | {"PYTHONPATH": packages, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    about = {"version": version, "prompts": PROMPTS, "tokens": TOKENS, "generating": GENERATING}
    about |= {"masked": MASKED, "pairs": PAIRS, "all": list(MODELS)}
    command = [os.environ["JPREP_TORCH"], "-c", SCRIPT, str(root), json.dumps(about)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@cache
def asked(root: Path, name: str) -> Any:
    """Return the results of `jprep infer`: the rows given to the model, and the generated tokens."""
    with InferencePipeline(root / name / "model", "torch") as model:
        if name in MASKED:
            return model.predict(MASKED[name], GenerationConfig(top=5)).masks[0]
        if name in PAIRS:
            return model.predict("日本語", GenerationConfig(), "東京").probabilities
        requests = [model._generate_request(prompt, GenerationConfig(tokens=TOKENS))[0] for prompt in [*PROMPTS, ""]]
        return [request.ids for request in requests], [model._client.send(each).ids for each in requests]


@pytest.mark.parametrize("name", every(3, GENERATING))
def test_generation(name: str, root: Path, seen: dict[str, Any]) -> None:
    rows, answers = asked(root, name)
    made, about = seen[name], json.loads((root / name / "model/export.json").read_bytes())
    cut = until(about["end"])
    assert made["rows"] == rows[:-1]
    assert list(map(cut, made["new"])) == answers[:-1]
    assert list(map(cut, made["together"])) == answers[:-1]
    first = about["special"]["before"][0] if name == "llama-line" else about["end"]
    assert made["empty"][0] == first and cut(made["empty"][1:]) == answers[-1]
    assert made["ids"][:2] == made["roles"] == [first, about["end"]]


def until(end: int) -> Callable[[list[int]], list[int]]:
    """Truncate a row where its document ends."""
    return lambda row: row[: row.index(end)] if end in row else row


@pytest.mark.parametrize("name", every(2, MASKED))
def test_masks(name: str, root: Path, seen: dict[str, Any]) -> None:
    guesses = asked(root, name)
    assert [number for number, _ in seen[name]] == [guess.id for guess in guesses]
    assert [score for _, score in seen[name]] == pytest.approx([guess.probability for guess in guesses], rel=1e-4)


@pytest.mark.parametrize("name", every(2, PAIRS))
def test_pairs(name: str, root: Path, seen: dict[str, Any]) -> None:
    assert seen[name] == pytest.approx(asked(root, name), rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_the_model_card_s_snippet_runs(name: str, seen: dict[str, Any]) -> None:
    assert seen["printed"][name].strip()
