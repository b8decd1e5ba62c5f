"""`jprep run` with the executor slurm submits its training, with stand-ins for Slurm's commands."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jprep import samples
from jprep.engine.executors.queued import Submitted
from jprep.errors import ConfigError, MachineError, MismatchError
from jprep.pipeline.run import RunPlan, RunReporter, execute_plan, plan_run, run_step
from jprep.pipeline.submitted_training import plan_submission
from jprep.train.hosts.submission import submit_training
from jprep.train.job.config import Job
from jprep.train.job.fingerprint import job_fingerprint
from jprep.train.optimization.schedule import ScheduleConfig
from jprep.train.run.directory import open_run
from jprep.train.run.events import record_event
from tests.fakes.small_dataset import SPLITS, lay_out
from tests.fakes.small_run import job_of

WORDS = ["run", "recipe.toml", "--executor", "slurm"]
SBATCH = "#!/bin/sh\ncat > job.sh\necho >> submitted\nrm -f looks\necho 12\n"
SQUEUE = """#!/bin/sh
[ -e busy ] && { rm busy; echo 'Socket timed out' >&2; exit 1; }
[ -e looks ] && { [ -e ended ] && cp -r ended/. work/quickstart/runs/numpy; exit 0; }
touch looks
echo '12|RUNNING|n0|None'
"""
RUN = Path("work/quickstart/runs/numpy")


class Recorder(RunReporter):
    """Records what a run reports, and never trains."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def command(self) -> list[str]:
        return WORDS

    def note(self, text: str) -> None:
        self.said.append(text.strip())

    def result(self, text: str) -> None:
        self.said.append(text)

    def train(self, prepared: object) -> int:
        raise AssertionError


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which job 12 is submitted; it ends after Slurm was asked once, with what is in `ended`."""
    for name, text in {"sbatch": SBATCH, "squeue": SQUEUE}.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("jprep.pipeline.submitted_training.time.sleep", lambda seconds: None)
    monkeypatch.delenv("JPREP_REQUEUE", raising=False)
    monkeypatch.chdir(tmp_path)
    samples.write_sample(tmp_path)
    RUN.mkdir(parents=True)
    lay_out(tmp_path / "dataset", SPLITS)
    return tmp_path


def plan_steps(folder: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> Job:
    """Let the recipe's training have so many steps, whose number only its data tells; return its job."""
    data = folder / "dataset"
    job = job_of(data, folder / RUN, steps=steps, made_from={"dataset": "x"}, schedule=ScheduleConfig(kind="constant"))
    own = job_fingerprint(job.train, job.model, steps, job.made_from, job.computed)
    job = msgspec.structs.replace(job, fingerprint=own, dataset=str(data))
    monkeypatch.setattr("jprep.pipeline.submitted_training.build_run_job", lambda *of, **more: job)
    saved = [SimpleNamespace(step=steps)]
    store = SimpleNamespace(committed=lambda: saved)
    monkeypatch.setattr("jprep.pipeline.submitted_training.checkpoints_of", lambda run, job: store)
    return job


def end(run: Path, job: Job | None, **figures: float | None) -> None:
    """Let a run of a job end."""
    if job:
        open_run(run, job)
    run.mkdir(exist_ok=True)
    record_event(run, "end", job.steps if job else 0, figures)


def planned(folder: Path, **settings: Any) -> RunPlan:
    recipe = next(folder.glob("*.toml"))
    return plan_run(recipe, set={"train.steps": 0, "train.epochs": 3, **settings}, backend="numpy", executor="slurm")


def train(plan: RunPlan) -> tuple[int, list[str]]:
    reporter = Recorder()
    return run_step(plan, "train", reporter), reporter.said


def test_the_command_waits_for_the_job_of_its_training(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end(slurm / "ended", plan_steps(slurm, monkeypatch, 20), code=0)
    code, said = train(planned(slurm))
    assert code == 0 and said[1:] == ["job 12 is running on n0", "trained by job 12"]
    log = slurm / "work" / "quickstart" / "runs" / "numpy.jobs" / "12.log"
    assert said[0] == f"submitted as job 12; log {log}"
    script = Path("job.sh").read_text()
    assert script.rstrip().endswith("-m jprep run recipe.toml --executor slurm --set train.hosts=none")
    assert "export JPREP_REQUEUE=slurm" in script and "#SBATCH --job-name=quickstart-numpy" in script


def test_a_finished_training_is_not_submitted(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end(slurm / RUN, plan_steps(slurm, monkeypatch, 20), code=0)
    assert train(planned(slurm)) == (0, ["trained"]) and not Path("submitted").exists()


def test_a_training_that_no_longer_improved_is_finished(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended before its last step; see `validation.patience`."""
    job = plan_steps(slurm, monkeypatch, 20)
    patient = msgspec.structs.replace(job.train.validation, every_steps=2, patience=2)
    job = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, validation=patient))
    job = msgspec.structs.replace(
        job, fingerprint=job_fingerprint(job.train, job.model, job.steps, job.made_from, job.computed)
    )
    monkeypatch.setattr("jprep.pipeline.submitted_training.build_run_job", lambda *of, **more: job)
    saved = SimpleNamespace(committed=lambda: [SimpleNamespace(step=6)])
    monkeypatch.setattr("jprep.pipeline.submitted_training.checkpoints_of", lambda run, job: saved)
    open_run(slurm / RUN, job)
    for step, loss in ((2, 3.0), (4, 3.5)):
        record_event(slurm / RUN, "validation", step, {"loss": loss})
    record_event(slurm / RUN, "end", 4, {"code": 0})
    assert train(planned(slurm))[0] == 1 and Path("submitted").exists()  # only one validation without improvement
    Path("submitted").unlink()
    Path("looks").unlink(missing_ok=True)
    record_event(slurm / RUN, "validation", 6, {"loss": 3.1})
    record_event(slurm / RUN, "end", 6, {"code": 0})
    assert train(planned(slurm)) == (0, ["trained"]) and not Path("submitted").exists()


def test_a_training_with_more_steps_than_before_is_submitted(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end(slurm / RUN, plan_steps(slurm, monkeypatch, 20), code=0)
    plan_steps(slurm, monkeypatch, 30)
    monkeypatch.setattr(
        "jprep.pipeline.submitted_training.checkpoints_of",
        lambda run, job: SimpleNamespace(committed=lambda: [SimpleNamespace(step=20)]),
    )
    code, said = train(planned(slurm))
    assert code == 1 and "extended to 30" in said[0] and "ended before the training was finished" in said[-1]


def test_a_finished_training_of_another_job_is_refused(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end(slurm / RUN, plan_steps(slurm, monkeypatch, 20), code=0)
    plan_steps(slurm, monkeypatch, 10)
    with pytest.raises(MismatchError):
        train(planned(slurm))
    assert not Path("submitted").exists()


def test_a_training_whose_hooks_cannot_be_checked_here_is_submitted(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = plan_steps(slurm, monkeypatch, 20)
    end(slurm / RUN, job, code=0)

    def fail(*of: object, **more: object) -> Job:
        raise MachineError("not installed")

    monkeypatch.setattr("jprep.pipeline.submitted_training.build_run_job", fail)
    assert train(planned(slurm))[0] == 1  # nothing new was recorded


def test_a_job_that_is_running_is_not_submitted_again(slurm: Path) -> None:
    plan = planned(slurm, **{"executor.wait": False})
    for _ in range(2):
        with pytest.raises(Submitted, match="the training is job 12, with the log") as left:
            train(plan)
    assert left.value.exit_code == 0 and "scancel 12" in left.value.fix
    assert Path("submitted").read_text() == "\n"
    with pytest.raises(Submitted):
        train(plan)  # Slurm does not have it any more
    assert Path("submitted").read_text() == "\n\n"


def test_of_two_commands_at_once_one_submits(slurm: Path) -> None:
    job = plan_submission(planned(slurm), WORDS)
    assert job
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(submit_training(job).is_new)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False, True] and Path("submitted").read_text() == "\n"


@pytest.mark.parametrize("code", [3, None])
def test_a_job_that_ends_early_is_named_with_its_log(slurm: Path, code: int | None) -> None:
    end(slurm / RUN, None, code=4)  # of an earlier job
    if code:
        end(slurm / "ended", None, code=4)
        end(slurm / "ended", None, code=code)
    found, said = train(planned(slurm))
    assert found == (code or 1) and "ended before the training was finished" in said[-1] and "12.log" in said[-1]


def test_what_a_network_file_system_shows_late_is_waited_for(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SimpleNamespace(shared=True)
    monkeypatch.setattr("jprep.pipeline.submitted_training.file_system_of", lambda path: shared)

    def sleep(seconds: float) -> None:
        if seconds == 2.0:  # the job has ended
            end(slurm / RUN, None, code=3)

    monkeypatch.setattr("jprep.pipeline.submitted_training.time.sleep", sleep)
    assert train(planned(slurm))[0] == 3


def test_while_slurm_does_not_answer_the_command_warns_once(slurm: Path, caplog: pytest.LogCaptureFixture) -> None:
    Path("busy").touch()
    assert train(planned(slurm))[0] == 1
    assert len([one for one in caplog.records if "squeue failed" in one.message]) == 1


def test_wrong_resources_are_refused_before_the_first_step(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jprep.pipeline.run.check_steps", lambda *of, **more: None)  # no backend is installed
    with pytest.raises(ConfigError, match="nodes is 0"):
        execute_plan(planned(slurm, **{"train.submit.nodes": 0}), Recorder())
    assert not Path("work/quickstart/corpus").exists()


def test_trainings_that_are_not_submitted(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(slurm)
    assert plan_submission(plan, WORDS) is not None
    assert plan_submission(plan, []) is None  # the library has no command
    assert plan_submission(plan._replace(executor="local"), WORDS) is None
    assert plan_submission(plan._replace(steps=["corpus"]), WORDS) is None
    monkeypatch.setenv("JPREP_REQUEUE", "slurm")  # it is the job
    assert plan_submission(plan, WORDS) is None
