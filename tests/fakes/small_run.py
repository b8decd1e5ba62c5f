"""A small run: a dataset of some documents, a job over it, and the plan that trains it with the worker in numpy."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.train.backend import Plan
from jprep.train.job.config import FORMAT, CheckpointConfig, Job, TrainConfig, ValidationConfig
from jprep.train.run.directory import open_run
from jprep.train.worker.session import Session
from tests.conftest import PATIENCE, ROOT
from tests.fakes.small_dataset import SPLITS, VOCAB, lay_out

WORKER = ROOT / "tests" / "fakes" / "training_worker.py"
SPECIAL = SpecialIds(vocab_size=VOCAB)
BATCH, LENGTH = 8, 16


def job_of(dataset: Path, run: Path, **changes: Any) -> Job:
    """Return a job, with changes of its `[train]` section or of the job itself."""
    own = {key: changes.pop(key) for key in list(changes) if key in Job.__struct_fields__}
    train: dict[str, Any] = {
        "batch": BATCH, "length": LENGTH, "steps": 60, "log_every": 5, "checkpoint": CheckpointConfig(every_steps=10),
        "validation": ValidationConfig(every_steps=10, batches=2), "max_restarts": 3,
    }  # fmt: skip
    section = TrainConfig(**train | changes)
    config = SamplerConfig(batch=section.batch, length=section.length)
    fields: dict[str, Any] = {
        "jprep": "0", "format": FORMAT, "name": "small", "fingerprint": "f" * 32, "backend": "numpy", "options": {},
        "train": section, "model": {"model_type": "linear"}, "parameters": 32, "steps": section.steps,
        "samples": Sampler(open_split_data(dataset, "train"), config, SPECIAL).samples,
        "dataset": os.path.relpath(dataset, run), "tokenizer": "", "special": SPECIAL,
    }  # fmt: skip
    return Job(**fields | own)


def small_run(folder: Path, **changes: Any) -> Path:
    """Create a run directory that is ready to be trained."""
    dataset, run = folder / "dataset", folder / "run"
    if not dataset.exists():
        lay_out(dataset, SPLITS)
    open_run(run, job_of(dataset, run, **changes))
    return run


@contextlib.contextmanager
def all_ranks(run: Path, world: int) -> Iterator[list[Session]]:
    """Yield the sessions of all ranks, in this process; rank 0 first, as the others wait for it."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Session(run, rank, world))) for rank in range(world)]


def plan_of(run: Path, worker: Path = WORKER, **env: str) -> Plan:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return Plan((sys.executable, str(worker), str(run)), {"PYTHONPATH": path} | env, 1, BATCH, 1, 0)


def supervisor_command(run: Path, worker: Path = WORKER, **env: str) -> list[str]:
    """Return the command of a supervisor in a separate process."""
    plan = msgspec.json.encode(plan_of(run, worker, **env)).decode()
    code = (
        "import sys, msgspec; from pathlib import Path; from jprep.train.backend import Plan\n"
        "from jprep.train.launcher.supervisor import supervise\n"
        "plan = msgspec.json.decode(sys.argv[2], type=Plan)\n"
        "sys.exit(supervise(Path(sys.argv[1]), plan, backoff=0.01))"
    )
    return [sys.executable, "-c", code, str(run), plan]


def weights(run: Path, steps: int = 60) -> str:
    """Return the hash of the final weights."""
    files = [run / "checkpoints" / f"step-{steps:08d}" / f"{name}.npy" for name in ("weights", "momentum")]
    assert np.isfinite(np.load(files[0])).all()
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def await_true(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread
