"""One of two processes that save together: `python saving_process.py RUN CHECKPOINT FOLDER COORDINATOR RANK`.

It loads a checkpoint on each of `MESHES`, saves it to `FOLDER/MESH`, and writes figures of its snapshots to
`FOLDER/figures-RANK.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec

from jprep.train.backend import Host
from jprep.train.job.config import Job
from jprep.train.run.checkpoints import CheckpointStore, Rank
from jprep.train.run.directory import INIT, read_job
from jprep_flax.options import Options
from jprep_flax.planning.layout import Layout, choose_layout
from jprep_flax.worker.distributed import DistributedContext, join_processes
from jprep_flax.worker.train_state import TrainState

PROCESSES = 2
MESHES = {"fsdp": {"fsdp": 4}, "both": {"fsdp": 2, "tensor": 2}, "copies": {"data": 2, "fsdp": 2}}
"""Of four devices; with `copies`, each process has all weights on its two devices."""

compiled: list[str] = []
jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))


def main(run: Path, checkpoint: Path, folder: Path, coordinator: str, rank: int) -> None:
    """Save on each mesh."""
    job = read_job(run)
    layouts = {name: layout_of(job, mesh) for name, mesh in MESHES.items()}
    figures: dict[str, Any] = {}
    with join_processes(
        layouts["fsdp"], rank=rank, coordinator=coordinator, exact=True, deterministic=True, timeout=600
    ):
        figures["control"] = programs_of_one_function()
        for name, layout in layouts.items():
            context = DistributedContext(layout, rank)
            state = TrainState(job, run / INIT, checkpoint, context, layout, gradient_checkpointing=False)
            figures[name] = save(state, folder / name, rank) | {"planned": layout.divided}
    (folder / f"figures-{rank}.json").write_text(json.dumps(figures), encoding="utf-8")


def layout_of(job: Job, mesh: dict[str, int]) -> Layout:
    """Return the layout of a mesh; the embedding has rows that no file has."""
    options = Options(device="cpu", processes=PROCESSES, devices=2, **mesh)
    layout = choose_layout(job, options, Host("python", 2, 8 << 30))
    return msgspec.structs.replace(layout, vocabulary=layout.vocabulary + 6)


def save(state: TrainState, folder: Path, rank: int) -> dict[str, Any]:
    """Save a state; return whether it is in pieces, how many programs that took, and the bytes that are written."""
    compiled.clear()
    snapshot = state.snapshot()
    programs = count_programs()
    with CheckpointStore(folder, "job").saving(1, rank=Rank(rank, PROCESSES, 120)) as partial:
        snapshot.write(partial)
    written = sum(array.nbytes for tensors in snapshot[:2] for array in tensors.values())
    return {"divided": snapshot.divided, "programs": programs, "written": written}


def programs_of_one_function() -> int:
    """Compile a function; without it, a count of 0 could mean that JAX has renamed the event."""
    compiled.clear()
    jax.jit(lambda x: x * 3 + 1)(jnp.arange(3)).block_until_ready()
    return count_programs()


def count_programs() -> int:
    return sum(event.endswith("backend_compile_duration") for event in compiled)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), sys.argv[4], int(sys.argv[5]))
