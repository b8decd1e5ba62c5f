"""A worker in numpy: a linear model trained by Session; exact and fast. `python training_worker.py RUN`.

Variables say how it misbehaves: PAUSE (seconds a step), HANG_AT, NAN_AT, CRASH_AT, REFUSE_AT (steps), IGNORE.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from jprep.errors import ConfigError
from jprep.train.worker import Session, work

WIDTH = 32


def at(name: str) -> int:
    return int(os.environ.get(name, "0"))


def features(ids: np.ndarray) -> np.ndarray:
    found = np.zeros((len(ids), WIDTH))
    for row, tokens in enumerate(ids):
        np.add.at(found[row], tokens % WIDTH, 1.0)
    return found / ids.shape[1]


def update(weights: np.ndarray, momentum: np.ndarray, ids: np.ndarray) -> float:
    """One step of gradient descent with momentum on a squared error; the target is the row's mean parity."""
    rows, target = features(ids), (ids % 2).mean(axis=1)
    error = rows @ weights - target
    momentum *= 0.9
    momentum += rows.T @ error / len(rows)
    weights -= 0.5 * momentum
    return float((error**2).mean())


def misbehave(step: int) -> None:
    time.sleep(float(os.environ.get("PAUSE", "0")))
    if step == at("HANG_AT") and not Path(sys.argv[1], "hung").exists():
        Path(sys.argv[1], "hung").touch()
        time.sleep(1000)
    if step == at("CRASH_AT"):
        os._exit(7)
    if step == at("REFUSE_AT"):
        raise ConfigError("no restart mends this", fix="none")


def train(session: Session) -> None:
    weights, momentum = np.zeros(WIDTH), np.zeros(WIDTH)
    if session.resume:
        weights, momentum = np.load(session.resume / "weights.npy"), np.load(session.resume / "momentum.npy")
    if os.environ.get("IGNORE"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"a worker begins after step {session.start}", flush=True)
    for step, batch in session.batches():
        loss = update(weights, momentum, batch.input_ids)
        misbehave(step)
        due = session.due(step)
        if due.log:
            session.log(step, loss=float("nan") if step == at("NAN_AT") else loss)
        if due.validate:
            held = [
                ((features(b.input_ids) @ weights - (b.input_ids % 2).mean(axis=1)) ** 2) for b in session.validation()
            ]
            session.validated(step, float(np.concatenate(held).mean()))
        if due.checkpoint:
            with session.checkpoint(step) as folder:
                np.save(folder / "weights.npy", weights)
                np.save(folder / "momentum.npy", momentum)


if __name__ == "__main__":
    sys.exit(work(train, Path(sys.argv[1])))
