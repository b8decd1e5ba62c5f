"""The base class of backends' planners, and the helpers that planners share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError, MachineError
from jprep.train import backend_loading
from jprep.train.backend import Backend, Environment, Finding, Plan, Target
from jprep.train.planning import checks
from jprep.train.planning.checks import check_ranges, inspect_environment, missing_device
from jprep.train.planning.memory_estimate import estimate_activations, estimate_job_memory
from jprep.train.planning.micro_batch import choose_micro_batch, rows_per_device
from jprep.train.run.directory import read_job
from tests.fakes.numpy_backend import Numpy
from tests.fakes.trained_run import trained_run

SECTION = "train.backend.mine"


def target(memory: int) -> Target:
    return Target(name="a GPU", kind="gpu", memory=memory)


def test_the_base_class_has_defaults() -> None:
    backend, options = Numpy(), Numpy.Options()
    assert Backend.environment(backend, options) == Environment(
        name="numpy", distribution="jprep_numpy", install="numpy"
    )
    assert backend.result_options(options) == {}
    with pytest.raises(ConfigError, match="unknown field"):
        backend.read_options({"row": 1})


@pytest.mark.parametrize("kind", [dict, Backend, type("Half", (Backend,), {"check": lambda self, options: []})])
def test_a_planner_that_does_not_implement_the_base_class_is_refused(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_loading, "plugins", lambda: SimpleNamespace(get=lambda *_: kind))
    with pytest.raises(ConfigError, match="the backend mine does not implement"):
        backend_loading.load_backend("mine")


def test_a_plan_is_written_with_the_key_rows() -> None:
    plan = Plan(("python",), {}, processes=1, micro_batch=4, accumulate=2, memory=0)
    written = msgspec.json.encode(plan)
    assert msgspec.json.decode(written)["rows"] == 4 and msgspec.json.decode(written, type=Plan) == plan


@given(rows=st.integers(1, 200), limit=st.integers(0, 300), each=st.integers(1, 5))
def test_the_chosen_micro_batch_is_the_largest_divisor_that_fits(rows: int, limit: int, each: int) -> None:
    chosen = choose_micro_batch(rows, 0, lambda number: each * number, target(int(limit / 0.85) or 1), SECTION)
    fitting = [n for n in range(1, rows + 1) if rows % n == 0 and each * n <= 0.85 * (int(limit / 0.85) or 1)]
    assert chosen.rows == max(fitting, default=1) and chosen.rows * chosen.accumulate == rows
    assert chosen.memory == each * chosen.rows
    sizes = [smaller.rows for smaller in chosen.smaller]
    assert sizes == sorted(sizes, reverse=True) and all(rows % size == 0 and size < chosen.rows for size in sizes)
    assert not sizes or sizes[-1] == 1


def test_a_requested_micro_batch_divides_the_rows_of_a_device() -> None:
    assert choose_micro_batch(8, 4, lambda number: 10**9, target(1), SECTION).accumulate == 2
    with pytest.raises(ConfigError, match="a micro-batch of 3 rows does not divide the 8 rows") as caught:
        choose_micro_batch(8, 3, lambda number: 0, target(1), SECTION)
    assert caught.value.where == f"{SECTION}.micro_batch" and caught.value.fix == "use a divisor of 8"


def test_a_batch_is_divided_evenly_among_devices() -> None:
    assert rows_per_device(8, 4, SECTION) == 2
    with pytest.raises(ConfigError, match="8 rows cannot be divided among 3") as caught:
        rows_per_device(8, 3, SECTION)
    assert "a multiple of 3" in caught.value.fix


@pytest.mark.parametrize(("options", "name"), [({"rows": -1}, "rows"), ({"hosts": 0}, "hosts")])
def test_options_out_of_range_are_named(options: dict[str, int], name: str) -> None:
    given = SimpleNamespace(**({"rows": 0, "hosts": 1} | options))
    with pytest.raises(ConfigError, match=rf"{name} is .*must be") as caught:
        check_ranges(given, SECTION, not_negative=("rows",), positive=("hosts",))
    assert caught.value.where == f"{SECTION}.{name}"


def test_an_environment_that_cannot_be_inspected_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "worker_python", lambda backend, options: Path("python"))
    backend, options = Numpy(), Numpy.Options(device="moon")
    assert inspect_environment(backend, options, lambda python: [Finding(str(python))]) == [Finding("python")]

    def fail(python: Path) -> list[Finding]:
        raise MachineError("it does not start")

    command = "jprep backends install numpy --set device=moon --restart"
    assert inspect_environment(backend, options, fail) == [Finding("it does not start", "error", command)]


def test_a_missing_device_is_a_note_if_the_plan_is_for_another_machine() -> None:
    assert missing_device("JAX", "GPU", "use a CPU", planned_elsewhere=False).level == "error"
    assert missing_device("JAX", "GPU", "use a CPU", planned_elsewhere=True).level == "note"


def test_matrices_that_muon_updates_have_one_average(tmp_path: Path) -> None:
    adamw, muon = (
        read_job(trained_run(tmp_path / kind, task="clm", kind="gpt2", optimizer={"kind": kind}))
        for kind in ("adamw", "muon")
    )
    width, inner, layers = adamw.model["n_embd"], adamw.model["n_inner"], adamw.model["n_layer"]
    matrices = layers * (4 * width**2 + 2 * width * inner)
    plain, less = (estimate_job_memory(job, 0, attention=False) for job in (adamw, muon))
    assert plain - less == 4 * matrices > 0
    kept = [estimate_activations(job, 8, attention=False, gradient_checkpointing=False) for job in (adamw, muon)]
    assert kept[0] == kept[1] > 0
