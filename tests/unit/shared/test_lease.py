"""Leases of directories that hosts share: never two holders, whatever the order of steps and the speed of clocks."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jprep.errors import MachineError
from jprep.io.shared.heartbeats import Timing
from jprep.io.shared.host import Holder
from jprep.io.shared.lease import Lease, LeaseWatch, evict, lease_folder

TIMING = Timing(beat=5, valid=40, stale=120)


class Clock:
    """A clock of a host that the test sets."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def host(name: str, flock: str = "host") -> Holder:
    """A process on some host; all of them have one process id and one host name."""
    return Holder(session=os.urandom(8).hex(), host=name, name="node", process=7, flock=flock)


def lease_of(lock: Path, name: str, clock: Clock) -> Lease:
    return Lease(lock, host(name), TIMING, clock)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "LOCK"


def test_only_one_takes_it_and_nothing_is_left(lock: Path) -> None:
    one, other = (lease_of(lock, name, Clock()) for name in "ab")
    assert one.take() and not other.take()
    one.check()
    one.release()
    assert list(lock.parent.iterdir()) == []
    assert other.take()
    with pytest.raises(MachineError, match="taken over"):
        one.check()


def test_a_holder_whose_file_does_not_change_is_dead_after_a_time_of_the_watcher(lock: Path) -> None:
    theirs, ours = Clock(1e9), Clock(5)  # clocks apart
    holder, watch = lease_of(lock, "a", theirs), LeaseWatch(lock, TIMING, ours)

    def seen() -> bool | None:
        beat = watch.look()
        assert beat is not None
        return watch.is_alive(beat)

    assert holder.take()
    assert seen() is None
    ours.now += 119
    assert seen() is None
    holder.beat()
    assert seen() is True
    ours.now += 119
    assert seen() is True
    ours.now += 1
    assert seen() is False


def test_a_watcher_that_was_suspended_after_it_read_takes_nobody_for_dead(lock: Path) -> None:
    ours = Clock()
    holder, watch = lease_of(lock, "a", Clock()), LeaseWatch(lock, TIMING, ours)
    assert holder.take()
    for pause in (1, 3600):
        beat = watch.look()
        assert beat is not None
        ours.now += pause  # the holder beats meanwhile
        assert watch.is_alive(beat) is None


def test_a_holder_that_wakes_up_before_anyone_took_over_goes_on_under_a_new_name(lock: Path) -> None:
    clock = Clock()
    holder, watch = lease_of(lock, "a", clock), LeaseWatch(lock, TIMING, Clock())
    assert holder.take()
    seen = watch.look()
    assert seen is not None
    clock.now += 1000
    holder.check()
    evict(lease_folder(lock), seen.name)  # by one that had judged it dead before
    holder.check()
    holder.beat()
    assert not lease_of(lock, "b", Clock()).take()


@pytest.mark.parametrize("call", [Lease.check, Lease.beat])
def test_a_holder_that_wakes_up_after_another_took_over_is_told(lock: Path, call: Callable[[Lease], None]) -> None:
    clock = Clock()
    holder, other = lease_of(lock, "a", clock), lease_of(lock, "b", Clock())
    assert holder.take()
    seen = LeaseWatch(lock, TIMING, clock).look()
    assert seen is not None
    evict(lease_folder(lock), seen.name)
    assert other.take()
    clock.now += 1000
    with pytest.raises(MachineError, match="another process has taken over this directory"):
        call(holder)
    holder.release()
    other.check()


def test_an_empty_directory_of_a_killed_process_is_free(lock: Path) -> None:
    lease_folder(lock).mkdir()
    (lease_folder(lock) / ".nfs0000000000000a1b00000001").touch()
    assert lease_of(lock, "a", Clock()).take()


def test_a_repeated_rename_is_recognised(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server had renamed it, its reply was lost, and the repeated request finds nothing."""
    rename = os.rename

    def lost_reply(source: Path, target: Path) -> None:
        rename(source, target)
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))

    monkeypatch.setattr(os, "rename", lost_reply)
    clock = Clock()
    holder = lease_of(lock, "a", clock)
    assert holder.take()
    clock.now += 1000
    holder.check()  # renews it
    monkeypatch.undo()
    assert not lease_of(lock, "b", Clock()).take()


def test_a_forked_child_checks_and_does_not_release(lock: Path) -> None:
    holder = lease_of(lock, "a", Clock())
    assert holder.take()
    if not (child := os.fork()):
        try:
            holder.check()
            holder.release()
        except MachineError:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    holder.check()


class Schedule:
    """Lets one of several threads at a time go on to its next operation of the file system."""

    def __init__(self) -> None:
        self._parked, self._me = threading.Semaphore(0), threading.local()
        self._turns: list[threading.Semaphore] = []
        self._alive: list[int] = []
        self._errors: list[BaseException] = []

    def step(self) -> None:
        """Wait for this thread's next turn; called before each operation."""
        if (number := getattr(self._me, "number", None)) is not None:
            self._parked.release()
            self._turns[number].acquire()

    def run(self, works: list[Callable[[], None]], choose: Callable[[list[int]], int]) -> None:
        """Run functions in threads of their own to their ends, in the order that `choose` gives."""
        self._turns, self._alive = [threading.Semaphore(0) for _ in works], [*range(len(works))]
        for number, work in enumerate(works):
            threading.Thread(target=self._thread, args=(number, work), daemon=True).start()
        while self._alive:
            self._turns[choose(self._alive)].release()
            self._parked.acquire()
        assert self._errors == []

    def _thread(self, number: int, work: Callable[[], None]) -> None:
        self._me.number = number
        self._turns[number].acquire()
        try:
            work()
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._alive.remove(number)
            self._parked.release()


HOOKED = ("rename", "unlink", "rmdir", "mkdir", "listdir", "open")
MARGIN = 70  # below `stale` - `valid`, for clocks of different speed


def hooked(operation: Callable[..., Any], schedule: Schedule) -> Callable[..., Any]:
    def step(*arguments: Any, **options: Any) -> Any:
        schedule.step()
        return operation(*arguments, **options)

    return step


class Hosts:
    """Hosts that take, use, lose and release one lease, and know whether two of them ever used it at once."""

    def __init__(self, lock: Path, seed: int) -> None:
        self._lock, self._random, self._schedule, self._current = lock, random.Random(seed), Schedule(), -1
        self._now, self._checked, self.broken = 0.0, dict[int, float](), False

    def run(self, number: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name in HOOKED:
                patch.setattr(os, name, hooked(getattr(os, name), self._schedule))
            self._schedule.run([functools.partial(self._work, each) for each in range(number)], self._choose)

    def _choose(self, alive: list[int]) -> int:
        """Let time pass and choose who goes on; who has just checked is not suspended for longer than the margin."""
        if self._current not in alive or self._random.random() < 0.2:
            self._current = self._random.choice(alive)
            seconds = self._random.choice([0, 0, 1, 30, 60, 130])
            self._now += min([seconds, *(since + MARGIN - self._now for since in self._checked.values())])
        return self._current

    def _work(self, number: int) -> None:
        speed = 1 + number / 50

        def clock() -> float:
            return self._now * speed + 1000 * number

        lease, watch = Lease(self._lock, host(f"host-{number}"), TIMING, clock), LeaseWatch(self._lock, TIMING, clock)
        for _ in range(8):
            beat = watch.look()
            if beat is None and lease.take():
                with contextlib.suppress(MachineError):
                    return self._use(number, lease)
                return None
            if beat and watch.is_alive(beat) is False:
                evict(watch.folder, beat.name)
        return None

    def _use(self, number: int, lease: Lease) -> None:
        for _ in range(3):
            lease.check()
            self._checked[number] = self._now
            self.broken = self.broken or len(self._checked) > 1
            self._schedule.step()  # what the check allows happens here
            del self._checked[number]
            self._schedule.step()
            lease.beat()
        lease.release()


def test_never_two_holders(tmp_path: Path) -> None:
    """Each operation of the file system may be followed by those of other hosts, and by a pause of any length."""
    for seed in range(250):
        hosts = Hosts(tmp_path / f"{seed}" / "LOCK", seed)
        (tmp_path / f"{seed}").mkdir()
        hosts.run(3)
        assert not hosts.broken, f"seed {seed}"
