"""Environments of backends. Nothing is downloaded: a wheel made here is installed with --no-index --no-deps."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError, MachineError
from jprep.io.environments import (
    STAMP,
    default_environment_folder,
    environment_folders,
    interpreter,
    read_stamp,
)
from jprep.train.backend import Environment
from jprep.train.launcher import environments, import_probe
from jprep.train.launcher.environments import install_environment, installed_environments, worker_python
from jprep.train.launcher.import_probe import ImportTimeoutError, NotInstalledError

OFFLINE = ("--no-index", "--no-deps")


def wheel(folder: Path, version: str = "1.0") -> Path:
    path = folder / f"tiny_backend-{version}-py3-none-any.whl"
    info = f"tiny_backend-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny_backend/__init__.py", "")
        file.writestr("tiny_backend/worker.py", "print('here')")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-backend\nVersion: {version}\n")
        about = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        file.writestr(f"{info}/WHEEL", about)
        file.writestr(f"{info}/RECORD", "")
    return path


def fake_planner(name: str, **more: Any) -> Any:
    """Return a planner whose environment has this name."""
    environment = Environment(name=name, distribution=f"jprep-{name}", install=f"{name} --set it=so", **more)
    return SimpleNamespace(name=name, module=f"{name}_backend", Options=dict, environment=lambda options: environment)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip, as `install` begins with."""
    place = tmp_path_factory.mktemp("made") / "venv"
    venv.EnvBuilder(with_pip=True).create(place)
    return place


@pytest.fixture
def copied(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments begin as copies of one: installing pip takes seconds, and the first test does it."""

    def copy(builder: venv.EnvBuilder, place: Path) -> None:
        shutil.copytree(made, place, symlinks=True)

    monkeypatch.setattr(environments.venv.EnvBuilder, "create", copy)


@pytest.mark.backends  # slow: pip builds and installs packages
def test_an_environment_is_recreated_for_other_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "backends"
    first, second = str(wheel(tmp_path)), str(wheel(tmp_path, "2.0"))
    python = install_environment("tiny", [first], folder, own=(), options=OFFLINE)
    done = subprocess.run([python, "-m", "tiny_backend.worker"], capture_output=True, text=True)
    assert done.stdout == "here\n"
    [stamp] = installed_environments(folder)
    assert stamp.name == "tiny" and stamp.requires == [first] and stamp.packages["tiny-backend"] == "1.0"
    assert worker_python(fake_planner("tiny"), folder=folder) == python
    other = fake_planner("other", also=("absent", "tiny"))
    assert worker_python(other, folder=folder) == python, "where its own is not there"

    mark = folder / "tiny" / "mark"
    mark.touch()
    assert install_environment("tiny", [first], folder, own=(), options=OFFLINE) == python
    assert mark.exists()  # nothing was done
    monkeypatch.setattr(environments.venv.EnvBuilder, "create", lambda self, place: make_empty(Path(place)))
    with pytest.raises(MachineError, match="pip could not install"):
        install_environment("tiny", [second], folder, own=(), options=OFFLINE)
    assert mark.exists() and installed_environments(folder) == [stamp]  # what stood there stands again


def make_empty(place: Path) -> None:
    interpreter(place).parent.mkdir(parents=True)
    interpreter(place).write_text("#!/bin/sh\necho no such wheel >&2\nexit 1\n")
    interpreter(place).chmod(0o755)


def test_a_backend_that_imports_here_is_used_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "path" / "here_backend"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").touch()
    package.joinpath("worker.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    assert worker_python(fake_planner("here"), folder=tmp_path).exists()
    with pytest.raises(MachineError, match="no_such_device"):
        worker_python(fake_planner("here", needs="no_such_device"), folder=tmp_path)
    package.joinpath("worker.py").write_text("import no_such_framework")
    with pytest.raises(MachineError) as caught:
        worker_python(fake_planner("here"), folder=tmp_path)
    assert "no_such_framework" in caught.value.what and caught.value.fix == "jprep backends install here --set it=so"


def test_the_probe_imports_the_main_module_of_a_worker_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "path" / "packaged_backend" / "worker"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").touch()
    main = package / "__main__.py"
    main.write_text("import json")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    assert worker_python(fake_planner("packaged"), folder=tmp_path).exists()
    main.write_text("import no_such_framework")
    with pytest.raises(NotInstalledError, match="no_such_framework"):
        worker_python(fake_planner("packaged"), folder=tmp_path)
    main.write_text("import sys\nsys.exit(2)")
    with pytest.raises(MachineError, match=r"importing packaged_backend.worker runs the worker"):
        worker_python(fake_planner("packaged"), folder=tmp_path)


GUARD = """import sys
def main():
    print("usage: train RUN", file=sys.stderr)
    return 2
"""


@pytest.mark.parametrize(
    ("worker", "kind", "said"),
    [
        ("import no_such_framework", NotInstalledError, "not installed: ModuleNotFoundError"),
        ("import importlib.metadata as m; m.version('no-such-thing')", NotInstalledError, "not installed"),
        (GUARD + "sys.exit(main())", MachineError, "importing odd_backend.worker runs the worker"),
        ("import sys; sys.argv[1]", MachineError, "is installed, but importing it fails: IndexError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", MachineError, "killed by SIGKILL"),
        ("import time; time.sleep(60)", ImportTimeoutError, "slow or busy"),
    ],
)
def test_an_import_error_of_a_worker_is_explained(
    worker: str, kind: type[MachineError], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "odd_backend"
    package.mkdir()
    package.joinpath("__init__.py").touch()
    package.joinpath("worker.py").write_text(worker)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(import_probe, "IMPORT_TIMEOUT", 1.0 if kind is ImportTimeoutError else 600.0)
    with pytest.raises(kind, match=said) as caught:
        worker_python(fake_planner("odd"), folder=tmp_path / "none")
    assert type(caught.value) is kind
    assert ("jprep backends install" in caught.value.fix) == (kind is NotInstalledError)
    assert ("__main__" in caught.value.fix) == ("runs the worker" in said or "IndexError" in said)


def test_a_slow_import_is_announced_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    monkeypatch.setattr(import_probe, "_NOTICE", 0.05)
    done = import_probe.run_probe(
        Path(sys.executable), "import time; time.sleep(0.5); print('here')", say=messages.append
    )
    assert done.stdout == "here\n"
    assert len(messages) == 1 and "takes long" in messages[0] and "300" in messages[0]


def test_an_interpreter_that_is_gone_is_an_error_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be started"):
        import_probe.probe_output(tmp_path / "python", "1")


@pytest.mark.usefixtures("copied")
@pytest.mark.backends  # slow: pip builds and installs packages
def test_constraints_go_to_pip_and_other_ones_make_it_again(tmp_path: Path) -> None:
    wheel(tmp_path), wheel(tmp_path, "2.0")
    pins, folder, said = tmp_path / "pins.txt", tmp_path / "backends", []
    options = ("--no-index", "--no-deps", "--find-links", str(tmp_path))

    def version(pin: str, **more: bool) -> str:
        pins.write_text(pin)
        said.clear()
        install_environment(
            "tiny", ["tiny-backend"], folder, own=(), constraints=[pins], options=options, say=said.append, **more
        )
        return installed_environments(folder)[0].packages["tiny-backend"]

    assert version("tiny-backend==1.0  # an old one\n") == "1.0" and any("Success" in line for line in said)
    assert version("tiny-backend==1.0") == "1.0" and not said
    assert version("tiny-backend==2.0") == "2.0" and said
    assert version("tiny-backend==2.0", restart=True) == "2.0" and said
    with pytest.raises(ConfigError, match="constraints"):
        install_environment("tiny", [], folder, own=(), constraints=[tmp_path / "nowhere"])


@pytest.mark.usefixtures("copied")
@pytest.mark.backends  # slow: pip builds and installs packages
def test_extras_without_dependencies_are_installed_last(tmp_path: Path) -> None:
    folder, needy = tmp_path / "backends", tmp_path / "tiny_needy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel(tmp_path)) as plain, zipfile.ZipFile(needy, "w") as file:
        for name in plain.namelist():
            text = plain.read(name).decode().replace("tiny-backend", "tiny-needy")
            more = "Requires-Dist: no-such-distribution<0\n" if name.endswith("METADATA") else ""
            file.writestr(name.replace("tiny_backend", "tiny_needy"), text + more)
    options = ("--no-index", "--find-links", str(tmp_path))
    with pytest.raises(MachineError, match="no-such-distribution"):
        install_environment("needy", ["tiny-backend", "tiny-needy"], folder, own=(), options=options)
    install_environment("needy", ["tiny-backend"], folder, own=(), bare=["tiny-needy"], options=options)
    [stamp] = installed_environments(folder)
    assert stamp.bare == ["tiny-needy"] and {"tiny-backend", "tiny-needy"} <= set(stamp.packages)
    python = install_environment(
        "needy", ["tiny-backend"], folder, own=(), options=options
    )  # another request, so another one
    assert "tiny-needy" not in installed_environments(folder)[0].packages and python.exists()


def test_the_target_of_a_symbolic_link_is_not_deleted(tmp_path: Path) -> None:
    other = tmp_path / "other" / "kept"
    other.mkdir(parents=True)
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "tiny").symlink_to(other.parent)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        install_environment("tiny", ["tiny-backend"], tmp_path / "backends", own=())
    assert other.is_dir()


def test_worker_requirements_come_from_extras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "jprep_needy-1.0.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: jprep-needy\nVersion: 1.0\nRequires-Dist: jprep>=0.1\n"
        "Requires-Dist: torch>=2.6; extra == 'worker'\n"
        "Requires-Dist: old[x]<2 ; python_version < '3.12' and extra == \"worker\"\n"
        "Requires-Dist: pytest; extra == 'test'\n"
        "Requires-Dist: older==1; extra == 'worker-no-deps'\n"
        "Requires-Dist: rare==3; extra == 'moon'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    expected = ["torch>=2.6", "old[x]<2 ; python_version < '3.12' and python_version > \"3\""]
    needy = Environment(name="needy", distribution="jprep-needy", install="needy")
    assert environments.worker_requirements(needy) == expected
    assert environments.no_deps_requirements(needy) == ["older==1"]
    assert environments.worker_requirements(msgspec.structs.replace(needy, extras=("worker", "moon"))) == [
        *expected,
        "rare==3",
    ]
    with pytest.raises(ConfigError, match="not installed here"):
        environments.worker_requirements(msgspec.structs.replace(needy, distribution="no-such-distribution"))


def test_folders_without_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JPREP_BACKENDS", str(tmp_path))
    assert default_environment_folder() == tmp_path
    monkeypatch.delenv("JPREP_BACKENDS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(environments.sys, "platform", "linux")
    monkeypatch.setattr(environments.sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(environments.sys, "base_prefix", "/usr")
    users = [tmp_path / "data/jprep/backends", tmp_path / "cache/jprep/backends"]
    assert environment_folders() == [*users, tmp_path / "venv/backends"], "nothing can be written there"
    (tmp_path / "venv").mkdir()
    assert environment_folders() == [tmp_path / "venv/backends", *users]
    monkeypatch.setattr(environments.sys, "base_prefix", str(tmp_path / "venv"))
    assert environment_folders() == users, "no virtual environment"
    monkeypatch.setattr(environments.sys, "platform", "darwin")
    assert default_environment_folder() == Path.home() / "Library/Application Support/jprep/backends"


def test_environments_in_earlier_folders_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JPREP_BACKENDS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    old = tmp_path / "jprep/backends/tiny-of-this-test"
    interpreter(old).parent.mkdir(parents=True)
    interpreter(old).touch()
    stamp = environments.InstalledEnvironment(name=old.name, requires=[], python="3", packages={})
    (old / STAMP).write_bytes(msgspec.json.encode(stamp))
    assert environments.environment_path(old.name) == old and worker_python(fake_planner(old.name)) == interpreter(old)
    assert environments.environment_path("not-there-yet").parent == default_environment_folder()


def test_jprep_is_installed_from_the_same_source() -> None:
    [*editable, place] = environments.pip_requirements("jprep")
    assert editable in ([], ["--editable"])
    assert place.startswith("jprep==") or Path(place).exists()
    with pytest.raises(ConfigError, match="not installed here"):
        environments.pip_requirements("no-such-distribution")


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ({"url": "file:///a%20b/%E6%9D%B1", "dir_info": {"editable": True}}, ["--editable", "/a b/東"]),
        ({"url": "file:///a/x.whl", "archive_info": {}}, ["/a/x.whl"]),
        ({"url": "https://example.org/x.whl", "archive_info": {}}, ["https://example.org/x.whl"]),
        (
            {"url": "https://example.org/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["git+https://example.org/x@abc"],
        ),
    ],
)
def test_every_kind_of_source_is_kept(
    origin: dict[str, object], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "jprep_far-1.0.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: jprep-far\nVersion: 1.0\n")
    about.joinpath("direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert environments.pip_requirements("jprep-far") == expected


def test_local_requirements_of_a_backend_are_installed_from_the_same_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed_here(name: str, *requires: str, origin: str = "") -> None:
        about = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        lines = "".join(f"Requires-Dist: {one}\n" for one in requires)
        about.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}")
        if origin:
            about.joinpath("direct_url.json").write_text(json.dumps({"url": origin, "dir_info": {"editable": True}}))
        groups = {"jprep": "console_scripts", "jprep-words": "jprep_pointwise", "plain-one": "jprepared"}
        about.joinpath("entry_points.txt").write_text(f"[{groups.get(name, 'jprep')}]\nx = x\n")

    others = ("plain-one", "not-there", "jprep-aside; extra == 'worker'")
    installed_here("jprep", "jprep-words>=0.1")
    installed_here("jprep-words", origin="file:///words")
    installed_here("jprep-upper", "jprep>=0.1", "jprep-lower>=0.1", *others)
    installed_here("jprep-lower", "jprep>=0.1", "jprep-base", origin="file:///lower")
    for name in ("jprep-base", "jprep-aside"):
        installed_here(name, origin=f"file:///{name}")
    installed_here("plain-one", origin="file:///a/build/folder/that/is/gone")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = environments.local_distributions("jprep-upper")
    assert found == ["jprep", "jprep-upper", "jprep-words", "jprep-lower", "jprep-base"]
    assert environments.pip_requirements("jprep-lower") == ["--editable", "/lower"]


def test_an_environment_with_a_damaged_stamp_is_recreated(tmp_path: Path) -> None:
    (tmp_path / STAMP).write_text('{"name": "x"')
    assert read_stamp(tmp_path) is None
    with pytest.raises(ConfigError, match="not a valid backend name"):
        install_environment("../x", [], tmp_path)
