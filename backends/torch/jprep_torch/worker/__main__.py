"""The worker's command line: `python -m jprep_torch.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse

from jprep.train.hooks.loading import load_run_hooks
from jprep.train.worker.cli import run_command, run_process, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_torch.backend import Torch
from jprep_torch.planning.xla import add_worker_flags
from jprep_torch.worker.distributed.context import join_processes, process_timeout, rank_and_world_size
from jprep_torch.worker.train_state import TrainState
from jprep_torch.worker.trainer import Trainer


def main(arguments: list[str] | None = None) -> int:
    """Run a command of the worker and return its exit code."""
    parser, train = worker_parsers("jprep_torch.worker")
    train.add_argument("--device", choices=["cpu", "cuda", "xla", "tpu"], required=True)
    train.add_argument(
        "--micro-batch", "--rows", type=int, required=True, help="rows that pass through the model at a time"
    )
    add_worker_flags(train)
    train.add_argument("--shard", action="store_true", help="shard the model among the processes")
    return run_command(parser.parse_args(arguments), _train, "jprep_torch.worker.inference")


def _train(given: argparse.Namespace) -> int:
    def train(session: Session) -> None:
        job, hooks = session.job, load_run_hooks(session.run, session.job)
        options = Torch().read_options(job.options)
        with join_processes(
            given.device,
            deterministic=options.deterministic,
            timeout=process_timeout(job),
            devices=given.devices,
            host=given.process,
        ) as context:
            state = TrainState(
                job,
                session.initial_weights,
                session.resume,
                context,
                options,
                shard=given.shard,
                hooks=hooks,
                profiler=session.profiler,
                trains=not session.evaluated_split,
            )
            Trainer(session, context, state, given.micro_batch, hooks).train()

    ranks = rank_and_world_size(given.process, given.hosts)
    return run_worker(train, given.run, *ranks, whole=given.device == "xla")


if __name__ == "__main__":
    run_process(main)
