"""A release: one version for all distributions, and Pythons that were tried."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

BACKENDS = sorted(ROOT.glob("backends/*/pyproject.toml"))
MODELS = sorted(ROOT.glob("models/*/pyproject.toml"))
RELEASE = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")


def project(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return table


@pytest.mark.parametrize("path", [*BACKENDS, *MODELS], ids=lambda path: path.parent.name)
def test_every_distribution_has_the_version_of_jprep(path: Path) -> None:
    table = project(path)
    assert "version" in table["project"]["dynamic"]
    source = table["tool"]["hatch"]["version"]
    [stated] = re.findall(source["pattern"], (path.parent / source["path"]).read_text(encoding="utf-8"), re.MULTILINE)
    assert stated == project(ROOT / "pyproject.toml")["project"]["version"]


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.parent.name)
def test_a_backend_is_distributed_with_its_licence(path: Path) -> None:
    assert (path.parent / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_oldest_and_the_newest_python_of_the_classifiers_are_tried() -> None:
    classifiers = project(ROOT / "pyproject.toml")["project"]["classifiers"]
    named = sorted(int(minor) for one in classifiers for minor in re.findall(r"Python :: 3\.(\d+)", one))
    tried = sorted(int(minor) for minor in re.findall(r"^ +3\.(\d+)$", RELEASE, re.MULTILINE))
    assert tried == [named[0], named[-1]]
