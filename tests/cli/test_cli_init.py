"""`jprep init`: questions on a terminal, none elsewhere; the recipe runs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from jprep import samples
from tests.conftest import COMMAND, PATIENCE, Run, environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "novels.txt").write_bytes(samples.crawl_bytes())
    return tmp_path


def test_defaults_without_a_terminal(folder: Path, jprep: Run) -> None:
    said = jprep("init", cwd=folder)
    recipe = tomllib.loads((folder / "wikipedia.toml").read_text(encoding="utf-8"))
    assert recipe["corpus"]["sources"][0]["reader"]["use"] == "wikipedia"
    assert recipe["train"]["model"] == {"preset": "gpt2-small"}
    assert recipe["corpus"]["segmenter"] == "pointwise"
    assert "jprep run wikipedia.toml --scale tiny" in said.stdout and said.stderr == ""
    jprep("run", "wikipedia.toml", "--dry-run", cwd=folder)


@pytest.mark.parametrize(("driver", "precision"), [("echo 0, GPU-1, 81920, NVIDIA H100", "bf16"), ("exit 9", "fp32")])
def test_the_precision_suits_the_machine(driver: str, precision: str, folder: Path, jprep: Run) -> None:
    program = folder / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{driver}\n")
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)])
    jprep("init", "mine.toml", cwd=folder, env={"PATH": path, "CUDA_VISIBLE_DEVICES": "0"})
    assert tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))["train"]["precision"] == precision


def test_options_choose(folder: Path, jprep: Run) -> None:
    jprep(
        "init", "mine.toml", "--from", "text", "--input", "novels.txt", "--train", "flax", "--model", "electra-small",
        "--tokenizer", "unigram", "--name", "小説", cwd=folder,
    )  # fmt: skip
    recipe = tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))
    assert (recipe["name"], recipe["tokenizer"]["model"], recipe["train"]["task"]) == ("小説", "unigram", "rtd")
    assert recipe["corpus"]["sources"][0]["paths"] == ["novels.txt"] and "flax" in recipe["train"]["backend"]


def test_a_file_is_not_overwritten_without_force(folder: Path, jprep: Run) -> None:
    (folder / "wikipedia.toml").write_text("mine", encoding="utf-8")
    assert "the file exists" in jprep("init", cwd=folder, code=2).stderr
    assert (folder / "wikipedia.toml").read_text(encoding="utf-8") == "mine"
    jprep("init", "--force", cwd=folder)
    assert "version = 2" in (folder / "wikipedia.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "text"], "the source `text` needs files"),
        (["--from", "text", "--input", "nowhere/*.txt"], "no file matches"),
        (["--train", "keras", "--model", "electra-small"], "keras does not train electra-small"),
        (["--name", "a/b", "x.toml"], "it contains a path separator"),
        (["--segmenter", "jumandik"], "did you mean 'jumandic'?"),
        (["--segmenter", "mecab"], "available: jumandic, jumanpp, "),
        (["x.txt"], "a recipe's file ends in .toml"),
    ],
)
def test_wrong_answers_write_nothing(words: list[str], message: str, folder: Path, jprep: Run) -> None:
    before = sorted(folder.iterdir())
    assert message in jprep("init", *words, cwd=folder, code=2).stderr
    assert sorted(folder.iterdir()) == before


def on_a_terminal(words: list[str], answers: list[str], cwd: Path) -> tuple[int, str]:
    """Run jprep on a terminal, and type an answer to each question; return its exit code and what was shown."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(cwd)
        os.execve(COMMAND, [COMMAND, *words], environment())
    shown, typed, deadline = "", list(answers), time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 1 << 16).decode("utf-8", "replace")
        except OSError:  # the program has ended
            break
        if typed and shown.rstrip(" ").endswith(":"):
            os.write(terminal, f"{typed.pop(0)}\n".encode())
            shown += "\n"
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_questions_on_a_terminal_are_asked_again_after_wrong_answers(folder: Path) -> None:
    answers = ["nonsense", "text", "nowhere.txt", "novels.txt", "9", "1", "roberta-base", "", "a/b", "novels"]
    code, shown = on_a_terminal(["init", "mine.toml"], answers, folder)
    assert code == 0, shown
    for message in ("give a name of the list, or its number", "no file matches", "it contains a path separator"):
        assert message in shown
    recipe = tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))
    assert recipe["name"] == "novels" and recipe["train"]["model"]["preset"] == "roberta-base"
    assert recipe["tokenizer"]["model"] == "bpe" and "torch" in recipe["train"]["backend"]


def test_ctrl_d_writes_nothing(folder: Path) -> None:
    code, _ = on_a_terminal(["init", "mine.toml"], ["\x04"], folder)
    assert code == 130 and not (folder / "mine.toml").exists()


@pytest.mark.parametrize("source", ["wikipedia", "cc100", "text"])
def test_the_data_steps_run_at_scale_tiny(source: str, folder: Path, jprep: Run) -> None:
    given = ["--input", "novels.txt"] if source == "text" else []
    jprep("init", "mine.toml", "--from", source, *given, "--segmenter", "none", cwd=folder)
    unreachable = [] if given else ["--set", "corpus.sources.0.files.0.url=http://127.0.0.1:9/none.xml.bz2"]
    more = ["--set", 'corpus.sources.0.files.0.checksums=""'] if unreachable and source == "wikipedia" else []
    jprep("run", "mine.toml", "--scale", "tiny", "--until", "dataset", "--workers", 1, *unreachable, *more, cwd=folder)
    assert (folder / "work/mine-tiny/dataset/dataset.json").exists()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("source", "backend"),
    [("cc100", "flax"), ("wikipedia", "torch"), ("text", "fairseq-xla"), ("text", "deepspeed"), ("cc100", "keras")],
)
def test_every_step_runs_at_scale_tiny(source: str, backend: str, folder: Path) -> None:
    from jprep.train.backend_loading import load_backend
    from jprep.train.launcher.environments import worker_python

    worker_python(load_backend(backend))
    given = ["--input", "novels.txt"] if source == "text" else []
    run = {"cwd": folder, "env": environment(), "check": True, "capture_output": True, "text": True}
    subprocess.run([COMMAND, "init", "mine.toml", "--from", source, "--train", backend, *given], **run)
    subprocess.run([COMMAND, "run", "mine.toml", "--scale", "tiny", "--workers", "1"], **run)
    assert list((folder / f"work/mine-tiny/runs/{backend}/export").glob("*.safetensors"))


def test_packaged_recipes_are_listed_shown_and_copied(folder: Path, jprep: Run) -> None:
    table = jprep("recipes").stdout
    assert table.splitlines()[0].split() == ["name", "model", "backend", "what", "for"]
    assert any(line.split()[:3] == ["jawiki", "roberta-base", "any"] for line in table.splitlines())
    assert 'name = "jawiki"' in jprep("recipes", "show", "jawiki").stdout
    assert "no recipe is called 'jawik'" in jprep("recipes", "show", "jawik", code=2).stderr
    said = jprep("recipes", "copy", "roberta-tensorflow", "mine/own.toml", cwd=folder).stdout
    assert sorted(path.name for path in (folder / "mine").iterdir()) == [
        "english-test.txt", "english-train.txt", "english-validation.txt", "own.toml",
    ]  # fmt: skip
    assert "jprep run mine/own.toml --scale tiny" in said
    assert "jprep run mine/own.toml" in (folder / "mine/own.toml").read_text(encoding="utf-8")
    jprep("run", "mine/own.toml", "--scale", "tiny", "--dry-run", cwd=folder)
    assert "the file exists" in jprep("recipes", "copy", "jawiki", "mine/own.toml", cwd=folder, code=2).stderr


def test_a_packaged_recipe_runs_by_its_name_unless_a_file_is_called_so(folder: Path, jprep: Run) -> None:
    assert jprep("run", "jawiki", "--dry-run", cwd=folder).stdout.startswith("jawiki:")
    (folder / "jawiki").write_text('name = "other"', encoding="utf-8")
    assert jprep("run", "jawiki", "--dry-run", cwd=folder).stdout.startswith("other:")


@pytest.mark.parametrize("tokenizer", ["unigram", "wordpiece"])
def test_the_vocabulary_of_a_new_recipe_can_be_learnt_from_its_input(tokenizer: str, folder: Path, jprep: Run) -> None:
    records = [json.dumps({"text": text}) for text in samples.crawl_bytes().decode().split("\n\n")]
    (folder / "web.jsonl").write_text("\n".join(records))
    jprep("init", "web.toml", "--from", "text", "--input", "web.jsonl", "--tokenizer", tokenizer, cwd=folder)
    jprep("run", "web.toml", "--until", "tokenizer", cwd=folder)
