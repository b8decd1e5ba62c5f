"""Train a session with Keras: imported after the engine is chosen, since Keras reads `KERAS_BACKEND` once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jprep.train.hooks.loading import load_run_hooks
from jprep.train.worker.session import Session
from jprep_keras.backend import Keras
from jprep_keras.engines import create_engine
from jprep_keras.engines.base import EngineSettings
from jprep_keras.planning.layout import Layout
from jprep_keras.worker.data import BatchLoader
from jprep_keras.worker.records import record_batches
from jprep_keras.worker.train_state import TrainState
from jprep_keras.worker.trainer import Trainer


def train_session(session: Session, layout: Layout) -> None:
    """Train a session's job to its end.

    Args:
        session: the session.
        layout: the layout of the plan.

    Raises:
        MachineError: the devices of the layout are not available.
        ConfigError, MismatchError: a hook cannot be loaded, or has changed.
    """
    job, options = session.job, Keras().read_options(session.job.options)
    trains_on_records = options.records and not session.evaluated_split
    records = record_batches(job, options.records, session.start) if trains_on_records else None
    engine = create_engine(
        EngineSettings(
            layout=layout,
            optimizer=job.train.optimizer,
            precision=job.train.precision,
            deterministic=options.deterministic,
            jit_compile=options.jit_compile,
        )
    )
    hooks = load_run_hooks(session.run, job)
    with exhausted_memory():
        state = TrainState(job, session.initial_weights, session.resume, engine, layout, hooks)
        Trainer(session, state, BatchLoader(job, layout), records, hooks).train()


@contextlib.contextmanager
def exhausted_memory() -> Iterator[None]:
    """Raise TensorFlow's error about full memory as Python's, which the session explains.

    Raises:
        MemoryError: the block ran out of memory.
    """
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "ResourceExhaustedError":  # TensorFlow may not be imported
            raise MemoryError(str(error)) from error
        raise
