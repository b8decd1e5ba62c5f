"""`jprep train` and `jprep backends`, as a user runs them, with a backend in numpy that really trains."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from jprep.dataset.manifest import LeftOut
from jprep.io.environments import STAMP, InstalledEnvironment
from jprep.train.launcher.environments import local_distributions, pip_requirements
from jprep.train.run.events import read_events
from tests.conftest import COMMAND, ROOT, Distribution, Run, digests, environment
from tests.fakes.config_sections import dataset_config
from tests.fakes.numpy_backend import offer
from tests.fakes.parts_dataset import divide
from tests.fakes.small_run import await_true, weights
from tests.fakes.small_work import small_work

RUN = Path("work/small/runs/numpy")
TRAIN = ["train", "small.toml", "--backend", "numpy"]


class Workspace(NamedTuple):
    folder: Path
    env: dict[str, str]
    jprep: Run

    def train(self, *more: object, **options: Any) -> subprocess.CompletedProcess[str]:
        options["env"] = self.env | options.get("env", {})
        return self.jprep("train", "small.toml", "--backend", "numpy", *more, cwd=self.folder, **options)


@pytest.fixture
def workspace(tmp_path: Path, distribution: Distribution, jprep: Run) -> Workspace:
    small_work(tmp_path)
    return Workspace(tmp_path, offer(distribution), jprep)


def test_a_recipe_is_trained_and_the_next_command_is_printed(workspace: Workspace) -> None:
    done = workspace.train()
    run = workspace.folder / RUN
    assert weights(run, 30) and (run / "init.safetensors").exists()
    assert "30" in done.stdout and "validation" in done.stdout and f"jprep export {RUN}" in done.stdout
    again = workspace.train("--json")
    assert again.stderr == ""
    assert json.loads(again.stdout).items() >= {"code": 0, "step": 30, "saved": 30, "backend": "numpy"}.items()


def test_a_terminal_shows_the_progress(workspace: Workspace) -> None:
    reader, terminal = os.openpty()
    command = [COMMAND, *TRAIN]
    env = environment(**workspace.env, PAUSE="0.15", TERM="xterm", COLUMNS="140")
    with subprocess.Popen(
        command, cwd=workspace.folder, env=env, stderr=terminal, stdout=subprocess.DEVNULL
    ) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while block := os.read(reader, 1 << 16):
                shown += block
    os.close(reader)
    assert process.returncode == 0
    assert all(part in shown for part in (b"30/30", b"loss 0.", b"tokens/s", b"left", b"validation loss 0."))


def test_a_log_shows_starts_validations_and_checkpoints(workspace: Workspace) -> None:
    def output(*more: object) -> list[str]:
        said = workspace.train("--set", "train.validation.every_steps=15", *more).stderr
        return [line.partition(": ")[2] for line in said.splitlines()]

    lines = output()
    assert [line.split("  ")[0] for line in lines] == [
        f"{what} of 30"
        for what in (
            "training from step 0", "saved step 10", "validated at step 15", "saved step 20", "validated at step 30",
            "saved step 30",
        )
    ]  # fmt: skip
    assert all(part in lines[-1] for part in ("loss 0.", "validation loss 0.", "tokens/s"))
    assert output("--resume", 20)[0] == "training from step 20 of 30"


def test_the_same_job_in_another_run_is_named_before_it_begins_anew(workspace: Workspace) -> None:
    assert "the same job" not in workspace.train().stderr
    other = RUN.with_name("other backend")
    (workspace.folder / RUN).rename(workspace.folder / other)
    assert "the same job" not in workspace.train("--set", "train.seed=7", "--restart").stderr
    (workspace.folder / RUN).rename(workspace.folder / "elsewhere")
    said = workspace.train().stderr
    assert f"the same job is at step 30 in {other}; to continue from there:" in said
    assert "train small.toml --backend numpy --name 'other backend'" in said
    assert "the same job" not in workspace.train().stderr


def test_a_run_of_another_recipe_is_replaced_with_restart(workspace: Workspace) -> None:
    run, changed = workspace.folder / RUN, ("--set", "train.seed=7")
    workspace.train("-o", "straight", *changed)
    workspace.train()
    (run / "notes.txt").write_text("mine")
    before = digests(run)
    refused = workspace.train(*changed, code=2).stderr
    assert "train.seed: was 1, is 7" in refused and "or replace this run: train with --restart" in refused
    for wrong in (("--resume", "never"), ("--executor", "slurm"), ("--dry-run",), ("--set", "train.batch=0")):
        workspace.train(*changed, "--restart", *wrong, code=2)
    assert digests(run) == before
    said = workspace.train(*changed, "--restart").stderr
    assert "training from step 0 of 30" in said
    assert weights(run, 30) == weights(workspace.folder / "straight", 30)
    assert sum(event.kind == "start" for event in read_events(run)) == 1
    assert (run / "notes.txt").read_text() == "mine" and b"--restart" not in (run / "command.json").read_bytes()


def test_a_requeued_job_does_not_delete_its_own_work(workspace: Workspace) -> None:
    workspace.train("--restart")
    again = workspace.train("--restart", env={"SLURM_RESTART_COUNT": "1"}).stderr
    assert "--restart has no effect" in again and "training from step 0" not in again


def test_the_only_backend_with_options_in_the_recipe_is_used(workspace: Workspace) -> None:
    with workspace.folder.joinpath("small.toml").open("a") as file:
        file.write("[train.backend.numpy]\nrows = 4\n")
    found = workspace.jprep("train", "small.toml", "--dry-run", "--json", cwd=workspace.folder, env=workspace.env)
    assert json.loads(found.stdout)["plan"].items() >= {"rows": 4, "accumulate": 2}.items()


def test_a_dry_run_shows_the_lengths_of_stages(workspace: Workspace) -> None:
    stages = "train.stages=[{until_step=4, length=8}, {until_step=6, length=12}]"
    words = ("small.toml", "--backend", "torch", "--dry-run", "--set", stages, "--set", "train.length=16")
    shown = workspace.jprep("train", *words, cwd=workspace.folder, env=workspace.env).stdout
    assert "at most 8 tokens until step 4, at most 12 tokens until step 6, then 16" in shown


def test_a_dry_run_shows_what_is_learnt_of_a_conversation(workspace: Workspace) -> None:
    messages = [{"role": "user", "content": "山は？"}, {"role": "assistant", "content": "高い。"}]
    (workspace.folder / "chat.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    section = '[train]\ntask = "sft"\ndata = ["chat.jsonl"]\nsteps = 2\nbatch = 1\nmodel.preset = "gpt2-tiny"\n'
    (workspace.folder / "chat.toml").write_text(f'name = "chat"\n{section}')
    words = ("chat.toml", "--backend", "torch", "--tokenizer", "work/small/tokenizer", "--dry-run", "-o", "a/b/run")
    shown = workspace.jprep("train", *words, cwd=workspace.folder, env=workspace.env).stdout
    assert re.search(r"\n  example +.*山.*⟦.*高.*⟧", shown)
    found = json.loads(workspace.jprep("train", *words, "--json", cwd=workspace.folder, env=workspace.env).stdout)
    assert "⟦" in found["example"]


def test_a_dry_run_shows_the_parts_of_a_mixture_and_what_is_in_none(workspace: Workspace) -> None:
    name = "the-best-documents"
    section = (
        f'[dataset.mix]\nrepeats = {{ {name} = 3, rest = 0.5 }}\nparts = [{{ name = "{name}" }}, {{ name = "rest" }}]\n'
    )
    mix = dataset_config(tomllib.loads(section)["dataset"], "here").mix
    assert mix
    sizes, left_out = {name: 20, "rest": 40}, [LeftOut("web", 1234, 5)]
    divide(workspace.folder / "work" / "small" / "dataset", mix, sizes, left_out=left_out)
    with workspace.folder.joinpath("small.toml").open("a") as file:
        file.write(section)
    options = ("--dry-run", "--set", "train.steps=0", "--set", "train.epochs=1", "--set", "train.batch=1")
    shown = workspace.train(*options).stdout
    assert re.search(rf"\n    {name} +\d+\.\d\d% of the rows: [\d,]+, [\d,]+ tokens, 3\.00 epochs\n", shown)
    assert re.search(r"\n    rest +\d.* tokens, 0\.50 epochs\n    in no part +1,234 documents of web\n", shown)
    found = json.loads(workspace.train(*options, "--json").stdout)
    assert found["left_out"] == [{"source": "web", "documents": 1234, "bytes": 5}]
    assert [one["epochs"] for one in found["sources"]] == [3, 0.5]


def test_a_dry_run_estimates_the_duration_and_warns_of_an_absurd_one(workspace: Workspace) -> None:
    shown = workspace.train("--dry-run").stdout
    assert re.search(r"\n  time +about \d+ \w+ on \d+ cores", shown) and "warning" not in shown
    absurd = workspace.train("--dry-run", "--set", "train.steps=900000000000").stdout
    epochs, days = re.findall(r"\n  warning +(.*)", absurd)[::-1]
    assert "train.steps" in days and "days" in days and "one epoch" in epochs
    steps = re.findall(r"train.steps=(\d+)", epochs)[0]
    output = json.loads(workspace.train("--dry-run", "--json", "--set", f"train.steps={steps}").stdout)
    assert output["warnings"] == [] and 0.5 < output["epochs"] <= 2 and output["seconds"] > 0
    assert output["fits"] is True and "it fits" in output["verdict"]


def test_a_dry_run_prints_the_plan_and_writes_nothing(workspace: Workspace) -> None:
    shown = workspace.train("--dry-run").stdout  # Python may compile the plugin's modules
    before = digests(workspace.folder)
    assert "does not fit" in workspace.train("--dry-run", env={"NUMPY_MEMORY": str(1 << 60)}, code=3).stdout
    for part in ("roberta-tiny", "30 steps of 8 rows", "1 process × 1 micro-batch of 8 rows", "every 10 steps", "fp32"):
        assert part in shown
    assert "-m numpy_framework.worker train" in shown and "it is slow" in shown and "use another backend" in shown
    plan = json.loads(workspace.train("--dry-run", "--json").stdout)
    tokens = sum(split["tokens"] for split in _splits(workspace.folder) if split["name"] == "train")
    assert plan["tokens"] == tokens and plan["epochs"] == pytest.approx(240 / plan["samples"])
    assert plan["train"]["checkpoint"]["every_steps"] == 10 and plan["host"]["cores"] >= 1
    assert digests(workspace.folder) == before and not (workspace.folder / RUN).exists()


def _splits(folder: Path) -> list[dict[str, Any]]:
    return json.loads(folder.joinpath("work/small/dataset/dataset.json").read_bytes())["splits"]


def test_a_stopped_run_prints_the_command_that_resumes_it_with_the_same_result(workspace: Workspace) -> None:
    command = [COMMAND, *TRAIN, "--resume", "never"]
    env = environment(**workspace.env, PAUSE="0.2")
    process = subprocess.Popen(command, cwd=workspace.folder, env=env, stderr=subprocess.PIPE, text=True)
    events = workspace.folder / RUN / "events.jsonl"
    await_true(lambda: events.exists() and '"log"' in events.read_text())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130 and "saving; interrupt once more to stop now" in said
    assert said.splitlines()[-1] == "to resume:  jprep train small.toml --backend numpy"
    workspace.train()
    workspace.train("-o", "straight")
    assert weights(workspace.folder / RUN, 30) == weights(workspace.folder / "straight", 30)


def test_a_closed_terminal_makes_the_run_save_and_exit(workspace: Workspace) -> None:
    process, terminal = pty.fork()
    if not process:
        os.chdir(workspace.folder)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` has it ignored
        os.execve(COMMAND, [COMMAND, *TRAIN], environment(**workspace.env, PAUSE="0.2", TERM="xterm"))
    run = workspace.folder / RUN
    os.set_blocking(terminal, False)

    def has_trained() -> bool:
        with contextlib.suppress(BlockingIOError):  # what is shown is read, lest the terminal be full
            os.read(terminal, 1 << 16)
        return any(event.kind == "log" for event in read_events(run))

    await_true(has_trained)
    os.close(terminal)  # its processes get SIGHUP, and cannot write to it any more
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
    saved, left = read_events(run)[-2:]
    assert (saved.kind, left.kind) == ("checkpoint", "signal") and 0 < saved.step == left.step < 30


def test_a_full_standard_error_does_not_change_the_exit_code(workspace: Workspace) -> None:
    with Path("/dev/full").open("w") as full:
        command, env = [COMMAND, *TRAIN], environment(**workspace.env, REFUSE_AT="12")
        assert subprocess.run(command, cwd=workspace.folder, env=env, stderr=full).returncode == 2
        assert subprocess.run([*command, "--resume", "7"], cwd=workspace.folder, env=env, stderr=full).returncode == 2


def test_resume_takes_a_step(workspace: Workspace) -> None:
    workspace.train()
    workspace.train("--resume", 20)
    starts = [json.loads(line) for line in (workspace.folder / RUN / "events.jsonl").read_text().splitlines()]
    assert [event["step"] for event in starts if event["kind"] == "start"] == [0, 20]
    refused = workspace.train("--resume", "soon", code=2)
    assert "auto, never, or the step" in refused.stderr
    assert "no" in workspace.train("--resume", 7, code=2).stderr


def test_a_failing_worker_s_code_comes_through(workspace: Workspace) -> None:
    done = workspace.train("--json", env={"REFUSE_AT": "12"}, code=2)
    assert "a restart does not fix this" in done.stderr
    assert done.stderr.index("saved step 10") < done.stderr.index("the run failed")
    assert json.loads(done.stdout).items() >= {"code": 2, "saved": 10}.items()


@pytest.mark.parametrize(
    ("missing", "says"),
    [("tokenizer", "jprep tokenizer train small.toml"), ("dataset", "jprep dataset pack small.toml")],
)
def test_a_missing_input_is_reported_with_the_command_that_makes_it(
    missing: str, says: str, workspace: Workspace
) -> None:
    (workspace.folder / "work" / "small" / missing).rename(workspace.folder / "elsewhere")
    assert says in workspace.train(code=2).stderr
    workspace.train(f"--{missing}", "elsewhere", "--dry-run")


def test_mistakes_are_named_before_anything_is_written(workspace: Workspace) -> None:
    def refused(*arguments: str) -> str:
        return workspace.train(*arguments, code=2).stderr

    assert "did you mean 'batch'" in refused("--set", "train.batsh=4")
    unknown = refused("--backend", "numpi")
    assert "did you mean 'numpy'" in unknown and "install the package" in unknown
    assert "did you mean 'micro_batch'" in refused("--set", "train.backend.numpy.micro_batc=4")
    assert "did you mean 'numpy'" in refused("--set", "train.backend.nunpy.rows=4")
    assert "cannot be divided" in refused("--set", "train.backend.numpy.rows=3")
    assert "either -o or --name" in refused("-o", "here", "--name", "there")
    workspace.folder.joinpath("small.toml").write_text('name = "small"')
    assert "add [train]" in refused()
    assert not (workspace.folder / "work" / "small" / "runs").exists()


def test_another_job_in_the_same_directory_is_refused_with_what_differs(workspace: Workspace) -> None:
    workspace.train()
    assert "seed" in workspace.train("--set", "train.seed=2", code=2).stderr
    workspace.train("--set", "train.seed=2", "--name", "other")


def test_a_dry_run_is_refused_as_the_run_would_be(workspace: Workspace) -> None:
    steady = ["--set", "train.schedule.kind=constant"]
    workspace.train(*steady)
    run = workspace.folder / RUN
    other = [*steady, "--set", "train.batch=4"]
    refused = workspace.train(*other, code=2).stderr
    before = digests(run)
    assert "train.batch: was" in refused
    assert workspace.train("--dry-run", *other, code=2).stderr == refused
    assert "is extended" in workspace.train("--dry-run", *steady, "--set", "train.steps=40").stderr
    assert workspace.train("--dry-run", *steady).stderr == ""
    assert digests(run) == before


def test_backends_are_listed_with_what_they_find(workspace: Workspace) -> None:
    shown = workspace.jprep("backends", "list", env=workspace.env).stdout
    assert "numpy  jprep_numpy 1.0  this environment" in shown and "it is slow" in shown
    found = {
        one["name"]: one for one in json.loads(workspace.jprep("backends", "list", "--json", env=workspace.env).stdout)
    }
    assert [finding["level"] for finding in found["numpy"]["findings"]] == ["ok", "note"]


def test_a_backend_without_an_environment_is_reported_with_the_install_command(workspace: Workspace) -> None:
    worker = (
        next(Path(part) for part in workspace.env["PYTHONPATH"].split(os.pathsep)) / "numpy_framework" / "worker.py"
    )
    worker.write_text("import no_such_framework")
    assert "jprep backends install numpy" in workspace.train(code=3).stderr
    assert "environments/numpy/bin/python -m numpy_framework.worker" in workspace.train("--dry-run").stdout
    listed = workspace.jprep("backends", "list", env=workspace.env).stdout
    assert "not installed" in listed and "no_such_framework" in listed


def numpy_requirements() -> list[str]:
    """Return what the environment of the backend numpy has: jprep with its models, and the backend."""
    models = local_distributions("jprep")[2:]
    return [
        *pip_requirements("jprep"),
        "jprep_numpy==1.0",
        *(each for name in models for each in pip_requirements(name)),
    ]


@pytest.mark.backends  # slow: pip builds and installs packages
def test_a_failed_installation_shows_the_output_of_pip_and_is_not_used(workspace: Workspace) -> None:
    arguments = ("backends", "install", "numpy", "--", "--no-index")
    failed = workspace.jprep(*arguments, env=workspace.env, code=3).stderr
    assert "pip could not install it" in failed and "run the same command again" in failed
    stamp = Path(workspace.env["JPREP_BACKENDS"]) / "numpy" / STAMP
    assert not stamp.parent.exists()
    stamp.parent.mkdir()
    wanted = numpy_requirements()
    stamp.write_bytes(msgspec.json.encode(InstalledEnvironment(name="numpy", requires=wanted, python="3", packages={})))
    assert "numpy is installed already" in workspace.jprep(*arguments, env=workspace.env).stdout


def test_a_device_may_have_an_environment_of_its_own(workspace: Workspace) -> None:
    worker = (
        next(Path(part) for part in workspace.env["PYTHONPATH"].split(os.pathsep)) / "numpy_framework" / "worker.py"
    )
    worker.write_text("import no_such_framework")
    moon = ("--set", "train.backend.numpy.device=moon")
    assert "jprep backends install numpy --set device=moon" in workspace.train(*moon, code=3).stderr
    assert "environments/numpy-moon/bin/python" in workspace.train(*moon, "--dry-run").stdout
    folder = Path(workspace.env["JPREP_BACKENDS"]) / "numpy-moon"
    folder.mkdir(parents=True)
    wanted = numpy_requirements()
    folder.joinpath(STAMP).write_bytes(
        msgspec.json.encode(InstalledEnvironment(name=folder.name, requires=wanted, python="3", packages={}))
    )
    arguments = ("backends", "install", "numpy", "--set", "device=moon", "--", "--no-index")
    assert f"numpy is installed already: {folder}" in workspace.jprep(*arguments, env=workspace.env).stdout


def test_the_documented_backend_plans_a_job(workspace: Workspace, distribution: Distribution) -> None:
    [source] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "backends.md").read_text(), re.DOTALL)
    distribution.add("jprep_mine", source)
    arguments = ("train", "small.toml", "--backend", "mine", "--dry-run", "--json", "--set")
    planned = workspace.jprep(
        *arguments, "train.backend.mine.micro_batch=2", cwd=workspace.folder, env=workspace.env
    ).stdout
    assert json.loads(planned)["plan"].items() >= {"processes": 1, "rows": 2, "accumulate": 4}.items()
    refused = workspace.jprep(
        *arguments, "train.backend.mine.micro_batch=3", cwd=workspace.folder, env=workspace.env, code=2
    )
    assert "use a divisor of 8" in refused.stderr
