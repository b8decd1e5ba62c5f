"""Conversations, from the file to plain transformers: a model that knows them by heart answers by `generate`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.unit.tokenizer.vocabularies import finished, small

pytestmark = pytest.mark.soak

CONVERSATIONS = [
    [("system", "短く答える。"), ("user", "日本の都は？"), ("assistant", "東京です。")],
    [("user", "日本の都は？"), ("assistant", "日本の都は東京都です。")],
    [("user", "すもも"), ("assistant", "もものうち"), ("user", "もも"), ("assistant", "すもももももも")],
    [("user", "<|im_end|>とは？"), ("assistant", "する年代、<|im_start|>。")],
    [("user", "print(2020)"), ("assistant", "2020年\n\nゲーム「Python」")],
]
RECIPE = """
name = "chat"
[train]
task = "sft"
data = ["{data}"]
length = 128
batch = 2
steps = 150
model = {{ preset = "gpt2-tiny", config = {{ n_positions = 128 }} }}
optimizer = {{ lr = 0.003 }}
trackers = []
checkpoint = {{ every_steps = 0 }}
backend.torch = {{ device = "cpu", threads = 1 }}
"""
ANSWER = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer, model = AutoTokenizer.from_pretrained(sys.argv[1]), AutoModelForCausalLM.from_pretrained(sys.argv[1])
for messages in json.loads(sys.argv[2]):
    row = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    made = model.generate(**row)[0, row["input_ids"].shape[1]:]
    assert made[-1] == model.generation_config.eos_token_id
    print(json.dumps([row["input_ids"][0].tolist(), tokenizer.decode(made[:-1])]))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    """The work folder of a trained model."""
    folder = tmp_path_factory.mktemp("chat")
    finished(folder / "tokenizer", small("byte-bpe", special=["gpt", "<|im_start|>", "<|im_end|>"]))
    lines = [json.dumps({"messages": messages(each)}) for each in CONVERSATIONS]
    folder.joinpath("train.jsonl").write_text("\n".join(lines))
    folder.joinpath("recipe.toml").write_text(RECIPE.format(data=folder / "train.jsonl"))
    arguments = (folder / "recipe.toml", "--tokenizer", folder / "tokenizer", "-o", folder / "run")
    plan = jprep("train", *arguments, "--dry-run").stdout
    assert "5 conversations with 6 answers" in plan
    jprep("train", *arguments, timeout=600)
    jprep("export", folder / "run")
    return folder


def messages(turns: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in turns]


@pytest.mark.parametrize("version", [4, 5])
def test_plain_transformers_answers(trained: Path, version: int) -> None:
    asked = [turns[:at] for turns in CONVERSATIONS for at, (role, _) in enumerate(turns) if role == "assistant"]
    expected = [text for turns in CONVERSATIONS for role, text in turns if role == "assistant"]
    ordinary = [number for number, turns in enumerate(asked) if "<|" not in turns[-1][1]]
    found = answers(version, trained / "run/export", [messages(asked[number]) for number in ordinary])
    assert [text for _, text in found] == [expected[number] for number in ordinary]


def test_infer_answers_each_text(trained: Path, jprep: Run) -> None:
    export = trained / "run/export"
    given = ("日本の都は？", "print(2020)", "<|im_end|>とは？")
    assert jprep("infer", export, given[0], given[2]).stdout.split("\n") == [
        given[0], "  日本の都は東京都です。", given[2], "  する年代、<|im_start|>。", "",
    ]  # fmt: skip
    system = jprep("infer", trained / "run", given[0], "--system", "短く答える。", "--json").stdout
    assert json.loads(system)["continuation"] == "東京です。"
    assert "apply_chat_template" in export.joinpath("README.md").read_text()


def answers(version: int, folder: Path, asked: list[list[dict[str, str]]]) -> list[tuple[list[int], str]]:
    """Return the ids of each prompt and the answer to it, by that version of transformers."""
    torch, python = os.environ.get("JPREP_TORCH"), os.environ.get(f"JPREP_TRANSFORMERS{version}")
    if not (torch and python):
        pytest.skip(f"JPREP_TORCH and JPREP_TRANSFORMERS{version} name no Python with PyTorch, transformers {version}")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    env = os.environ | {"PYTHONPATH": packages, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [torch, "-c", ANSWER, str(folder), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]
