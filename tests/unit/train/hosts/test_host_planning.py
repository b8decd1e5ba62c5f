"""Plans on all hosts of a run or on as many as can share the batch, and commands that start launchers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError, MachineError
from jprep.train.backend import Host, Plan
from jprep.train.hosts import host_launcher
from jprep.train.hosts.find import hosts_of
from jprep.train.hosts.host_set import HostSet
from jprep.train.hosts.planning import make_replan, plan_on_hosts
from jprep.train.hosts.starting import attempt_command, attempt_environment
from jprep.train.hosts.submission import check_submission, check_submit_config, script_of, submit_training, training_job
from jprep.train.hosts.submit_config import SubmitConfig
from jprep.train.job.config import Job, TrainConfig
from tests.fakes.numpy_backend import Numpy, Options
from tests.fakes.small_run import job_of, small_run

HOST = Host("/env/bin/python", 8, 8 << 30)
SLURM = HostSet("the Slurm job 12", "srun", ("n1", "n2", "n3"))


class Divided(Numpy):
    """Needs a batch that its hosts can divide."""

    several_hosts = True

    def hosts(self, options: Any) -> str:
        return str(options.device)

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        assert host.nodes
        if job.train.batch % host.nodes.count:
            raise ConfigError(f"a batch of {job.train.batch} cannot be divided among {host.nodes.count}")
        env = {"CORES": str(host.cores)}
        return Plan((host.python, "-m", "worker"), env, host.nodes.count, 1, 1, 0, machines=host.nodes.count)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    run = small_run(tmp_path)
    return job_of(run.parent / "dataset", run)  # a batch of 8 rows


def test_as_many_hosts_as_can_divide_the_batch_are_used(job: Job) -> None:
    plan = plan_on_hosts(Divided(), job, Path("/run"), HOST, SLURM)
    assert plan.placement and plan.placement.names == ("n1", "n2")
    assert "2 hosts (n1, n2) of the Slurm job 12" in plan.notes[-1] and "1 more cannot" in plan.notes[-1]


def test_processes_of_an_outer_launcher_are_all_needed(job: Job) -> None:
    outer = HostSet("the variables of MPI", "join", ("0", "1", "2"), sharing=3)
    with pytest.raises(ConfigError, match="among 3"):
        plan_on_hosts(Divided(), job, Path("/run"), HOST, outer)
    plan = plan_on_hosts(Divided(), job, Path("/run"), HOST, outer._replace(names=("0", "1")))
    assert plan.env["CORES"] == "2"  # of 8, for 3 processes on this machine


def test_lost_hosts_are_left_out(job: Job) -> None:
    replan = make_replan(Divided(), job, Path("/run"), HOST, SLURM)
    plan = replan({"n1"})
    assert plan and plan.placement and plan.placement.names == ("n2", "n3")
    assert replan({"n1", "n2", "n3"}) is None
    odd = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, batch=3))
    narrow = make_replan(Divided(), odd, Path("/run"), HOST, SLURM)({"n3"})
    assert narrow and narrow.placement and narrow.placement.names == ("n1",)


def test_srun_starts_one_launcher_on_each_host(job: Job) -> None:
    plan = plan_on_hosts(Divided(), job, Path("/run"), HOST, SLURM)
    command = attempt_command(Path("/run"), plan, "a-0")
    assert command[0] == "srun" and {"--overlap", "--nodes=2", "--ntasks=2", "--nodelist=n1,n2"} <= set(command)
    assert command[-5:] == ("/env/bin/python", "-m", "jprep.train.hosts.host_launcher", "/run", "a-0")
    env = attempt_environment(plan, {"SLURM_NTASKS": "16", "SLURM_JOB_ID": "12"})
    assert "SLURM_NTASKS" not in env and env["SLURM_JOB_ID"] == "12" and "CORES" in env


def test_hosts_are_given_once(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    hostfile = tmp_path / "hosts"
    hostfile.write_text("a\nb\n")
    older, newer = Options(device="slurm"), TrainConfig(hosts=str(hostfile))
    found = hosts_of(TrainConfig(), Divided(), older)
    assert found and found.names == ("n1", "n2")
    found = hosts_of(newer, Divided(), Options())
    assert found and found.names == ("a", "b")
    with pytest.raises(ConfigError, match="given twice"):
        hosts_of(newer, Divided(), older)
    with pytest.raises(ConfigError, match="the backend numpy does not run on the hostfile"):
        hosts_of(newer, Numpy(), Options())


def test_a_training_is_submitted_as_one_job(tmp_path: Path) -> None:
    config = SubmitConfig(nodes=4, min_nodes=2, gpus=8, time="24:00:00", partition="gpu", options=["--exclusive"])
    script = script_of(training_job(config, ["train", "recipe.toml"], "gpt-torch", tmp_path / "run"))
    lines = script.splitlines()
    for option in ("--nodes=2-4", "--gpus-per-node=8", "--time=24:00:00", "--partition=gpu",
                   "--signal=B:USR1@300", "--requeue", "--exclusive", "--job-name=gpt-torch"):  # fmt: skip
        assert f"#SBATCH {option}" in lines
    assert lines[-1].endswith("-P -m jprep train recipe.toml --set train.hosts=slurm")
    assert "export JPREP_REQUEUE=slurm" in lines and f"{tmp_path}/run.jobs" in script


@pytest.mark.parametrize(("nodes", "least"), [(0, 0), (2, 3), (2, -1)])
def test_numbers_of_nodes_are_checked(nodes: int, least: int) -> None:
    with pytest.raises(ConfigError, match="nodes is"):
        check_submit_config(SubmitConfig(nodes=nodes, min_nodes=least))
    with pytest.raises(ConfigError, match="cannot be submitted"):
        check_submission("ray", TrainConfig(), "torch")


@pytest.mark.parametrize("limit", ["5", "00:05:00"])
def test_a_job_that_would_be_warned_at_once_is_refused(limit: str) -> None:
    with pytest.raises(ConfigError, match="requeued as soon as it starts") as error:
        check_submit_config(SubmitConfig(time=limit, warn=300))
    assert error.value.where == "train.submit.warn"
    for accepted in (SubmitConfig(time="00:05:01"), SubmitConfig(time=limit, warn=0), SubmitConfig(time="UNLIMITED")):
        check_submit_config(accepted)


def test_a_refused_job_names_its_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\necho 'invalid partition specified: x' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    job = training_job(SubmitConfig(partition="x"), ["train", "recipe.toml"], "gpt-torch", tmp_path / "run")
    with pytest.raises(MachineError, match="sbatch refused the job: invalid partition") as error:
        submit_training(job)
    assert error.value.where == "[train.submit]" and "executor" not in error.value.fix


def test_a_log_folder_with_spaces_is_one_option(tmp_path: Path) -> None:
    job = training_job(SubmitConfig(), ["train", "a b.toml"], "x", tmp_path / "my run")
    lines = script_of(job).splitlines()
    assert f'#SBATCH --output="{tmp_path}/my run.jobs/%j.scheduler"' in lines
    assert "'a b.toml'" in lines[-1]


def test_a_launcher_that_is_killed_early_ends_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    taken = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, host_launcher.KILL_PROCESSES)
    before = {each: signal.getsignal(each) for each in taken}
    monkeypatch.setattr(
        "jprep.train.hosts.host_launcher.time.sleep", lambda _: os.kill(os.getpid(), host_launcher.KILL_PROCESSES)
    )
    try:
        assert host_launcher.main([str(tmp_path), "a-0", "1"]) == 1
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert capfd.readouterr().err == ""
