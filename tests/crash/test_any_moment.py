"""Commands killed at random moments: rerunning gives the same bytes, and nothing else is left."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from jprep import samples
from tests.command_server import CommandServer
from tests.conftest import PATIENCE, SHARED, digests
from tests.crash.conftest import Work, await_true, children

MOMENTS, SOAK = 3, 17


def kill_at(moment: float, work: Work, workers: int) -> None:
    """Kill a build, with all its workers, so many seconds after its start."""
    process = work.start(workers)
    time.sleep(moment)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def assert_killed_and_finished(seed: int, work: Work, uninterrupted: dict[str, str], duration: float) -> None:
    """Kill it at two moments, one run after the other; then let it finish."""
    chance, workers = random.Random(seed), 1 + seed % 2
    for _ in range(2):
        kill_at(chance.uniform(0.1, duration), work, workers)
    work.finish(3 - workers)
    assert digests(work.folder) == uninterrupted
    assert not list(work.folder.rglob("*.tmp-*"))


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_killed_at_random_moments(seed: int, work: Work, uninterrupted: dict[str, str]) -> None:
    assert_killed_and_finished(seed, work, uninterrupted, 1.2)


@pytest.fixture(scope="module")
def large(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, dict[str, str], float]:
    """A recipe with more to do, over real data where there is some; what it gives, and how long it takes."""
    folder = tmp_path_factory.mktemp("large")
    samples.write_sample(folder)
    real = sorted((SHARED / "data" / "wikitext").glob("jawiki-20220720-head-*.bz2"))
    dumps = [str(path) for path in real or [folder / samples.DUMP]]
    source = '[[corpus.sources]]\nname = "{}"\nreader = {{ use = "wikipedia", shard_mb = 1 }}\npaths = {}\n'
    text = (
        'name = "large"\n'
        + "".join(source.format(f"wiki{n}", dumps) for n in range(3))
        + "[corpus.dedup]\nlines = true\nnear = { bands = 20, rows = 3 }\n"
    )
    recipe = folder / "large.toml"
    recipe.write_text(text, encoding="utf-8")
    uninterrupted = Work(folder / "uninterrupted", recipe, {}, request.getfixturevalue("command_server"))
    begun = time.monotonic()
    uninterrupted.finish()
    return recipe, digests(uninterrupted.folder), time.monotonic() - begun


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(MOMENTS, MOMENTS + SOAK))
def test_killed_at_random_moments_of_larger_work(
    seed: int, large: tuple[Path, dict[str, str], float], tmp_path: Path, command_server: CommandServer
) -> None:
    recipe, uninterrupted, duration = large
    assert_killed_and_finished(seed, Work(tmp_path / "corpus", recipe, {}, command_server), uninterrupted, duration)


def test_workers_exit_when_their_parent_is_killed(work: Work, uninterrupted: dict[str, str]) -> None:
    process = work.start(2, PAUSE="1")
    await_true(lambda: len(children(process.pid)) == 2)
    workers = children(process.pid)
    process.kill()
    process.wait()
    await_true(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    work.finish(2)
    assert digests(work.folder) == uninterrupted


def test_a_killed_worker_is_replaced(work: Work, uninterrupted: dict[str, str]) -> None:
    process = work.start_and_hold(2)
    await_true(lambda: len(children(process.pid)) == 2)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    work.release()
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert [line for line in said.splitlines() if "; running for " not in line] == []  # said each half minute
    assert digests(work.folder) == uninterrupted


def test_one_build_at_a_time(work: Work) -> None:
    process = work.start(1, PAUSE="2")
    await_true((work.folder / ".state" / "documents").exists)
    refused = work.finish(code=3)
    assert "another jprep is running here" in refused and str(work.folder) in refused
    assert process.poll() is None
