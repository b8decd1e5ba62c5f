"""Learning rate schedules: the documented vectors, and properties of every schedule."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError
from jprep.train.optimization.schedule import ScheduleConfig, check_schedule, gives_same_rates, learning_rate

STEPS = (0, 3, 4, 12, 19)


# docs/training.md gives the same: 20 steps, of which 4 warm up, to 0.001.
@pytest.mark.parametrize(
    ("kind", "floor", "expected"),
    [
        ("linear", 0.0, [0.00025, 0.001, 0.001, 0.0005, 0.0000625]),
        ("linear", 0.1, [0.00025, 0.001, 0.001, 0.00055, 0.00015625]),
        ("cosine", 0.0, [0.00025, 0.001, 0.001, 0.0005, 0.000009607359798384786]),
        ("cosine", 0.1, [0.00025, 0.001, 0.001, 0.00055, 0.00010864662381854631]),
        ("constant", 0.0, [0.00025, 0.001, 0.001, 0.001, 0.001]),
    ],
)
def test_rates_match_the_documented_vectors(kind, floor, expected):
    schedule = ScheduleConfig(kind=kind, warmup=4, floor=floor)
    assert [learning_rate(step, 20, 1e-3, schedule) for step in STEPS] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"kind": "wsd", "decay_steps": 8}, [0.00025, 0.001, 0.001, 0.001, 0.00006458565330651461]),
        (
            {"kind": "wsd", "decay_steps": 8, "decay_shape": "linear", "floor": 0.1},
            [0.00025, 0.001, 0.001, 0.001, 0.0002125],
        ),
        (
            {"kind": "inverse_sqrt"},
            [0.00025, 0.001, 0.0008944271909999159, 0.0005547001962252292, 0.0004472135954999579],
        ),
        (
            {"kind": "cosine", "restarts": [10]},
            [0.00025, 0.001, 0.001, 0.0009045084971874737, 0.000024471741852423235],
        ),
    ],
)
def test_rates_of_longer_schedules_match_the_documented_vectors(more, expected):
    schedule = ScheduleConfig(warmup=4, **more)
    assert [learning_rate(step, 20, 1e-3, schedule) for step in STEPS] == pytest.approx(expected, rel=1e-14)


RUNS = st.integers(1, 10_000).flatmap(lambda steps: st.tuples(st.just(steps), st.integers(0, steps)))


@given(RUNS, st.sampled_from(["linear", "cosine", "constant"]), st.floats(0, 1), st.floats(1e-6, 1))
def test_rates_rise_to_the_peak_then_fall_to_no_less_than_the_floor(run, kind, floor, peak):
    steps, warmup = run
    floor = 0.0 if kind == "constant" else floor
    schedule = ScheduleConfig(kind=kind, warmup=warmup, floor=floor)
    check_schedule(schedule, steps)
    rates = [learning_rate(step, steps, peak, schedule) for step in range(steps)]
    assert rates[:warmup] == sorted(rates[:warmup])
    assert max(rates) == pytest.approx(peak)
    assert min(rates) > 0  # no step is for nothing
    after, slack = rates[warmup:], peak * 1e-12
    assert all(later <= earlier + slack for earlier, later in pairwise(after))
    assert all(rate >= peak * floor - slack for rate in after)


@given(st.integers(1, 1000), st.floats(0, 1))
def test_a_falling_rate_would_reach_its_floor_after_the_last_step(steps, floor):
    for kind in ("linear", "cosine"):
        schedule = ScheduleConfig(kind=kind, floor=floor)
        assert learning_rate(steps, steps, 1.0, schedule) == pytest.approx(floor, abs=1e-12)


@given(RUNS, st.sampled_from(["linear", "cosine"]), st.floats(0, 1), st.integers(0, 10_000))
def test_schedule_steps_equal_a_run_of_that_length_then_the_floor(run, kind, floor, more):
    steps, warmup = run
    tied, own = (ScheduleConfig(kind=kind, warmup=warmup, floor=floor, total=end) for end in (0, steps))
    for step in {0, warmup, steps // 2, steps - 1}:
        assert learning_rate(step, steps + more, 1.0, own) == learning_rate(step, steps, 1.0, tied)
    if more:
        assert learning_rate(steps + more - 1, steps + more, 1.0, own) == floor


@given(RUNS, st.integers(0, 500), st.integers(1, 500), st.sampled_from(["1-sqrt", "linear"]))
def test_a_stable_rate_is_continued_by_its_decay(run, more, decay, shape):
    steps, warmup = run
    stable = ScheduleConfig(kind="constant", warmup=warmup)
    end = steps + more + decay
    decayed = ScheduleConfig(kind="wsd", warmup=warmup, decay_steps=decay, decay_shape=shape)
    check_schedule(decayed, end)
    assert gives_same_rates(stable, steps, decayed, end)
    rates = [learning_rate(step, end, 1.0, decayed) for step in range(end)]
    assert rates[steps + more :] == sorted(rates[steps + more :], reverse=True) and rates[-1] > 0
    assert not gives_same_rates(stable, end, decayed, end) or decay == 1


@given(st.lists(st.integers(1, 199), unique=True, max_size=4).map(sorted), st.sampled_from(["linear", "cosine", "wsd"]))
def test_each_cycle_is_a_schedule_of_its_own(restarts, kind):
    schedule = ScheduleConfig(kind=kind, restarts=restarts, restart_warmup=1)
    check_schedule(schedule, 200)
    for begin, end in pairwise([0, *restarts, 200]):
        own = ScheduleConfig(kind=kind, warmup=1 if begin else 0)
        for step in range(begin, end):
            assert learning_rate(step, 200, 1.0, schedule) == learning_rate(step - begin, end - begin, 1.0, own)


@pytest.mark.parametrize(
    "wrong",
    [
        {"restarts": [3, 3], "kind": "cosine"},
        {"restarts": [10]},
        {"restarts": [4], "kind": "constant"},
        {"restart_warmup": 3, "restarts": [8]},
        {"decay_steps": 9, "warmup": 2, "kind": "wsd"},
        {"decay_steps": -1, "kind": "wsd"},
        {"warmup": 11},
        {"warmup": -1},
        {"floor": 1.5},
        {"floor": -0.1},
        {"total": -1},
    ],
)
def test_invalid_schedules_are_refused(wrong):
    with pytest.raises(ConfigError) as error:
        check_schedule(ScheduleConfig(**wrong), 10)
    assert error.value.where == f"train.schedule.{next(iter(wrong))}"
    assert error.value.fix
