"""The choice between uv and pip; both are scripts that record their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.errors import MachineError
from jprep.train.launcher.package_installer import install_packages, pip_sources


class Machine:
    """An environment's interpreter and uv, which record their arguments in files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.said = folder, list[str]()
        self.python = folder / "env" / "bin" / "python"
        self.python.parent.mkdir(parents=True)
        (folder / "path").mkdir()
        monkeypatch.setenv("PATH", f"{folder / 'path'}:/usr/bin:/bin")
        self.play(self.python, "pip", "")

    def play(self, path: Path, name: str, config: str, code: int = 0) -> None:
        path.write_text(
            f'#!/bin/sh\nif [ "$4" = list ]; then echo "{config}"; exit 0; fi\n'
            f'echo "$@" >> {self.folder / name}\necho {name} says it\nexit {code}\n'
        )
        path.chmod(0o755)

    def uv(self, code: int = 0) -> None:
        self.play(self.folder / "path" / "uv", "uv", "", code)

    def install(self, *options: str) -> None:
        install_packages(self.python, ["tiny==1"], options, self.said.append)

    def called(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_uv_is_used_if_installed(machine: Machine) -> None:
    machine.uv()
    machine.install()
    assert machine.called("uv") == f"pip install --python {machine.python} tiny==1\n"
    assert not machine.called("pip") and machine.said == ["uv says it"]


def test_pip_is_used_without_uv(machine: Machine) -> None:
    machine.install()
    assert machine.called("pip") == "-m pip install --disable-pip-version-check tiny==1\n"
    assert machine.said == ["pip says it"]


def test_pip_is_used_with_pip_options(machine: Machine) -> None:
    machine.uv()
    machine.install("--no-index")
    assert "--no-index tiny==1" in machine.called("pip") and not machine.called("uv")


def test_pip_is_used_if_uv_fails(machine: Machine) -> None:
    machine.uv(code=1)
    machine.install()
    assert machine.called("uv") and machine.called("pip")
    assert machine.said == ["uv says it", "uv could not install it: trying pip", "pip says it"]


@pytest.mark.parametrize("setting", ["global.index-url='https://example.org'", ":env:.find-links='/wheels'"])
def test_package_sources_in_pip_s_configuration_are_kept(setting: str, machine: Machine) -> None:
    """uv would ignore them, and install packages of the same names from the public index."""
    machine.uv()
    machine.play(machine.python, "pip", setting)
    machine.install()
    assert machine.called("pip") and not machine.called("uv")
    assert "using pip" in machine.said[0] and pip_sources(machine.python)[0] in machine.said[0]


def test_unrelated_configuration_of_pip_is_ignored(machine: Machine) -> None:
    machine.uv()
    machine.play(machine.python, "pip", "global.timeout='60'")
    machine.install()
    assert machine.called("uv") and not machine.called("pip")


def test_the_error_is_pip_s(machine: Machine) -> None:
    machine.uv(code=1)
    machine.play(machine.python, "pip", "", code=1)
    with pytest.raises(MachineError, match="pip says it") as caught:
        machine.install()
    assert caught.value.where == str(machine.python.parents[1])
