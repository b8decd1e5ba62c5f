"""`jprep doctor`: its findings and fixes, and that no check can stop it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

from jprep.doctor import executors, machine, segmenters, time_limit
from jprep.errors import MachineError
from jprep.train.backend import Finding
from tests.conftest import Distribution, Run
from tests.fakes.numpy_backend import offer

BROKEN = """from jprep.plugins import hookimpl
from jprep.train.backend import Backend
class Broken(Backend):
    name = distribution = module = "broken"
    class Options: pass
    def check(self, options): raise RuntimeError("it came to pieces")
    def plan(self, job, run, host): raise NotImplementedError
@hookimpl
def jprep_backends():
    return {"broken": Broken}
"""

CHOOSY = """import msgspec
from jprep.plugins import hookimpl
from jprep.train.backend import Backend, Finding
class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: str = "cpu"
class Choosy(Backend):
    name, module, distribution = "choosy", "choosy", "choosy"
    Options = Options
    def check(self, options):
        if options.device == "moon":
            return [Finding("there is no moon", "error", "wait")]
        return [Finding(f"it computes on {options.device}")]
    def plan(self, job, run, host): raise NotImplementedError
@hookimpl
def jprep_backends():
    return {"choosy": Choosy}
"""


def by_subject(text: str) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in json.loads(text):
        found.setdefault(one.pop("about"), []).append(Finding(**one))
    return found


def test_a_working_machine_has_no_error(distribution: Distribution, jprep: Run) -> None:
    env = offer(distribution)
    report = by_subject(jprep("doctor", "--json", env=env).stdout)
    backends = report.pop("backends")
    assert not any(each.level == "error" for found in report.values() for each in found)
    assert not any(each.level == "error" for each in backends if each.what.startswith("numpy"))
    assert f"Python {sys.version.split()[0]}" in report["Python"][0].what
    assert any("cores" in each.what for each in report["machine"])
    assert any("memory" in each.what for each in report["machine"])
    assert len(report["disk"]) == 3 and report["accelerators"]
    assert any(
        each.what.startswith("pointwise: 東京|タワー|へ|行く|。") and each.level == "ok"
        for each in report["segmenters"]
    )
    assert Finding("numpy: it is slow", "note", "use another backend") in backends
    assert any(each.what.startswith("builtin") for each in report["plugins"])


def test_missing_software_is_reported_with_the_command_that_installs_it(
    tmp_path: Path, distribution: Distribution, jprep: Run
) -> None:
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    tmp_path.joinpath("unidic_lite.py").write_text("raise ImportError('not there')")
    output = jprep("doctor", env=env).stdout
    jumanpp = next(line for line in output.splitlines() if "jumanpp:" in line)
    assert jumanpp.startswith("- ") and "ku-nlp/jumanpp/releases" in jumanpp
    assert any("pip install 'jprep[unidic]'" in line for line in output.splitlines() if "unidic:" in line)


def test_a_broken_plugin_is_an_error_and_the_other_checks_run(distribution: Distribution, jprep: Run) -> None:
    distribution.add("torn", "import nowhere_to_be_found")
    distribution.add("broken", BROKEN)
    output = jprep("doctor", env=distribution.env, code=3).stdout
    assert "! torn cannot be loaded: ModuleNotFoundError" in output and "pip install --upgrade torn" in output
    assert "! broken: RuntimeError: it came to pieces" in output
    assert "pointwise" in output


def test_a_backend_without_its_environment(distribution: Distribution, jprep: Run) -> None:
    pytest.importorskip("jprep_torch")
    env, fix = {"JPREP_BACKENDS": str(distribution.folder)}, "jprep backends install torch"
    output = jprep("doctor", env=env).stdout
    assert any(line.startswith("- torch:") and fix in line for line in output.splitlines())
    output = jprep("doctor", "--backend", "torch", env=env, code=3).stdout
    assert any(line.startswith("! torch:") and fix in line for line in output.splitlines())


def test_one_backend_is_checked_with_the_given_options(distribution: Distribution, jprep: Run) -> None:
    distribution.add("choosy", CHOOSY)

    def look(*arguments: str, code: int = 0) -> str:
        result = jprep("doctor", "--backend", *arguments, env=distribution.env, code=code)
        return result.stdout + result.stderr

    output = look("choosy")
    assert "  choosy: it computes on cpu" in output and "cores" in output and "pointwise" not in output
    assert "! choosy: there is no moon  →  wait" in look("choosy", "--set", "device=moon", code=3)
    assert "did you mean 'device'" in look("choosy", "--set", "devise=cpu", code=2)
    assert "did you mean 'choosy'" in look("chosy", code=2)
    assert "--backend" in jprep("doctor", "--set", "device=cpu", env=distribution.env, code=2).stderr


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_gpus_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "nvidia-smi", "echo '0, GPU-1, 81920, NVIDIA H100'; echo '1, GPU-2, 81920, NVIDIA H100'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [each.what for each in machine.check_accelerators()] == ["NVIDIA H100, 80.0 GiB"] * 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine.check_accelerators() == [
        Finding("CUDA_VISIBLE_DEVICES hides all GPUs", "note", "unset CUDA_VISIBLE_DEVICES")
    ]


def test_a_machine_without_accelerators_has_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert all(each.level != "error" or "GPU" in each.what for each in machine.check_accelerators())


Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(("free", "level"), [(1 << 40, "ok"), (5 << 30, "note"), (1 << 29, "error")])
def test_a_disk_that_is_nearly_full(free: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 41, 0, free))
    outputs, _, backends = machine.check_disks()
    assert (outputs.level, backends.level) == (level, level)
    assert bool(outputs.fix) == (level != "ok")


def test_a_container_s_share_of_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(machine, "cpu_count", lambda: 8)
    assert machine.check_resources()[0] == Finding("8 cores")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert machine.check_resources()[0] == Finding("8 cores")
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert machine.check_resources()[0] == Finding(
        "8 cores, of which this container may use 1.5", "note", "--workers 2"
    )


def test_a_check_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    found = time_limit.run_with_limit(lambda: time.sleep(30) or [], "sleep", 0.05)
    assert [each.level for each in found] == ["error"] and "0.05 seconds" in found[0].what


def test_a_failure_of_the_default_segmenter_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: str, name: str) -> None:
        raise MachineError("there is no dictionary", fix="pip install it")

    monkeypatch.setattr(segmenters, "make_step", refuse)
    levels = {each.what.partition(":")[0]: each.level for each in segmenters.check_segmenters()}
    others = ("jumandic", "jumanpp", "spaces", "sudachi", "unidic")
    assert levels == {"pointwise": "error"} | dict.fromkeys(others, "note")


def test_the_segmenter_of_given_spaces_is_tried_with_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Finding("spaces: 東京|タワー|へ|行く|。") in segmenters.check_segmenters()
    monkeypatch.setattr(segmenters, "_try", lambda name, level: [Finding(name, "ok" if name == "spaces" else level)])
    assert segmenters.usable_segmenter() == "none"  # it finds no words in raw text


def test_the_marks_are_explained(distribution: Distribution, jprep: Run) -> None:
    distribution.add("choosy", CHOOSY)
    moon = jprep("doctor", "--backend", "choosy", "--set", "device=moon", env=distribution.env, code=3)
    marks = moon.stdout.splitlines()[-1]
    assert marks.startswith("marks: ") and marks.endswith("! a problem")


@pytest.mark.parametrize(
    ("programs", "found"),
    [
        ({}, ["slurm: not found (no sbatch", "pbs: not found (no qsub", "grid-engine: not found (no qsub"]),
        (
            {"sbatch": "", "sinfo": "echo slurm-wlm 22.05.8"},
            ["slurm: slurm-wlm 22.05.8", "pbs: not", "grid-engine: not"],
        ),
        ({"qsub": "", "qstat": "echo pbs_version = 23.06.06"}, ["slurm: not", "pbs: PBS 23.06.06", "grid-engine: not"]),
        (
            {"qsub": "", "qstat": "[ $1 = -help ] && echo SGE 8.1.9"},
            ["slurm: not", "pbs: not", "grid-engine: SGE 8.1.9"],
        ),
        (
            {"sbatch": "", "sinfo": "echo no config >&2; exit 1", "qsub": "", "qconf": ""},
            [
                "slurm: sbatch was found, but `sinfo --version` gives no version: no config",
                "grid-engine: qsub was found",
            ],
        ),
    ],
)
def test_schedulers_are_found_by_their_programs(
    programs: dict[str, str], found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in programs.items():
        program(tmp_path, name, text)
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = executors.check_executors()[1:]
    assert [each.what[: len(start)] for each, start in zip(findings, found, strict=True)] == found
    assert all(each.level != "error" for each in findings)
