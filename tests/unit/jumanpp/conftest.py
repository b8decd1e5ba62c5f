"""The fake Juman++, installed, and drivers of it and of the real one where there is one.

The real half runs where `jumanpp` is on PATH, or `JPREP_JUMANPP` names the program and `JPREP_JUMANPP_MODEL` its model.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from jprep.corpus.segmenters.jumanpp import JumanppSegmenter

FAKE = Path(__file__).parents[2] / "fakes" / "jumanpp.py"
REAL = os.environ.get("JPREP_JUMANPP") or shutil.which("jumanpp")


def install(folder: Path) -> Path:
    """Put the fake program and its model into a folder, laid out as Juman++ installs itself."""
    program, shared = folder / "bin" / "jumanpp", folder / "libexec" / "jumanpp"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(FAKE))} "$@"\n')
    program.chmod(0o755)
    shared.mkdir(parents=True)
    (shared / "jumandic.config").write_text("--model=jumandic.jppmdl\n")
    (shared / "jumandic.jppmdl").write_bytes(b"fake jumanpp model 1")
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return install(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def make(program):
    """Make drivers of the fake; each is closed in the end."""
    made = []

    def one(*args: str, **options) -> JumanppSegmenter:
        made.append(JumanppSegmenter(JumanppSegmenter.Config(program=str(program), args=args, **options)))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture(scope="module", params=["fake", "real"])
def either(request):
    """The driver of the fake, and of the real Juman++ where there is one."""
    if request.param == "fake":
        options = {"program": str(request.getfixturevalue("program"))}
    elif REAL:
        options = {"program": REAL, "model": os.environ.get("JPREP_JUMANPP_MODEL", "")}
    else:
        pytest.skip("no real Juman++ here: put jumanpp on PATH or set JPREP_JUMANPP (and JPREP_JUMANPP_MODEL)")
    made = JumanppSegmenter(JumanppSegmenter.Config(**options))
    yield made
    made.close()
