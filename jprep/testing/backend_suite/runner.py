"""Trains the runs that the suite examines, with a real worker under the real supervisor."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from jprep.testing.backend_suite.cases import Case, case_of
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_rows, write_suite_tokenizer
from jprep.train.backend_loading import load_backend
from jprep.train.launcher.environments import worker_python
from jprep.train.launcher.launch import PreparedRun, RunInputs, create_run, prepare_run, replan_of
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.directory import CHECKPOINTS, checkpoints_of, read_job
from jprep.train.run.events import Event, EventKind, metric_curve, metric_rows, read_events
from jprep.train.run.ranks import signal_ranks

Section = dict[str, Any]

TIMEOUT = 600.0
"""Seconds for a worker to start or to stop."""

_STOPPED = 130  # exit code


class FinishedRun(NamedTuple):
    """A run that has ended.

    Attributes:
        run: the run directory.
        code: the supervisor's exit code.
        messages: the messages to the user.
    """

    run: Path
    code: int
    messages: str

    def events(self) -> list[Event]:
        """Return all events of the run."""
        return read_events(self.run)

    def losses(self, kind: EventKind = "log") -> dict[int, float]:
        """Return the losses by step."""
        return dict(zip(*metric_curve(self.events(), kind), strict=True))

    def figures(self, name: str, kind: EventKind = "validation") -> dict[int, float]:
        """Return a metric by step."""
        return dict(zip(*metric_curve(self.events(), kind, name), strict=True))

    def metric(self, name: str) -> dict[int, float | None]:
        """Return a metric of the validations by step, of those that have it."""
        events = [event for event in self.events() if event.kind == "validation"]
        return {event.step: event.figures[name] for event in events if name in event.figures}

    def last_validation(self) -> dict[str, float]:
        """Return the metrics of the last validation."""
        found = metric_rows(self.events(), "validation")
        return found[max(found)]

    def checkpoint(self) -> Path:
        """Return the folder of the newest checkpoint.

        Raises:
            AssertionError: there is none.
        """
        found = checkpoints_of(self.run, read_job(self.run)).committed()
        assert found, f"{self.run} has no checkpoint; its messages: {self.messages}"
        return found[-1].folder


class SuiteRunner:
    """Trains the runs of a backend's suite. Each is trained once and examined by many tests.

    Args:
        folder: the folder of the run directories.
        name: the backend's name.
        options: the backend's options for all runs.
    """

    def __init__(self, folder: Path, name: str, options: Mapping[str, Any]) -> None:
        self.name, self._folder, self._options = name, folder, dict(options)
        self._shared_data: dict[tuple[str, str], Any] = {}
        self._begun: dict[str, Future[Any]] = {}
        self._lock, self._pool = threading.Lock(), ThreadPoolExecutor(2)

    def prepare(self, name: str, options: Mapping[str, Any] = {}, **changes: Any) -> PreparedRun:
        """Create the run directory of a case.

        Args:
            name: the case.
            options: backend options on top of those of all runs.
            changes: changes of the case's `[train]` section.

        Raises:
            ConfigError: the backend refuses the options, or cannot plan the job.
        """
        return self._prepared(name, self._new_path(name), self.name, self._options | dict(options), changes)

    def resumed_from(self, name: str, other: str, step: int) -> FinishedRun:
        """Train a case on another backend up to a checkpoint, and finish it on this one.

        Args:
            name: the case.
            other: the other backend.
            step: the step of the checkpoint.
        """
        run = self._new_path(name)
        begun = self._prepared(name, run, other, {"device": "cpu"}, {"max_restarts": 0})
        self.train(begun, JPREP_FAILPOINT="run.committed@2")
        assert [checkpoint.step for checkpoint in checkpoints_of(run, read_job(run)).committed()] == [step]
        return self.train(self._prepared(name, run, self.name, self._options, {}))

    def _prepared(self, name: str, run: Path, backend: str, options: Section, changes: Section) -> PreparedRun:
        chosen = case_of(name)
        section = chosen.section | self._data(chosen) | changes | {"backend": {backend: options}}
        tokenizer = self._shared("tokenizer", chosen.special, write_suite_tokenizer)
        dataset = None if "data" in section else self._shared("dataset", chosen.special, write_suite_dataset)
        prepared = prepare_run(section, RunInputs(name, backend, run, tokenizer, dataset))
        create_run(prepared)
        return prepared

    def train(self, prepared: PreparedRun, **env: str) -> FinishedRun:
        """Train a run under the supervisor, with additional environment variables of the worker."""
        messages: list[str] = []
        plan = msgspec.structs.replace(prepared.plan, env=prepared.plan.env | env)
        code = supervise(prepared.run, plan, say=messages.append, backoff=0.01, replan=replan_of(prepared))
        return FinishedRun(prepared.run, code, "\n".join(messages))

    def start(self, name: str) -> None:
        """Start training a case in the background, two at a time."""
        self._training(name, {}, {})

    def trained(self, name: str, options: Mapping[str, Any] = {}, **changes: Any) -> FinishedRun:
        """Return a case that was trained to its end.

        Raises:
            AssertionError: the training failed.
        """
        found = self._training(name, options, changes).result()
        assert found.code == 0, f"training {name} ended with {found.code}: {found.messages}"
        return found

    def exported(self, trained: FinishedRun) -> Path:
        """Return the weights of the newest checkpoint, exported by the worker.

        Raises:
            AssertionError: the export failed.
        """
        found: Path = self._once(f"export {trained.run}", lambda: self._export(trained)).result()
        return found

    def _training(self, name: str, options: Mapping[str, Any], changes: Section) -> Future[FinishedRun]:
        key = msgspec.json.encode([name, options, changes], order="deterministic").decode()
        return self._once(key, lambda: self.train(self.prepare(name, options, **changes)))

    def _once(self, key: str, make: Callable[[], Any]) -> Future[Any]:
        with self._lock:
            if key not in self._begun:
                self._begun[key] = self._pool.submit(make)
            return self._begun[key]

    def _new_path(self, name: str) -> Path:
        """Return an unused path."""
        return Path(tempfile.mkdtemp(dir=self._folder)) / name

    def _export(self, trained: FinishedRun) -> Path:
        folder = self._new_path("export")
        folder.mkdir()
        backend = load_backend(self.name)
        command = [str(worker_python(backend)), "-m", f"{backend.module}.worker", "export"]
        done = subprocess.run(
            [*command, str(trained.run), str(trained.checkpoint()), str(folder)],
            capture_output=True,
            text=True,
            errors="replace",
        )
        path = folder / "model.safetensors"
        assert done.returncode == 0, f"`worker export` ended with {done.returncode}: {done.stderr}"
        assert path.exists(), f"`worker export` wrote no {path.name}"
        return path

    def _data(self, chosen: Case) -> Section:
        task = chosen.section["task"]
        return {} if task in ("clm", "mlm", "rtd") else self._shared("rows", task, write_suite_rows)

    def _shared(self, kind: str, of: str, write: Callable[[Path, str], Any]) -> Any:
        """Write data that runs share, once."""
        with self._lock:
            if (kind, of) not in self._shared_data:
                self._shared_data[kind, of] = write(self._new_path(kind), of)
            return self._shared_data[kind, of]


def wait_until(condition: Callable[[], Any], seconds: float, what: str) -> None:
    """Wait until a condition is true.

    Raises:
        AssertionError: it is not true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not after {seconds:g} seconds"
        time.sleep(0.02)


def partial_folders(run: Path) -> list[str]:
    """Return the folders in the directory of checkpoints that are not checkpoints."""
    return [path.name for path in (run / CHECKPOINTS).iterdir() if not path.name.startswith("step-")]


@contextmanager
def _training_in_background(runner: SuiteRunner, prepared: PreparedRun) -> Iterator[list[FinishedRun]]:
    """Run the supervisor in a thread, and yield a list that gets its result. Stop the worker after the block."""
    ended: list[FinishedRun] = []
    thread = threading.Thread(target=lambda: ended.append(runner.train(prepared)))
    thread.start()
    try:
        yield ended
    finally:
        signal_ranks(prepared.run, signal.SIGTERM)
        thread.join(TIMEOUT)


def stop_after(runner: SuiteRunner, prepared: PreparedRun, after: int) -> FinishedRun:
    """Train until a step is logged, then stop the worker with SIGTERM.

    Raises:
        AssertionError: it does not stop, or with another exit code.
    """
    begun = FinishedRun(prepared.run, 0, "")
    with _training_in_background(runner, prepared) as ended:
        wait_until(lambda: ended or max(begun.losses(), default=0) > after, TIMEOUT, f"step {after}")
    assert ended, "the worker did not stop on SIGTERM"
    assert ended[0].code == _STOPPED, f"the run ended with {ended[0].code}: {ended[0].messages}"
    return ended[0]


def cases_to_start(request: pytest.FixtureRequest) -> list[str]:
    """Return the cases of this test and the next one."""
    items = request.session.items
    index = items.index(request.node)
    own = (item for item in items[index : index + 2] if getattr(item, "cls", None) is request.cls)
    found = (getattr(item, "callspec", None) for item in own)
    return [spec.params["case"] for spec in found if spec and "case" in spec.params]
