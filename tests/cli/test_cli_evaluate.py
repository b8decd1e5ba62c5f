"""`jprep evaluate`, as a user runs it, with a backend in numpy that really trains."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from jprep.dataset.manifest import read_dataset
from jprep.train.evaluation.records import Evaluation, add_evaluation, read_evaluations
from jprep.train.run.directory import HEARTBEAT, read_job
from jprep.train.run.events import metric_rows, read_events
from tests.conftest import COMMAND, Distribution, Run, digests, environment
from tests.fakes import labelled_run
from tests.fakes.numpy_backend import offer
from tests.fakes.small_dataset import lay_out
from tests.fakes.small_run import await_true
from tests.fakes.small_work import small_work

RUN = Path("work/small/runs/numpy")
WHOLE = ["--set", "train.validation.batches=0"]


class Workspace(NamedTuple):
    folder: Path
    env: dict[str, str]
    jprep: Run

    def evaluate(self, *more: object, **options: Any) -> subprocess.CompletedProcess[str]:
        options["env"] = self.env | options.get("env", {})
        return self.jprep("evaluate", RUN, *more, cwd=self.folder, **options)

    def figures(self, *more: object) -> dict[str, Any]:
        return json.loads(self.evaluate(*more, "--json").stdout)

    def recorded(self) -> list[Evaluation]:
        return read_evaluations(self.run, read_job(self.run))

    @property
    def run(self) -> Path:
        return self.folder / RUN


@pytest.fixture
def workspace(tmp_path: Path, distribution: Distribution, jprep: Run) -> Workspace:
    small_work(tmp_path)
    made = Workspace(tmp_path, offer(distribution), jprep)
    jprep("train", "small.toml", "--backend", "numpy", *WHOLE, cwd=tmp_path, env=made.env)
    return made


def validations(run: Path) -> dict[int, dict[str, float]]:
    return metric_rows(read_events(run), "validation")


def test_a_checkpoint_is_measured_as_in_training(workspace: Workspace) -> None:
    before = digests(workspace.run)
    done = workspace.evaluate()
    assert f"validation of {Path('work/small/dataset')}" in done.stdout and "step 30" in done.stdout
    assert f"jprep export {RUN} --which 30" in done.stdout
    found = workspace.figures()
    assert found["figures"]["loss"] == validations(workspace.run)[30]["loss"]
    assert found["figures"]["perplexity"] == pytest.approx(2.718281828459045 ** found["figures"]["loss"])
    assert workspace.figures("--which", 20)["figures"]["loss"] == validations(workspace.run)[20]["loss"]
    recorded = workspace.recorded()
    assert [one.step for one in recorded] == [20, 30], "an evaluation replaces an earlier one on the same rows"
    after = {name: digest for name, digest in digests(workspace.run).items() if "evaluations" not in name}
    assert after == before, "nothing else in the run directory changes"


def test_the_initial_weights_are_measured(workspace: Workspace) -> None:
    done = workspace.evaluate("--which", "initial")
    assert "initial weights, step 0" in done.stdout and "jprep export" not in done.stdout
    found = workspace.figures("--which", "initial")
    assert found["initial"] and found["figures"]["loss"] > workspace.figures()["figures"]["loss"]
    assert [(one.step, one.initial) for one in workspace.recorded()] == [(0, True), (30, False)]
    weights = workspace.run / "init.safetensors"
    assert found["checkpoint"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "initial weights are damaged" in workspace.evaluate("--which", "initial", code=4).stderr
    weights.unlink()
    assert "has no initial weights" in workspace.evaluate("--which", "initial", code=2).stderr
    workspace.jprep("train", "small.toml", "--backend", "numpy", *WHOLE, cwd=workspace.folder, env=workspace.env)
    assert workspace.figures("--which", "initial") == found, "the same `jprep train` writes them again"


def test_splits_are_chosen_and_rows_of_the_training_are_pointed_out(workspace: Workspace) -> None:
    whole = workspace.figures("--split", "train")
    assert whole["seen"] and whole["split"] == "train"
    assert "was trained on these rows" in workspace.evaluate("--split", "train").stderr
    assert "available splits: train, validation" in workspace.evaluate("--split", "test", code=2).stderr
    other = workspace.folder / "other"
    dataset = read_dataset(workspace.folder / "work/small/dataset")
    documents = [[[[10, 11, 12, 13] * 20]] for _ in range(8)]
    fields = {"made_from": dataset.made_from, "vocab_size": dataset.vocab_size, "fingerprint": "1" * 32}
    lay_out(other, {"train": documents[:2], "validation": documents[:3], "test": documents}, **fields)
    found = workspace.figures("--data", other)
    assert (found["split"], found["data"], found["seen"]) == ("test", [str(other)], False)
    assert not workspace.figures("--data", other, "--split", "train")["seen"], "the run was trained on other rows"


def test_the_command_is_suggested_after_a_training_with_a_test_split(workspace: Workspace) -> None:
    train = ["train", "small.toml", "--backend", "numpy"]
    plain = workspace.jprep(*train, *WHOLE, cwd=workspace.folder, env=workspace.env).stdout
    assert "jprep export" in plain and "jprep evaluate" not in plain
    dataset = workspace.folder / "work/small/dataset"
    made = read_dataset(dataset)
    splits = dict.fromkeys(("train", "validation", "test"), [[[[10, 11, 12, 13] * 20]]] * 40)
    lay_out(dataset, splits, made_from=made.made_from, vocab_size=made.vocab_size, fingerprint="2" * 32)
    said = workspace.jprep(*train, "--name", "other", cwd=workspace.folder, env=workspace.env).stdout
    run = "work/small/runs/other"
    assert said.index(f"jprep evaluate {run}") < said.index(f"jprep export {run}")
    evaluated = workspace.jprep("evaluate", run, cwd=workspace.folder, env=workspace.env).stdout
    assert "test of work/small/dataset" in evaluated


def test_what_does_not_fit_the_run_is_refused(workspace: Workspace) -> None:
    def said(*more: object, code: int = 2) -> str:
        return workspace.evaluate(*more, code=code).stderr

    other = lay_out(workspace.folder / "other", {"test": [[[[10, 11]]]]})
    assert "packed with another tokenizer" in said("--data", other)
    assert "expected a dataset, as the task of the run is mlm" in said("--data", "small.toml")
    assert "the run is evaluated by numpy" in said("--set", "train.backend.torch.processes=2")
    assert "expected one dataset, got 2" in said("--data", other, "--data", other)
    assert "there is no checkpoint '7'" in said("--which", 7) and "--which initial" in said("--which", 7)
    assert "has no labelled rows" in said("--data", other, "--set", "train.labelled.text=a")
    assert "keys of train, not of dataset" in said("--set", "dataset.test=0.1")
    assert "available: backend, batch, labelled, precision" in said("--set", "train.steps=4")
    assert "micro_batch" in said("--set", "train.backend.numpy.micro_batch=3"), "an error of the planner"
    missing = workspace.jprep("evaluate", "work", cwd=workspace.folder, env=workspace.env, code=2).stderr
    assert f"give {RUN}" in missing


def test_damaged_data_and_checkpoints_are_refused(workspace: Workspace) -> None:
    tokens = workspace.folder / "work/small/dataset/validation.bin"
    whole = tokens.read_bytes()
    tokens.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "validation.bin" in workspace.evaluate(code=2).stderr
    tokens.write_bytes(whole)
    weights = workspace.run / "checkpoints/step-00000030/weights.npy"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "the checkpoint is damaged" in workspace.evaluate(code=4).stderr
    assert workspace.figures("--which", 20)["step"] == 20


def test_an_error_of_the_worker_is_the_error_of_the_command(workspace: Workspace) -> None:
    refused = workspace.evaluate(env={"REFUSE_AT": "30"}, code=2)
    assert "a restart does not fix this" in refused.stderr and "Traceback" not in refused.stderr
    crashed = workspace.evaluate(env={"CRASH_AT": "30"}, code=3)
    assert "the worker of numpy ended with code 7: a worker begins after step 30" in crashed.stderr
    full = workspace.evaluate(env={"MEMORY_AT": "30", "MEMORY": "numpy"}, code=3)
    assert "out of memory" in full.stderr
    assert not workspace.recorded()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_evaluation_leaves_nothing(number: signal.Signals, workspace: Workspace, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = environment(**workspace.env, MEMORY_AT="0", HANG_AT="30", TMPDIR=str(temporary))
    with subprocess.Popen([COMMAND, "evaluate", RUN], cwd=workspace.folder, env=env) as process:
        await_true(lambda: any(temporary.glob(f"jprep-evaluate-*/{HEARTBEAT}")))
        process.send_signal(number)
        assert process.wait() == 130
    assert not any(temporary.iterdir()) and not workspace.recorded()


def test_figures_that_cannot_be_recorded_are_shown(workspace: Workspace) -> None:
    (workspace.run / "evaluations").touch()
    said = workspace.evaluate()
    assert "loss" in said.stdout and "the figures are not recorded" in said.stderr


def test_rows_with_labels_are_measured(tmp_path: Path, distribution: Distribution, jprep: Run) -> None:
    env = offer(distribution)
    labelled_run.tokenizer(tmp_path / "tokenizer")
    labelled_run.rows(tmp_path / "rows.jsonl")
    recipe = (
        'name = "rows"\n[train]\ntask = "classify"\nmodel = { preset = "bert-tiny" }\nbatch = 8\nsteps = 12\n'
        'data = ["rows.jsonl"]\nlabelled = { length = 24, folds = 3, stratify = "label" }\n'
        "validation = { every_steps = 6 }\n"
    )
    (tmp_path / "rows.toml").write_text(recipe)
    train = ["train", "rows.toml", "--backend", "numpy", "--tokenizer", "tokenizer", "-o", "run"]
    jprep(*train, cwd=tmp_path, env=env)

    def figures(*more: object) -> dict[str, Any]:
        return json.loads(jprep("evaluate", "run", *more, "--json", cwd=tmp_path, env=env).stdout)

    held_out = figures()
    assert held_out["figures"] == pytest.approx(validations(tmp_path / "run")[12])
    assert (held_out["split"], held_out["rows"]) == ("fold 0 of 3", 15)
    labelled_run.rows(tmp_path / "test.jsonl", count=10, start=100)
    other = figures("--data", "test.jsonl")
    assert (other["rows"], other["name"], other["seen"]) == (10, "test.jsonl", False)
    assert 0 <= other["figures"]["accuracy"] <= 1
    assert other["counts"] == {"rows": 10, "truncated": 0, "empty": 0}
    rows = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    table = "".join(f"{row['text']},{row['label']},{row['label']}\n" for row in rows)
    (tmp_path / "test.csv").write_text(f"本文,評価,別\n{table}", encoding="cp932")
    columns = [
        word for key in ("text=本文", "label=評価", "encoding=cp932") for word in ("--set", f"train.labelled.{key}")
    ]
    assert figures("--data", "test.csv", *columns)["figures"] == other["figures"]
    figures("--data", "test.csv", *columns[:2], "--set", "train.labelled.label=別", *columns[4:])
    shown = [one.title for one in read_evaluations(tmp_path / "run", read_job(tmp_path / "run"))]
    assert "test.csv (text 本文, label 評価)" in shown and "test.csv (text 本文, label 別)" in shown
    undecoded = jprep("evaluate", "run", "--data", "test.csv", *columns[:4], cwd=tmp_path, env=env, code=4).stderr
    assert "set train.labelled.encoding" in undecoded
    assert "or give --data FILE" in jprep("evaluate", "run", *columns, cwd=tmp_path, env=env, code=2).stderr
    twice = jprep("evaluate", "run", *["--data", "test.jsonl"] * 2, cwd=tmp_path, env=env, code=2).stderr
    assert "given twice" in twice
    folder = jprep("evaluate", "run", "--data", tmp_path, cwd=tmp_path, env=env, code=2).stderr
    assert "expected a file, got a directory" in folder
    labelled_run.rows(tmp_path / "test.jsonl", count=10, start=200)
    again = figures("--data", "test.jsonl")
    recorded = read_evaluations(tmp_path / "run", read_job(tmp_path / "run"))
    hashes = [one.made_from for one in recorded]
    assert again["made_from"] in hashes and other["made_from"] not in hashes, "the file was changed"
    assert figures("--data", "rows.jsonl")["seen"]
    (tmp_path / "odd.jsonl").write_text('{"text": "東京", "label": "未知"}\n')
    odd = jprep("evaluate", "run", "--data", "odd.jsonl", cwd=tmp_path, env=env, code=4).stderr
    assert "未知" in odd and "odd.jsonl" in odd
    assert (
        "--split is for datasets" in jprep("evaluate", "run", "--split", "test", cwd=tmp_path, env=env, code=2).stderr
    )
    shutil.copy(tmp_path / "test.jsonl", tmp_path / "rows.jsonl")
    assert "rows.jsonl is not what the run began with" in jprep("evaluate", "run", cwd=tmp_path, env=env, code=2).stderr


def test_records_of_other_jobs_and_damaged_ones_are_left_out(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    workspace.evaluate()
    [found] = workspace.recorded()
    others = {"job": "0" * 32, "checkpoint": "1" * 32}
    for field, value in others.items():
        add_evaluation(workspace.run, msgspec.structs.replace(found, **{field: value}))
        assert workspace.recorded() == [], f"these are figures of another {field}"
    path = add_evaluation(workspace.run, found)
    assert workspace.recorded() == [found]
    path.write_bytes(path.read_bytes().replace(b'"rows"', b'"row5"'))
    assert workspace.recorded() == [] and "the figures of an evaluation are left out" in caplog.text


def test_a_variable_of_an_evaluation_does_not_reach_a_training(workspace: Workspace) -> None:
    train = ["train", "small.toml", "--backend", "numpy", "--name", "leak"]
    workspace.jprep(*train, cwd=workspace.folder, env=workspace.env | {"JPREP_EVALUATE": "validation"})
    assert max(validations(workspace.folder / "work/small/runs/leak")) == 30
