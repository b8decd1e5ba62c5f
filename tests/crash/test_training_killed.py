"""`jprep train` with the backend torch gives the same bytes whatever happens to its processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jprep.io import failpoints
from jprep.train.run.ranks import live_ranks
from tests.conftest import PATIENCE
from tests.crash.conftest import await_true
from tests.fakes.torch_work import EVERY, Ending, Training, need_torch

pytestmark = pytest.mark.backends

KILLS = 5
STEPS, STEPS_EACH = 300, 40  # for each kill: a worker whose parent is killed goes on for half a second
STRIDE = 8  # steps, at most, that a run goes on before it is killed again
KEEP = 2
MOMENTS = ("start", "step", "saving", "pause", "saving", "step")
"""Of each six kills one is while processes start, one in a pause before a restart, two while a checkpoint is made."""

PLACES = [name for name in failpoints.NAMES if name.startswith("run.") and name != "run.joined"]
"""The failpoints of a run of one process, which joins nothing."""

OTHERS = 4 << 20
"""Bytes that a run directory may have beside its checkpoints."""


@pytest.fixture(scope="module", autouse=True)
def torch() -> None:
    need_torch()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Ending:
    """What a run comes to that nobody disturbs."""
    return train_uninterrupted(tmp_path_factory.mktemp("uninterrupted"), STEPS)


def train_uninterrupted(folder: Path, steps: int, processes: int = 1) -> Ending:
    training = Training(folder).lay_out(steps, KEEP, processes)
    training.train()
    return training.ending()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    training = Training(tmp_path).lay_out(STEPS, KEEP)
    yield training
    training.close()


def workers(training: Training) -> list[int]:
    return sorted(training.processes(commands=False))


def kill(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


class Kills:
    """Kills a run's processes at one moment after the other, and starts its command again where it is gone.

    Args:
        training: the run.
        chance: says when and whom.

    Attributes:
        done: the moments, and who was killed.
        bytes: the most that the run directory had after a kill.
    """

    def __init__(self, training: Training, chance: random.Random) -> None:
        self._training, self._chance = training, chance
        self._process = training.start()
        self.done: list[str] = []
        self.bytes = self._starts = 0

    def strike(self, moment: str) -> None:
        """Kill the parent, workers or both at such a moment; see what is left, and start the command again."""
        getattr(self, f"_await_{moment}")()
        assert self._process.poll() is None, f"the run ended before {moment}, after {self.done}"
        there = workers(self._training)
        whom = self._chance.choice(["parent", "worker", "both"]) if there else "parent"
        self.done.append(f"{moment}: {whom}")
        if whom != "parent":
            kill(self._chance.sample(there, self._chance.randint(1, len(there))))
        if whom != "worker":
            self._process.kill()
            self._process.communicate()
            if moment != "start":  # a worker that still imports looks for its supervisor later, beside the next one
                self._nothing_is_left()
        self._starts = self._count("start")
        if whom != "worker":
            self._process = self._training.start()

    def finish(self) -> None:
        """Let it come to its end."""
        out, said = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0, out + said
        assert not self._training.processes()

    def _nothing_is_left(self) -> None:
        """No process, no half of a checkpoint that is believed, no more bytes than a run may have."""
        await_true(lambda: not self._training.processes() and not live_ranks(self._training.run))
        saved = self._training.whole()
        assert len(saved) <= KEEP + 1
        assert len(self._training.folders("partial-")) <= 2  # one being filled, one being deleted
        names = {path.name for path in self._training.folders()}
        assert all(name.startswith(("step-", "partial-step-")) for name in names), names
        sizes = {path: path.stat().st_size for path in self._training.run.rglob("*") if path.is_file()}
        assert sum(size for path, size in sizes.items() if "checkpoints" not in path.parts) < OTHERS
        self.bytes = max(self.bytes, sum(sizes.values()))

    def _await_start(self) -> None:
        """While the command or its worker starts."""
        until = time.monotonic() + self._chance.uniform(0.05, 4.0)
        self._await(lambda: time.monotonic() > until or self._count("start") > self._starts)

    def _await_step(self) -> None:
        self._await_worker()
        goal = self._training.step() + self._chance.randint(0, STRIDE)
        self._await(lambda: self._training.step() >= goal)

    def _await_saving(self) -> None:
        self._await_step()
        self._await(lambda: self._training.folders("partial-"), 0.0)
        time.sleep(self._chance.uniform(0, 0.02))

    def _await_pause(self) -> None:
        """Between a worker's death and its next start."""
        self._await_step()
        before = self._count("restart")
        kill(workers(self._training))
        self._await(lambda: self._count("restart") > before)
        time.sleep(self._chance.uniform(0, 0.9))

    def _await_worker(self) -> None:
        self._await(lambda: self._count("start") > self._starts and self._training.step())

    def _count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self._training.events())

    def _await(self, condition: Callable[[], object], pause: float = 0.005) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition() and self._process.poll() is None:
            assert time.monotonic() < deadline, f"it did not come to be, after {self.done}"
            time.sleep(pause)


def assert_killed_and_the_same(training: Training, seed: int, kills: int, uninterrupted: Ending) -> None:
    struck = Kills(training, random.Random(seed))
    try:
        for number in range(kills):
            struck.strike(MOMENTS[number % len(MOMENTS)])
        struck.finish()
    finally:
        print(f"seed {seed}, at most {struck.bytes} bytes, killed {len(struck.done)} times: {struck.done}")
    assert training.ending() == uninterrupted
    assert [path.name for path in training.folders()] == [
        f"step-{uninterrupted.step - EVERY:08d}",
        f"step-{uninterrupted.step:08d}",
    ]
    assert not list(training.folder.rglob("*.tmp-*")) and not list(training.run.joinpath("ranks").iterdir())


@pytest.mark.soak
def test_killed_at_random_moments_again_and_again(training: Training, uninterrupted: Ending) -> None:
    assert_killed_and_the_same(training, 1, KILLS, uninterrupted)


@pytest.mark.soak
@pytest.mark.parametrize(("kills", "processes"), [(50, 1), (10, 2)])
def test_killed_many_times(kills: int, processes: int, tmp_path: Path) -> None:
    steps = STEPS_EACH * kills
    uninterrupted = train_uninterrupted(tmp_path / "uninterrupted", steps, processes)
    training = Training(tmp_path / "killed").lay_out(steps, KEEP, processes)
    try:
        assert_killed_and_the_same(training, 2, kills, uninterrupted)
    finally:
        training.close()


@pytest.mark.soak
def test_killed_at_every_place_of_a_checkpoint_and_of_an_event(training: Training, uninterrupted: Ending) -> None:
    """One after the other, each where the one before had left it."""
    for place in PLACES:
        before = [one.step for one in training.whole()]
        recorded = place == "run.event"  # the command records the end of the run, and dies as well
        code = -signal.SIGKILL if recorded else 1
        said = training.train("--set", "train.max_restarts=0", code=code, JPREP_FAILPOINT=f"{place}=die")
        assert recorded or ("the worker died 1 times" in said and "SIGKILL" in said)
        assert not training.folders("partial-")
        assert [one.step for one in training.whole()][-1:] >= before[-1:]
    training.train()
    assert training.ending() == uninterrupted


def test_a_stopped_run_saves_and_the_printed_command_resumes_it(training: Training, uninterrupted: Ending) -> None:
    process = training.start()
    await_true(lambda: workers(training), PATIENCE)
    assert "nothing is saved" in asked_to_leave(training, process, signal.SIGTERM)
    process = training.start()
    await_true(lambda: training.step() > EVERY, PATIENCE)
    assert "saving; interrupt once more to stop now" in asked_to_leave(training, process, signal.SIGINT)
    assert training.whole()[-1].step == training.step() < STEPS
    training.train()
    assert training.ending() == uninterrupted


def asked_to_leave(training: Training, process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send a signal to the whole group, as a terminal does; what was said."""
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "to resume:  jprep train small.toml" and "Traceback" not in said
    assert not training.processes()
    return said


@pytest.mark.soak
def test_a_second_command_is_refused_and_a_second_signal_exits_at_once(
    training: Training, uninterrupted: Ending
) -> None:
    process = training.start()
    await_true(lambda: training.step() > EVERY, PATIENCE)
    os.kill(live_ranks(training.run)[0], signal.SIGSTOP)  # it stays where it is, and hears nothing
    said = training.train(code=3)
    assert "another jprep is running here" in said and str(training.run.relative_to(training.folder)) in said
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)  # two signals of one kind at once would be one
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "to resume:" in said and "Traceback" not in said
    assert not training.processes()
    assert training.whole()
    training.train()
    assert training.ending() == uninterrupted


@pytest.mark.soak
def test_a_worker_that_hangs_is_started_again(training: Training, uninterrupted: Ending) -> None:
    process = training.start("--set", "train.silent_minutes=0.3")
    await_true(lambda: training.step() > EVERY, PATIENCE)
    [worker] = live_ranks(training.run)
    os.kill(worker, signal.SIGSTOP)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "it showed no sign of life for 0.3 minutes" in said
    assert not training.processes()
    assert training.ending() == uninterrupted
