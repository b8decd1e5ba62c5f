"""A published recipe, from raw text to plain transformers: greedy continuations equal those of `jprep infer`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run

pytestmark = pytest.mark.soak

PROMPTS = ["琴川市", "日本の", "Ｐｙｔｈｏｎ は"]
GENERATE = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer, model = AutoTokenizer.from_pretrained(sys.argv[1]), AutoModelForCausalLM.from_pretrained(sys.argv[1])
for prompt in json.loads(sys.argv[2]):
    row = tokenizer(prompt, return_tensors="pt")
    made = model.generate(**row, max_new_tokens=24)[0, row["input_ids"].shape[1]:]
    print(json.dumps(tokenizer.decode(made, skip_special_tokens=True)))
"""
SMALLER = [
    "tokenizer.vocab_size=2000", "train.model.preset=llama-tiny", "train.length=64", "train.batch=8", "train.epochs=2",
    "train.schedule.warmup=5", "train.precision=fp32", "dataset.validation=0.1", "train.validation.every_steps=0",
    "train.optimizer.lr=0.003",
]  # fmt: skip


def test_cc100(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    if "JPREP_TORCH" not in os.environ:
        pytest.skip("JPREP_TORCH names no Python that has PyTorch")
    jprep("corpus", "export", corpus, "-o", tmp_path / "ja.txt")  # a sentence a line, a blank line between documents
    inputs = json.dumps([str(tmp_path / "ja.txt")])
    changes = [part for change in [f"corpus.sources.0.paths={inputs}", *SMALLER] for part in ("--set", change)]
    jprep("run", ROOT / "data_recipes/cc100-ja.toml", *changes, "--backend", "torch", "--work", tmp_path, timeout=3600)
    [folder] = tmp_path.glob("cc100-ja/runs/*/export")
    replies = jprep("infer", folder, *PROMPTS, "--tokens", 24, "--json").stdout.splitlines()
    expected = [json.loads(reply)["continuation"] for reply in replies]
    for version in (4, 5):
        assert plain(version, folder) == expected


def plain(version: int, folder: Path) -> list[str]:
    """Return the continuations of the prompts by that version of transformers."""
    python = os.environ.get(f"JPREP_TRANSFORMERS{version}")
    if not python:
        pytest.skip(f"no transformers {version}: JPREP_TRANSFORMERS{version} names no Python")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    env = os.environ | {"PYTHONPATH": packages, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [os.environ["JPREP_TORCH"], "-c", GENERATE, str(folder), json.dumps(PROMPTS)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
