"""A flipped bit in unfinished work does not change the output; in a finished artefact it is refused."""

from __future__ import annotations

import random
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Run, digests
from tests.crash.conftest import Work
from tests.crash.flips import USES, WORK, Inputs, Outcomes, copy, files_of, finish, flip, flips, interrupt, make_inputs

FEW, MANY = 4, 30
"""Flips for each interruption or use."""

GARBAGE = [b"", b"{", b'{"task": "\xff"}', b"[]", b"null", b"\xff\xfe\x00", b'{"a":' + b"[" * 5000]
"""What may stand where a file was: nothing, other JSON, what is no UTF-8."""

UNREAD = ("README.md", "tokenizer_config.json", "special_tokens_map.json", "usage.json")
"""A tokenizer's files that other programs read, and jprep does not; and figures that only plans are compared with."""


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

    finish(work, inputs, folder / "uninterrupted")
    uninterrupted, chance, outcomes = digests(folder / "uninterrupted"), random.Random(kind), Outcomes()
    for after in stops:
        begun = folder / f"begun{after}"
        interrupt(work, inputs, begun, after)
        for path, bit in flips(begun, chance, count):
            copy(begun, damaged)
            flip(damaged / path, bit)
            outcomes.note(f"{kind}, interrupted after {after} tasks, bit {bit} of {path}", resume, uninterrupted)
            shutil.rmtree(damaged)
    return outcomes


def flip_and_use(name: str, inputs: Inputs, folder: Path, count: int) -> Outcomes:
    """Flip bits in copies of a finished artefact, and use each copy."""
    damaged, use = USES[name]
    chance, outcomes = random.Random(name), Outcomes()
    expected = use(Inputs(*(copy(path, _in(folder / "uninterrupted") / path.name) for path in inputs)))
    for path, bit in flips(getattr(inputs, damaged), chance, count):
        copies = Inputs(*(copy(each, _in(folder / "damaged") / each.name) for each in inputs))
        flip(getattr(copies, damaged) / path, bit)
        outcomes.note(f"{name}: bit {bit} of {path}", partial(use, copies), expected)
        shutil.rmtree(folder / "damaged")
    return outcomes


def _in(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("kind", WORK)
def test_resumed_work_with_flipped_bits_has_the_same_output(kind: str, inputs: Inputs, tmp_path: Path) -> None:
    outcomes = flip_and_resume(kind, inputs, tmp_path, FEW)
    assert outcomes == {"same": FEW * len(WORK[kind][1])}


@pytest.mark.soak
@pytest.mark.parametrize("kind", WORK)
def test_resumed_work_with_many_flipped_bits_has_the_same_output(kind: str, inputs: Inputs, tmp_path: Path) -> None:
    outcomes = flip_and_resume(kind, inputs, tmp_path, MANY)
    print(f"{kind}: {dict(outcomes)}")
    assert outcomes == {"same": MANY * len(WORK[kind][1])}


@pytest.mark.parametrize("name", USES)
def test_a_finished_artefact_with_a_flipped_bit_is_refused_or_correct(
    name: str, inputs: Inputs, tmp_path: Path
) -> None:
    flip_and_use(name, inputs, tmp_path, FEW)


@pytest.mark.soak
@pytest.mark.parametrize("name", USES)
def test_a_finished_artefact_with_any_of_many_flipped_bits_is_refused_or_correct(
    name: str, inputs: Inputs, tmp_path: Path
) -> None:
    outcomes = flip_and_use(name, inputs, tmp_path, MANY)
    print(f"{name}: {dict(outcomes)}")
    assert outcomes["refused"] >= MANY // 4


@pytest.mark.parametrize(("kind", "after"), [("linked corpus", 6), ("tokenizer of inputs", 8), ("dataset", 4)])
def test_garbage_in_unfinished_work_is_made_again(kind: str, after: int, inputs: Inputs, tmp_path: Path) -> None:
    """Every file cut in half, and every file replaced by garbage."""
    work = WORK[kind][0]
    begun, damaged = tmp_path / "begun", tmp_path / "damaged"
    finish(work, inputs, tmp_path / "uninterrupted")
    interrupt(work, inputs, begun, after)
    for number, garbage in enumerate([None, *GARBAGE]):
        copy(begun, damaged)
        for place, path in enumerate(files_of(damaged)):
            if garbage is None or place % len(GARBAGE) == number - 1:
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if garbage is None else garbage)
        finish(work, inputs, damaged)
        assert digests(damaged) == digests(tmp_path / "uninterrupted"), garbage
        shutil.rmtree(damaged)


@pytest.mark.parametrize("name", ["corpus", "tokenizer", "dataset"])
def test_garbage_in_a_finished_artefact_is_refused(name: str, inputs: Inputs, tmp_path: Path) -> None:
    uses = [use for damaged, use in USES.values() if damaged == name]
    for path in files_of(getattr(inputs, name)):
        if path.name in UNREAD:
            continue
        for number, garbage in enumerate(GARBAGE):
            use = uses[number % len(uses)]
            copies = Inputs(*(copy(each, _in(tmp_path / "copies") / each.name) for each in inputs))
            (getattr(copies, name) / path.relative_to(getattr(inputs, name))).write_bytes(garbage)
            Outcomes().note(f"{path.name}: {garbage!r}", partial(use, copies), "refused")
            shutil.rmtree(tmp_path / "copies")


def test_repeated_tasks_are_reported(work: Work, uninterrupted: dict[str, str]) -> None:
    work.disturb("stage.begun@6")
    shard = next((work.folder / ".state" / "documents" / "documents").iterdir())
    receipt = next((work.folder / ".state" / "dedup" / "receipts").iterdir())
    flip(shard, 999)
    receipt.write_bytes(b"garbage")
    said = work.finish()
    assert f"{shard} was changed or damaged: the task that wrote it is done again\n" in said
    assert f"{receipt} is damaged (JSON is malformed" in said and "Traceback" not in said
    assert digests(work.folder) == uninterrupted


def test_the_command_refuses_a_damaged_corpus(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    damaged = copy(corpus, tmp_path / "damaged")
    shard = next((damaged / "documents").iterdir())
    flip(shard, 8 * shard.stat().st_size // 2)
    for command in (("corpus", "export", damaged), ("tokenizer", "train", damaged, "-o", tmp_path / "tokenizer")):
        said = jprep(*command, code=2).stderr
        assert "was changed or damaged" in said and str(shard) in said and "--restart" in said
    manifest = (damaged / "corpus.json").read_bytes()
    (damaged / "corpus.json").write_bytes(manifest.replace(b'"characters": ', b'"characters": 1', 1))
    said = jprep("corpus", "stats", damaged, code=2).stderr
    assert "its checksum does not match" in said and "--restart" in said
