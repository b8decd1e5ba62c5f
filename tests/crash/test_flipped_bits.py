"""One flipped bit anywhere: work under way comes out the same, a finished artefact is refused. Never wrong output."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.conftest import digests
from tests.crash.flips import USES, WORK, Inputs, Outcomes, copy, finish, flip, flips, interrupt, make_inputs

FEW, MANY = 4, 30
"""Flips for each interruption or use."""


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """What the work is made of."""
    return make_inputs(tmp_path_factory.mktemp("flipped"))


def flip_and_resume(kind: str, inputs: Inputs, folder: Path, count: int) -> Outcomes:
    """Interrupt a kind of work at several places, flip bits in what it left, and resume it each time."""
    work, stops = WORK[kind]
    damaged = folder / "damaged"

    def resume() -> dict[str, str]:
        finish(work, inputs, damaged)
        return digests(damaged)

    finish(work, inputs, folder / "calm")
    calm, chance, outcomes = digests(folder / "calm"), random.Random(kind), Outcomes()
    for after in stops:
        begun = folder / f"begun{after}"
        interrupt(work, inputs, begun, after)
        for path, bit in flips(begun, chance, count):
            copy(begun, damaged)
            flip(damaged / path, bit)
            outcomes.note(f"{kind}, interrupted after {after} tasks, bit {bit} of {path}", resume, calm)
            shutil.rmtree(damaged)
    return outcomes


def flip_and_use(name: str, inputs: Inputs, folder: Path, count: int) -> Outcomes:
    """Flip bits in copies of a finished artefact, and use each copy."""
    damaged, use = USES[name]
    chance, outcomes = random.Random(name), Outcomes()
    expected = use(Inputs(*(copy(path, _in(folder / "calm") / path.name) for path in inputs)))
    for path, bit in flips(getattr(inputs, damaged), chance, count):
        copies = Inputs(*(copy(each, _in(folder / "damaged") / each.name) for each in inputs))
        flip(getattr(copies, damaged) / path, bit)
        outcomes.note(f"{name}: bit {bit} of {path}", lambda copies=copies: use(copies), expected)  # type: ignore[misc]
        shutil.rmtree(folder / "damaged")
    return outcomes


def _in(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("kind", WORK)
def test_work_under_way_comes_out_the_same(kind: str, inputs: Inputs, tmp_path: Path) -> None:
    outcomes = flip_and_resume(kind, inputs, tmp_path, FEW)
    assert outcomes == {"same": FEW * len(WORK[kind][1])}


@pytest.mark.soak
@pytest.mark.parametrize("kind", WORK)
def test_work_under_way_comes_out_the_same_however_often(kind: str, inputs: Inputs, tmp_path: Path) -> None:
    outcomes = flip_and_resume(kind, inputs, tmp_path, MANY)
    print(f"{kind}: {dict(outcomes)}")
    assert outcomes == {"same": MANY * len(WORK[kind][1])}


@pytest.mark.parametrize("name", USES)
def test_a_finished_artefact_is_refused_or_sound(name: str, inputs: Inputs, tmp_path: Path) -> None:
    flip_and_use(name, inputs, tmp_path, FEW)


@pytest.mark.soak
@pytest.mark.parametrize("name", USES)
def test_a_finished_artefact_is_refused_or_sound_however_often(name: str, inputs: Inputs, tmp_path: Path) -> None:
    outcomes = flip_and_use(name, inputs, tmp_path, MANY)
    print(f"{name}: {dict(outcomes)}")
    assert outcomes["refused"] >= MANY // 4
