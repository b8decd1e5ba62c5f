"""The scripts of schedulers and their answers."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from jprep.engine.schedulers.choice import find_scheduler
from jprep.engine.schedulers.job import ELEMENT, Job, JobState, Resources, clock, seconds
from jprep.errors import ConfigError, MachineError
from tests.fakes.batch_scheduler import KINDS, install, parse

ASKED = Resources(
    partition="long", account="abc", time="1-00:00:00", memory="16G", cpus=4, gpus=1, setup=["module load x"]
)


def job(elements: list[int] | None, **fields: object) -> Job:
    words = ["python", "-m", "jprep", "work", "a b", "--index", ELEMENT]
    known = {"name": "jprep-words", "command": words, "logs": Path("/logs"), "folder": Path("/project/me")}
    return Job(**(known | {"resources": ASKED, "elements": elements} | fields))  # type: ignore[arg-type]


def head(name: str, asked: Job) -> list[str]:
    lines = find_scheduler(name).script(asked).splitlines()
    prefix = find_scheduler(name).prefix
    return [line.removeprefix(f"{prefix} ") for line in lines if line.startswith(f"{prefix} ")]


def test_slurm_options() -> None:
    assert head("slurm", job([0, 1, 2], after=["7", "8"])) == [
        "--job-name=jprep-words",
        "--array=0-2",
        "--dependency=afterany:7:8",
        "--partition=long",
        "--account=abc",
        "--time=1-00:00:00",
        "--mem=16G",
        "--cpus-per-task=4",
        "--gpus-per-node=1",
        "--signal=B:USR1@120",
        "--output=/logs/%A_%a.scheduler",
        "--open-mode=append",
        "--requeue",
    ]


def test_pbs_options() -> None:
    options = head(
        "pbs", job([0, 1, 2], after=["7[].here"], resources=Resources(time="24:00:00", memory="16G", cpus=4))
    )
    assert "-J 0-2" in options and "-W depend=afterany:7[].here" in options and "-l walltime=24:00:00" in options
    assert "-l select=1:ncpus=4:mem=16gb" in options and "-r y" in options
    assert parse(KINDS["pbs"], find_scheduler("pbs").script(job([0, 1], resources=Resources(time="1:00:00"))))


def test_grid_engine_options() -> None:
    options = head("grid-engine", job([0, 1, 2], after=["7"]))
    assert {"-t 1-3", "-hold_jid 7", "-pe smp 4", "-l h_rt=24:00:00", "-l s_rt=23:58:00"} <= set(options)
    assert parse(KINDS["grid-engine"], find_scheduler("grid-engine").script(job([0, 1])))


def test_a_job_of_several_nodes() -> None:
    options = head("slurm", job(None, nodes=2, tasks_per_node=4, warn_steps=True, launcher=["srun"]))
    assert {"--nodes=2", "--ntasks-per-node=4", "--signal=USR1@120"} <= set(options)
    assert "exec srun python" in find_scheduler("slurm").script(job(None, launcher=["srun"]))


@pytest.mark.parametrize("name", ["slurm", "pbs", "grid-engine"])
@pytest.mark.parametrize(("elements", "index", "expected"), [([0, 1, 2], 1, 1), ([3, 7, 9], 2, 9), ([5], None, 5)])
def test_scripts_pass_the_number_of_the_element(
    name: str, elements: list[int], index: int | None, expected: int, tmp_path: Path
) -> None:
    command = ["printf", "[%s]", "it's", ELEMENT]
    script = find_scheduler(name).script(job(elements, command=command, logs=tmp_path, folder=tmp_path))
    first = 1 if name == "grid-engine" else 0
    names = {"slurm": "SLURM_ARRAY_TASK_ID", "pbs": "PBS_ARRAY_INDEX", "grid-engine": "SGE_TASK_ID"}
    ids = {"SLURM_ARRAY_JOB_ID": "12", "PBS_JOBID": "12[3].here", "JOB_ID": "12"}
    env = ids | ({names[name]: str(index + first)} if index is not None else {})
    subprocess.run(["bash"], input=script.replace("module load x", "true"), text=True, env=env, check=True)
    [log] = tmp_path.glob("*.log")
    assert (log.name, log.read_text()) == (f"12_{expected}.log", f"[it's][{expected}]")


def test_times() -> None:
    assert [seconds(each) for each in ("30", "2:00", "1:00:30", "1-0", "2-03:00:00")] == [
        1800,
        120,
        3630,
        86400,
        183600,
    ]
    assert clock(183600) == "51:00:00"
    with pytest.raises(ConfigError, match="not a time limit"):
        seconds("soon")


@pytest.mark.parametrize("name", ["slurm", "pbs", "grid-engine"])
def test_a_missing_program_is_named(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=f"{find_scheduler(name).program} was not found"):
        find_scheduler(name).submit(job([0]))


@pytest.mark.parametrize("name", ["pbs", "grid-engine"])
def test_a_refused_job(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable, value in install(name, tmp_path).items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(MachineError, match=r"refused the job: .*illegal option .*--gres=gpu"):
        find_scheduler(name).submit(job([0], resources=Resources(options=["--gres=gpu"])))


@pytest.mark.parametrize("name", ["pbs", "grid-engine"])
@pytest.mark.parametrize("folder", ["a b", "a:b", "a,b", "$HOME", "a#b", "it's"])
def test_paths_of_logs_are_quoted(name: str, folder: str) -> None:
    found = parse(KINDS[name], find_scheduler(name).script(job([0, 1], logs=Path("/logs") / folder)))
    assert found["-o"][0].strip(":/") in (f"logs/{folder}", "dev/null")
    if folder == "a b":
        assert "/dev/null" not in found["-o"]


def test_a_job_that_is_submitted_with_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = 'warning: no queue is suitable\nYour job-array 12.1-3:1 ("n") has been submitted\nExiting.'
    (tmp_path / "qsub").write_text(f"#!/bin/sh\ncat >/dev/null\necho '{said}' >&2\nexit 1\n")
    (tmp_path / "qsub").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_scheduler("grid-engine").submit(job([0, 1, 2])) == "12"


def list_job(fields: str, folder: Path, monkeypatch: pytest.MonkeyPatch, reason: str = "") -> JobState:
    """Return the job 7 as Grid Engine's `qstat` lists it with these fields, and with a reason if it is asked for it."""
    job = f"<job_list><JB_job_number>7</JB_job_number>{fields}</job_list>"
    listed = f"<job_info><queue_info/><job_info>{job}</job_info></job_info>"
    (folder / "qstat").write_text(f'#!/bin/sh\n[ "$1" = -j ] && echo "{reason}" || echo "{listed}"\n')
    (folder / "qstat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    [found] = find_scheduler("grid-engine").states(["7"])
    return found


def test_why_a_job_is_in_an_error_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reason = "error reason          1:      11/24/2026 21:58:28 [0:8766]: error: can't open output file"
    fields = "<state>Eqw</state><queue_name></queue_name><tasks>2,5</tasks>"
    found = list_job(fields, tmp_path, monkeypatch, reason)
    assert (found.element, found.state, found.reason) == ("2,5", "held", "error: can't open output file")


def test_a_held_job_of_grid_engine_says_how_to_release_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = list_job("<state>hqw</state><queue_name></queue_name>", tmp_path, monkeypatch)
    assert found.state == "held" and "qhold" in found.reason and "`qrls 7`" in found.reason


def test_a_time_in_another_form_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fields = "<state>t</state><JAT_start_time>1795819881</JAT_start_time><queue_name>main@node1</queue_name>"
    assert list_job(fields, tmp_path, monkeypatch).state == "running"


@pytest.mark.parametrize(("minutes", "state"), [(1, "running"), (6, "held")])
def test_a_job_that_a_host_never_takes(
    minutes: int, state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A host that fails while Grid Engine sends it a job may never get it."""
    begun = (datetime.now() - timedelta(minutes=minutes)).isoformat(timespec="seconds")
    place = f"<JAT_start_time>{begun}</JAT_start_time><queue_name>main@node1</queue_name>"
    found = list_job(f"<state>Rt</state>{place}", tmp_path, monkeypatch)
    assert (found.state, found.host) == (state, "node1")
    assert ("`qmod -rj 7.1`" in found.reason) == (state == "held")


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("PENDING", "Priority", "pending"),
        ("PENDING", "JobHeldUser", "held"),
        ("PENDING", "JobHeldAdmin", "held"),
        ("PENDING", "launch failed requeued held", "held"),
        ("CONFIGURING", "None", "pending"),
        ("RUNNING", "None", "running"),
        ("COMPLETING", "None", "ending"),
    ],
)
def test_states_of_slurm(
    state: str, reason: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\necho '7_[0-3]|{state}||{reason}'\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    [found] = find_scheduler("slurm").states(["7"])
    assert (found.id, found.element, found.state) == ("7", "[0-3]", expected)


@pytest.mark.parametrize("single", [True, False])
def test_a_missing_folder(single: bool, tmp_path: Path) -> None:
    elements = None if single else [3]
    command = ["printf", "done"]
    asked = job(elements, command=command, logs=tmp_path, folder=tmp_path / "none", resources=Resources())
    ended = subprocess.run(["bash"], input=find_scheduler("slurm").script(asked), text=True, env={"SLURM_JOB_ID": "1"})
    [log] = tmp_path.glob("*.log")
    assert "No such file" in log.read_text() and log.read_text().endswith("done") != single
    assert bool(ended.returncode) == single
