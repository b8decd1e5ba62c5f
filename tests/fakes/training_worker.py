"""A worker in numpy: a linear model trained by Session; exact and fast. `python training_worker.py RUN`.

Variables say how it misbehaves: PAUSE (seconds a step), HANG_AT, NAN_AT, CRASH_AT, REFUSE_AT, FULL_AT (steps), IGNORE;
MEMORY_AT (a step) and MEMORY, how memory runs out there; BAD_RANK is the rank that CRASH_AT, REFUSE_AT and FULL_AT
mean. RANK, WORLD and PEER (a socket to the other one) make it one of two, see `two_ranks.py`; TRACE is a folder for
what each rank saw. HOSTS is the number of machines, each of which computes all of it; `--process` gives its number.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np

from jprep.errors import ConfigError
from jprep.train.worker.metrics import Metrics
from jprep.train.worker.session import Session, run_worker

WIDTH = 32


def at(name: str) -> int:
    return int(os.environ.get(name, "0"))


def number() -> int:
    return int(sys.argv[3]) if "--process" in sys.argv else at("RANK")


class Peers:
    """Exchanges arrays between both ranks."""

    def __init__(self) -> None:
        self.rank, self.world = number(), int(os.environ.get("WORLD", "1"))
        self._socket = socket.socket(fileno=at("PEER")) if self.world > 1 else None

    def gather(self, mine: np.ndarray) -> list[np.ndarray]:
        """Return the arrays of all ranks, which have the same shape and dtype."""
        if not self._socket or not mine.size:
            return [mine]
        data = mine.tobytes()
        self._socket.sendall(data)
        if len(theirs := self._socket.recv(len(data), socket.MSG_WAITALL)) < len(data):
            raise RuntimeError("the other rank is gone")
        both = [mine, np.frombuffer(theirs, mine.dtype).reshape(mine.shape)]
        return both[::-1] if self.rank else both


def features(ids: np.ndarray) -> np.ndarray:
    found = np.zeros((len(ids), WIDTH))
    for row, tokens in enumerate(ids):
        np.add.at(found[row], tokens % WIDTH, 1.0)
    return found / ids.shape[1]


def outputs_of(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return `rows @ weights`, without BLAS, whose sums depend on the processor and on environment variables."""
    return (rows * weights).sum(axis=1)


def update(weights: np.ndarray, momentum: np.ndarray, ids: np.ndarray, peers: Peers) -> float:
    """Take a step of gradient descent with momentum on a squared error; the target is the row's mean parity."""
    rows, target = features(ids), (ids % 2).mean(axis=1)
    error = outputs_of(rows, weights) - target
    mine = np.append((rows * error[:, None]).sum(axis=0), (error**2).sum())
    gradient, squares = sum(peers.gather(mine)), len(rows) * peers.world
    momentum *= 0.9
    momentum += gradient[:-1] / squares
    weights -= 0.5 * momentum
    return float(gradient[-1] / squares)


def misbehave(step: int, rank: int) -> None:
    time.sleep(float(os.environ.get("PAUSE", "0")))
    if step == at("HANG_AT") and not Path(sys.argv[1], "hung").exists():
        Path(sys.argv[1], "hung").touch()
        time.sleep(1000)
    if step == at("CRASH_AT") and rank == at("BAD_RANK"):
        os._exit(7)
    if step == at("MEMORY_AT"):
        fill_memory(os.environ["MEMORY"])
    if step == at("REFUSE_AT") and rank == at("BAD_RANK"):
        raise ConfigError("a restart does not fix this", fix="none")


def fill_memory(how: str) -> None:
    """Run out of memory in the way of a framework, a library or the kernel."""
    if how == "numpy":
        np.ones(1 << 50)
    if how == "kernel":
        Path(os.environ["COUNTER"]).write_text("low 0\noom_kill 4\n")
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "abort":
        print("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", flush=True)
        os.abort()
    if how == "system":
        raise OSError(errno.ENOMEM, "Cannot allocate memory")
    raise MemoryError if how == "python" else RuntimeError(how)


def validate(session: Session, step: int, weights: np.ndarray, peers: Peers) -> None:
    """Log the error, and the metrics of labelled rows, whose class is the one closest to the output."""
    job, metrics, sums = session.job, Metrics(session.job, peers.world), np.zeros(2)
    for batch in session.validation():
        outputs = outputs_of(features(batch.input_ids), weights)
        sums += ((outputs - (batch.input_ids % 2).mean(axis=1)) ** 2).sum(), len(outputs)
        if job.train.data:
            classes = -np.abs(outputs[:, None] - np.arange(len(job.labels)) / 9)
            metrics.add(classes if job.labels else outputs, batch.labels)
    total = sum(peers.gather(sums))
    session.validated(step, float(total[0] / total[1]), **metrics.figures(peers.gather(metrics.part)))


def trace(step: int, rank: int, seen: dict[str, object]) -> None:
    if folder := os.environ.get("TRACE"):
        with Path(folder, f"rank-{rank}").open("a") as file:
            file.write(json.dumps({"step": step, **seen}) + "\n")


def save(folder: Path, step: int, weights: np.ndarray, momentum: np.ndarray, rank: int) -> None:
    if rank:
        np.save(folder / f"part-{rank}.npy", np.array([step]))
    else:
        np.save(folder / "weights.npy", weights)
        np.save(folder / "momentum.npy", momentum)
    if step == at("FULL_AT") and rank == at("BAD_RANK"):
        raise OSError(errno.ENOSPC, "No space left on device")


def train(session: Session) -> None:
    weights, momentum, peers = np.zeros(WIDTH), np.zeros(WIDTH), Peers()
    if session.resume:
        weights, momentum = np.load(session.resume / "weights.npy"), np.load(session.resume / "momentum.npy")
    if os.environ.get("IGNORE"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"a worker begins after step {session.start}", flush=True)
    if session.evaluated_split:
        if session.start:  # a variable that is not set is step 0
            misbehave(session.start, peers.rank)
        validate(session, session.start, weights, peers)
        return
    for step, batch in session.batches():
        loss = update(weights, momentum, batch.input_ids, peers)
        misbehave(step, peers.rank)
        due = session.due(step)
        trace(step, peers.rank, {"indices": batch.indices.tolist(), "due": dataclasses.astuple(due)})
        if due.log:
            session.log(step, loss=float("nan") if step == at("NAN_AT") else loss)
        if due.validate:
            validate(session, step, weights, peers)
        if due.checkpoint:
            with session.checkpoint(step) as folder:
                save(folder, step, weights, momentum, peers.rank)
    misbehave(session.job.steps + 1, peers.rank)


if __name__ == "__main__":
    world, hosts = (int(os.environ.get(name, "1")) for name in ("WORLD", "HOSTS"))
    sys.exit(run_worker(train, Path(sys.argv[1]), number(), world * hosts, whole=hosts > 1))
