"""`jprep export` and `jprep infer`, as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Distribution, Run, digests
from tests.fakes.oracle import offer
from tests.fakes.trained_run import trained_run

pytestmark = pytest.mark.backends


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Variables with which the backend `oracle` is found."""
    return offer(Distribution(tmp_path / "distributions"))


def run_of(folder: Path, task: str, kind: str, **section: Any) -> Path:
    return trained_run(folder, task, kind, "oracle", **section)


def test_a_run_is_exported(tmp_path: Path, env: dict[str, str], jprep: Run) -> None:
    run = run_of(tmp_path, "mlm", "roberta")
    printed = jprep("export", run, "--json", env=env)
    about = json.loads(printed.stdout)
    assert (about["folder"], about["step"], about["dtype"]) == (str(run / "export"), 10, "fp32")
    assert (
        "step 5" in jprep("export", run, "-o", tmp_path / "out", "--which", "best", "--dtype", "bf16", env=env).stdout
    )
    assert (
        2 * (tmp_path / "out/model.safetensors").stat().st_size
        < 1.5 * (run / "export/model.safetensors").stat().st_size
    )
    refused = jprep("export", run, "--which", "6", env=env, code=2)
    assert "choose last, best, 5, 10" in refused.stderr
    assert "there is no run here" in jprep("export", tmp_path, env=env, code=2).stderr
    closed = jprep("export", run, env=env | {"ORACLE": "refuse"}, code=3)
    assert (
        "the oracle is closed" in closed.stderr and json.loads((run / "export/export.json").read_bytes())["step"] == 10
    )


def test_an_export_for_deepspeed_refuses_options_of_other_formats(
    tmp_path: Path, env: dict[str, str], jprep: Run
) -> None:
    run = run_of(tmp_path, "mlm", "roberta")
    for more, says in (
        (["--dtype", "bf16"], "--dtype is not for"),
        (["--generator"], "--generator is not for"),
        (["-o", "s3://bucket/model"], "writes a local directory"),
        (["--which", "7"], "there is no checkpoint '7'"),
    ):
        assert says in jprep("export", run, "--format", "deepspeed-universal", *more, env=env, code=2).stderr
    assert not (run / "deepspeed-universal").exists()


def test_a_run_s_masks_are_filled_and_its_export_stays(tmp_path: Path, env: dict[str, str], jprep: Run) -> None:
    run = run_of(tmp_path, "mlm", "roberta")
    first = jprep("infer", run, "日本語の<mask>です。", "--top", 2, env=env)
    assert "exporting the newest checkpoint" in first.stderr
    filled, guesses = first.stdout.splitlines()
    assert filled.startswith("日本語の") and filled.endswith("です。") and "0.500" in guesses and "0.333" in guesses
    before = digests(run / "export")
    again = jprep("infer", run, env=env, stdin="東京[MASK]\n\n日本".encode(), code=4)
    assert "exporting" not in again.stderr and digests(run / "export") == before
    assert len(again.stdout.splitlines()) == 2  # the line that has a mask, and its tokens
    assert "no prediction for 2 of the texts" in again.stderr and "contains no <mask>: 日本" in again.stderr
    shutil.rmtree(run / "checkpoints/step-00000010")
    assert "is not the newest checkpoint" in jprep("infer", run, "<mask>", env=env).stderr
    assert digests(run / "export") == before


def test_an_exported_directory_needs_no_run(tmp_path: Path, env: dict[str, str], jprep: Run) -> None:
    run = run_of(tmp_path / "there", "clm", "gpt2")
    folder = tmp_path / "model"
    jprep("export", run, "-o", folder, env=env)
    shutil.rmtree(tmp_path / "there")
    printed = jprep("infer", folder, "東京都は", "--tokens", 2, "--backend", "oracle", "--json", env=env)
    reply = json.loads(printed.stdout)
    assert reply["text"] == "東京都は" and reply["continuation"].startswith("は")
    plain = jprep("infer", folder, "東京都は", "--tokens", 2, "--backend", "oracle", env=env)
    assert plain.stdout == reply["text"] + reply["continuation"] + "\n"
    cut = jprep("infer", folder, "東京" * 80, "--backend", "oracle", env=env)
    assert "truncated to its last 32 of" in cut.stderr
    none = jprep("infer", folder, "東京", "--backend", "orakel", env=env, code=2)
    assert "did you mean 'oracle'" in none.stderr
    assert "not UTF-8" in jprep("infer", folder, "東\udcff", env=env, code=2).stderr
    nothing = jprep("infer", tmp_path, "東京", env=env, code=2)
    assert "expected a run or an exported model" in nothing.stderr
    died = jprep("infer", folder, "東京", "--backend", "oracle", env=env | {"ORACLE": "die"}, code=3)
    assert "the tripod fell over" in died.stderr and "Traceback" not in died.stderr


def test_pairs_are_judged(tmp_path: Path, env: dict[str, str], jprep: Run) -> None:
    run = run_of(tmp_path, "classify", "bert", labelled={"length": 32, "pair": "other"})
    printed = jprep("infer", run, "日本", "--pair", "東京", env=env)
    assert printed.stdout == "b  日本\n  b 0.500  a 0.250  c 0.250\n"
    assert "--pair" in jprep("infer", run, "日本", env=env, code=2).stderr
    alone = run_of(tmp_path / "alone", "regress", "roberta")
    assert jprep("infer", alone, env=env, stdin="日本\n".encode()).stdout == "0.2500  日本\n"
    assert "of single texts" in jprep("infer", alone, "日本", "--pair", "東京", env=env, code=2).stderr


def test_a_line_that_is_not_utf_8_does_not_affect_other_lines(tmp_path: Path, env: dict[str, str], jprep: Run) -> None:
    run = run_of(tmp_path, "mlm", "roberta")
    lines = "東京<mask>\n".encode() + b"\xff<mask>\n<mask>"
    printed = jprep("infer", run, "-", "--json", env=env, stdin=lines, code=4)
    first, second, third = map(json.loads, printed.stdout.splitlines())
    assert first["masks"] and third["masks"]
    assert second == {"text": "\\xff<mask>", "error": "it is not UTF-8"}


def test_options_without_effect_are_refused(tmp_path: Path, env: dict[str, str], jprep: Run) -> None:
    masked, continued = run_of(tmp_path / "mlm", "mlm", "roberta"), run_of(tmp_path / "clm", "clm", "gpt2")
    assert "--top-k is for" in jprep("infer", masked, "<mask>", "--top-k", 0, env=env, code=2).stderr
    assert "--top is for" in jprep("infer", continued, "東京", "--top", 5, env=env, code=2).stderr
    for option, value in (("--seed", 2), ("--top-k", 3), ("--top-p", 0.5)):
        said = jprep("infer", continued, "東京", option, value, env=env, code=2).stderr
        assert f"{option} has no effect: without --temperature" in said
    assert "finite" in jprep("infer", continued, "東京", "--temperature", "nan", env=env, code=2).stderr
    assert "finite" in jprep("infer", continued, "東京", "--top-p", "nan", env=env, code=2).stderr


@pytest.mark.parametrize("moment", ["output.opened", "output.renamed@2"])
def test_a_killed_export_keeps_the_previous_one(moment: str, tmp_path: Path, env: dict[str, str], jprep: Run) -> None:
    run = run_of(tmp_path, "mlm", "roberta")
    jprep("export", run, "--which", 5, env=env)
    before = digests(run / "export")
    jprep("export", run, env=env | {"JPREP_FAILPOINT": f"{moment}=die"}, code=-9)
    assert digests(run / "export") == before
    jprep("export", run, env=env)
    assert json.loads((run / "export/export.json").read_bytes())["step"] == 10
    assert not list(run.glob("partial-*"))
