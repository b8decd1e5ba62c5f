"""`jprep status` of training runs: state, step, figures, newest checkpoint, and the command that resumes them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS
from jprep.io.lock import hold_lock
from jprep.train.job.best import NO_IMPROVEMENT
from jprep.train.job.config import CheckpointConfig
from jprep.train.launcher.start_command import StartCommand, write_command
from jprep.train.run.directory import LOCK, checkpoints_of, read_job
from jprep.train.run.events import record_event
from tests.conftest import COMMAND, PATIENCE, Distribution, Run, environment
from tests.fakes.numpy_backend import offer
from tests.fakes.small_run import await_true, small_run
from tests.fakes.small_work import small_work

RUN = Path("work/small/runs/numpy")
WORDS = ("train", "small.toml", "--backend", "numpy", "--set", "train.checkpoint.every_steps=2")


def _lines(shown: str) -> dict[str, str]:
    return dict(line.strip().partition(": ")[::2] for line in shown.splitlines())


def _run(folder: Path, name: str, **changes: Any) -> Path:
    """Create a run with ten steps, a validation and a checkpoint."""
    run = small_run(folder, **changes).rename(folder / name)
    record_event(run, "start", 0)
    record_event(run, "log", 10, {"loss": 2.5, "lr": 0.1})
    record_event(run, "validation", 10, {"loss": 2.75, "accuracy": 0.5})
    with checkpoints_of(run, read_job(run)).saving(10, 2.75) as saved:
        (saved / "weights").write_bytes(b"0")
    return run


def test_a_run_is_training_then_interrupted_and_the_printed_command_finishes_it(
    tmp_path: Path, distribution: Distribution, jprep: Run
) -> None:
    env, folder = offer(distribution), tmp_path / "a folder"
    folder.mkdir()
    small_work(folder)
    slow = environment(**env, PAUSE="2")  # each step: the run does not end before it is looked at
    with subprocess.Popen(
        [COMMAND, *WORDS], cwd=folder, env=slow, start_new_session=True, stderr=subprocess.DEVNULL
    ) as process:
        await_true((folder / RUN / "checkpoints" / "step-00000002" / "COMMIT.json").exists)
        running = _lines(jprep("status", RUN, cwd=folder, env=env).stdout)
        os.killpg(process.pid, signal.SIGKILL)
    assert running["state"] == "training now" and running["next"] == "wait: it is training"
    assert running["step"].endswith(" of 30") and running["last sign of life"].endswith(" s ago")

    stopped = jprep("status", "work/small", cwd=folder, env=env).stdout
    assert "dataset (dataset.json)" in stopped and "tokenizer (card.json)" in stopped
    assert f"{RUN}: a training run (job.json)\n  state: interrupted\n" in stopped
    here = _lines(jprep("status", RUN, cwd=folder, env=env).stdout)
    assert here["next"].endswith(f"jprep {' '.join(WORDS)}") and "cd " not in here["next"]
    assert here["checkpoint"].startswith("checkpoints/step-000000")
    elsewhere = _lines(jprep("status", folder / RUN, cwd=tmp_path, env=env).stdout)["next"]
    assert elsewhere.startswith(f"cd '{folder}' && ")
    subprocess.run(
        elsewhere, shell=True, cwd="/", env=environment(**env), check=True, timeout=PATIENCE, capture_output=True
    )
    [found] = json.loads(jprep("status", folder / RUN, "--json", env=env).stdout)
    assert found["finished"] and found["next"].endswith(f"jprep export '{folder / RUN}'") and found["stages"] == []
    about = found["run"]
    assert (about["state"], about["step"], about["steps"]) == ("finished", 30, 30)
    assert about["checkpoint"] == "checkpoints/step-00000030" and about["validation"]["step"] == 30


def test_all_runs_of_a_folder_are_listed_with_their_states(tmp_path: Path, jprep: Run) -> None:
    runs = tmp_path / "work" / "runs"
    runs.mkdir(parents=True)
    failed, held = _run(runs, "failed"), _run(runs, "held")
    reason = "the loss is not finite\x1b[31m\n  where: step 10\n  fix:   lower it"
    record_event(failed, "end", 10, {"code": 4.0}, reason)
    _run(runs, "unknown").joinpath("job.json").write_text("{")
    write_command(failed, StartCommand(("train", "a recipe.toml"), str(tmp_path)))
    small_run(runs).rename(runs / "new")
    with hold_lock(held / LOCK):
        shown = jprep("status", "work", cwd=tmp_path).stdout
        found = {Path(each["path"]).name: each for each in json.loads(jprep("status", runs, "--json").stdout)}
    blocks = {Path(block.partition(":")[0]).name: block for block in shown.split("work/runs/")}
    assert "state: failed" in blocks["failed"] and "\x1b" not in shown
    assert "reason: the loss is not finite\\x1b[31m; where: step 10; fix: lower it\n" in blocks["failed"]
    assert "train 'a recipe.toml'\n" in blocks["failed"]
    assert "  step: 10 of 60\n  loss: 2.5000 at step 10\n" in blocks["failed"]
    assert "  validation: loss 2.7500, accuracy 0.5000 at step 10\n" in blocks["failed"]
    assert "  checkpoint: checkpoints/step-00000010\n" in blocks["held"] and "training now" in blocks["held"]
    assert "state: not started" in blocks["new"] and "next: repeat the command that started it" in blocks["new"]
    assert "state: unknown" in blocks["unknown"] and "job.json is damaged" in blocks["unknown"]
    states = {name: each["run"]["state"] for name, each in found.items() if each["run"]}
    assert states == {"failed": "failed", "held": "running", "new": "not started", "unknown": "unknown"}


@pytest.mark.parametrize(
    "place", ["run", "run/fold-0", "runs/run", "runs/run/fold-1", "chat/runs/run", "chat/runs/run/fold-1"]
)
def test_runs_are_found_where_commands_write_them(tmp_path: Path, place: str, jprep: Run) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    small_run(tmp_path / "made").rename(tmp_path / place)
    shown = json.loads(jprep("status", tmp_path, "--json").stdout)
    assert [each["path"] for each in shown if each["run"]] == [str(tmp_path / place)]
    others = {each["path"] for each in shown if not each["run"]}
    assert others <= {str(tmp_path / "made" / "dataset")}, "a directory of folds is not shown besides its runs"


def test_a_folder_of_recipes_folders_shows_the_outputs_of_all(tmp_path: Path, jprep: Run) -> None:
    small_work(tmp_path)
    small, other = tmp_path / "work" / "small", tmp_path / "work" / "other"
    shutil.copytree(small / "tokenizer", tmp_path / "work" / "tokenizer")
    shutil.copytree(small / "tokenizer", other / "tokenizer")
    (other / "runs").mkdir()
    _run(other / "runs", "torch")
    (tmp_path / "work" / "empty").mkdir()
    found = {each["path"]: each["kind"] for each in json.loads(jprep("status", "work", "--json", cwd=tmp_path).stdout)}
    outputs = {
        "work/tokenizer",
        *(f"work/{place}" for place in ("small/tokenizer", "small/dataset", "other/tokenizer")),
    }
    assert found.keys() == {*outputs, "work/other/runs/torch"}


def test_the_next_step_of_a_finished_run_is_its_export(tmp_path: Path, jprep: Run) -> None:
    run = _run(tmp_path, "done")
    record_event(run, "end", 10, {"code": 0.0})
    assert _lines(jprep("status", run).stdout)["next"].endswith(f"jprep export {run}")
    (run / "export").mkdir()
    (run / "export" / "export.json").write_text("{}")
    assert _lines(jprep("status", run).stdout)["next"].endswith(f"jprep export {run}")
    record = {"format": 1, "jprep": "0", "name": "a", "task": "mlm", "backend": "torch", "step": 5, "dtype": "fp32"}
    special = {"before": [], "after": [], "pad": 0, "mask": 4, "special": [], "vocab_size": 9}
    record |= {"parameters": 1, "special": special, "end": -1, "files": {}}
    (run / "export" / "export.json").write_text(json.dumps(record))
    assert _lines(jprep("status", run).stdout)["next"].endswith(f"jprep export {run}"), "step 10 is not exported"
    (run / "export" / "export.json").write_text(json.dumps(record | {"step": 10}))
    shown = _lines(jprep("status", run).stdout)["next"]
    assert shown == f"nothing: it is finished, and its step 10 is exported to {run / 'export'}"
    shutil.rmtree(run / "checkpoints")  # to free the disk
    assert _lines(jprep("status", run).stdout)["next"] == shown
    run.rename(tmp_path / "fold-0")
    assert _lines(jprep("status", tmp_path / "fold-0").stdout)["next"] == "nothing: it is finished"


def test_a_run_that_ended_early_says_why_and_exports_its_best_checkpoint(tmp_path: Path, jprep: Run) -> None:
    run = _run(tmp_path, "early", steps=20, checkpoint=CheckpointConfig(keep_best=1))
    record_event(run, "end", 10, {"code": 0.0}, NO_IMPROVEMENT)
    shown = _lines(jprep("status", run).stdout)
    assert shown["reason"] == NO_IMPROVEMENT
    assert shown["next"].endswith(f"jprep export {run} --which best")


def test_nothing_is_advised_for_a_folder_that_jprep_never_wrote(tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    shown = jprep("status", tmp_path).stdout
    assert "no output" in shown and _lines(shown)["next"] == "nothing: jprep has not written to this folder"


def test_a_running_build_is_shown_as_running_until_it_ends(tmp_path: Path, jprep: Run) -> None:
    folder = tmp_path / "work" / "corpus"
    with OutputDirectory(folder, CORPUS).claim():
        begun = jprep("status", tmp_path / "work").stdout
        (folder / ".state" / "documents").mkdir()
        (folder / ".state" / "documents" / "stage.json").write_bytes(b"{}")
        shown = jprep("status", folder).stdout
        [found] = json.loads(jprep("status", folder, "--json").stdout)
    stopped = jprep("status", folder).stdout
    for text in (begun, shown):
        assert _lines(text)["state"] == "running now" and _lines(text)["next"] == "wait: it is running"
    assert "an unfinished corpus (.state/LOCK)" in shown and found["running"]
    assert "running now" not in stopped and _lines(stopped)["next"] == "repeat the command that started it"
