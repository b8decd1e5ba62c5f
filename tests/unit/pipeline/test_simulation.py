"""The simulation of stages: its laws, and what it says that limits a stage."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.pipeline.estimate.loads.task_loads import StageLoad, TaskGroup
from jprep.pipeline.estimate.simulation import DISK, FILES, LONGEST, MAIN, WORKERS, Cluster, scale, simulate

seconds = st.floats(0.001, 100.0)
groups = st.lists(
    st.builds(lambda number, cpu: TaskGroup(number, cpu), st.integers(1, 40), seconds), min_size=1, max_size=4
)
sizes = st.floats(0.0, 1e9)
busy_groups = st.lists(
    st.builds(TaskGroup, st.integers(1, 40), seconds, st.floats(0.0, 1.0), sizes, sizes, st.integers(0, 9)),
    min_size=1,
    max_size=4,
)


def load(groups: list[TaskGroup], serial: float = 0.0, startup: float = 0.0) -> StageLoad:
    return StageLoad("corpus", "words", groups, serial, startup)


def needs(group: TaskGroup, cluster: Cluster) -> float:
    """Seconds of one task alone."""
    disk = group.read / cluster.read + group.written / cluster.write
    return group.main + cluster.dispatch + disk + group.cpu + (group.files + 1) / cluster.files


@given(groups, st.integers(1, 100), st.integers(1, 100))
def test_more_workers_are_never_slower(groups: list[TaskGroup], one: int, other: int) -> None:
    few, many = sorted((one, other))
    slow, fast = (simulate(load(groups), Cluster(workers)).wall for workers in (few, many))
    assert fast <= slow * (1 + 1e-9)


@settings(max_examples=60)
@given(busy_groups, st.integers(1, 300))
def test_no_resource_does_more_than_it_can(groups: list[TaskGroup], workers: int) -> None:
    cluster = Cluster(workers, read=1e8, write=5e7, files=100.0, dispatch=0.001)
    work = load(groups, serial=2.0)
    found = simulate(work, cluster)
    least = [
        2.0 + sum(group.number * group.cpu for group in groups) / workers,
        2.0 + sum(group.number * (group.main + cluster.dispatch) for group in groups),
        2.0 + work.read / cluster.read + work.written / cluster.write,
        2.0 + sum(group.number * (group.files + 1) for group in groups) / cluster.files,
        2.0 + max(needs(group, cluster) for group in groups),
    ]
    assert found.wall >= max(least) * (1 - 1e-9)
    assert found.wall <= (2.0 + sum(group.number * needs(group, cluster) for group in groups)) * (1 + 1e-9)
    assert all(0 <= share <= 1 + 1e-9 for share in found.busy.values())


@given(st.integers(1, 5000), seconds)
def test_one_task_gains_nothing(workers: int, cpu: float) -> None:
    alone = simulate(load([TaskGroup(1, cpu)]), Cluster(1)).wall
    assert simulate(load([TaskGroup(1, cpu)]), Cluster(workers)).wall == alone == pytest.approx(cpu)


@pytest.mark.parametrize("workers", [1, 3, 8, 64, 1000])
def test_equal_tasks_take_as_many_rounds_as_needed(workers: int) -> None:
    assert simulate(load([TaskGroup(100, 7.0)]), Cluster(workers)).wall == pytest.approx(7 * math.ceil(100 / workers))


def test_processes_start_once_and_side_by_side() -> None:
    work = load([TaskGroup(8, 1.0)], serial=5.0, startup=0.5)
    assert simulate(work, Cluster(4, start=30.0)).wall == pytest.approx(5 + 30 + 0.5 + 2)


def test_processes_share_the_processors() -> None:
    assert simulate(load([TaskGroup(80, 1.0)]), Cluster(8, cores=2)).wall == pytest.approx(40)
    assert simulate(load([TaskGroup(80, 1.0)]), Cluster(2, cores=2)).wall == pytest.approx(40)


MANY = Cluster(64, read=1e9, write=1e9, files=1e4, dispatch=0.001)


@pytest.mark.parametrize(
    ("group", "limit"),
    [
        (TaskGroup(6400, 10.0, written=1e6), WORKERS),
        (TaskGroup(6400, 1.0, main=0.2), MAIN),
        (TaskGroup(6400, 1.0, read=5e8, written=5e8), DISK),
        (TaskGroup(6400, 0.5, files=400), FILES),
        (TaskGroup(1, 10.0), LONGEST),
        (TaskGroup(3, 10.0), LONGEST),
    ],
)
def test_what_is_used_most_limits(group: TaskGroup, limit: str) -> None:
    assert simulate(load([group]), MANY).limit == limit


def test_a_stage_without_tasks_takes_no_time() -> None:
    assert simulate(load([]), MANY).wall == 0.0


def test_a_million_tasks_are_bundled() -> None:
    found = simulate(load([TaskGroup(1_000_003, 0.64)]), Cluster(64))
    assert found.wall == pytest.approx(1_000_003 * 0.64 / 64, rel=0.01)


def test_scaling_ends_where_a_resource_is_full() -> None:
    """The disk serves 10 tasks a second, and each needs a second of a processor."""
    work = [load([TaskGroup(2000, 1.0, written=1e8)])]
    clusters = [Cluster(workers, write=1e9) for workers in (1, 2, 8, 64, 1024)]
    found = {each.workers: each for each in scale(work, clusters)}
    assert [found[workers].limit for workers in (1, 2, 8)] == [WORKERS] * 3
    assert [found[workers].limit for workers in (64, 1024)] == [DISK] * 2
    assert found[1].speedup == pytest.approx(1) and found[2].speedup == pytest.approx(2, rel=0.02)
    assert found[64].speedup == pytest.approx(found[1024].speedup, rel=0.01)
    assert found[1024].wall == pytest.approx(200, rel=0.01) and found[1024].processors < 0.02
