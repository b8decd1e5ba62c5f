"""The fake Juman++, installed, and drivers of it and of the real one where there is one.

The real half runs where `jumanpp` is on PATH, or `JPREP_JUMANPP` names the program and `JPREP_JUMANPP_MODEL` its model.
"""

from __future__ import annotations

import os
import shutil

import pytest

from jprep.corpus.segmenters.jumanpp import JumanppSegmenter
from tests.fakes.jumanpp_program import install

REAL = os.environ.get("JPREP_JUMANPP") or shutil.which("jumanpp")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return install(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def make(program):
    """Make segmenters that run the fake program, and close them at the end."""
    made = []

    def one(*args: str, **options) -> JumanppSegmenter:
        made.append(JumanppSegmenter(JumanppSegmenter.Config(program=str(program), args=args, **options)))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture(scope="module", params=["fake", "real"])
def either(request):
    """A segmenter with the fake program, and one with the real Juman++ if it is installed."""
    if request.param == "fake":
        options = {"program": str(request.getfixturevalue("program"))}
    elif REAL:
        options = {"program": REAL, "model": os.environ.get("JPREP_JUMANPP_MODEL", "")}
    else:
        pytest.skip("no real Juman++ here: put jumanpp on PATH or set JPREP_JUMANPP (and JPREP_JUMANPP_MODEL)")
    made = JumanppSegmenter(JumanppSegmenter.Config(**options))
    yield made
    made.close()
