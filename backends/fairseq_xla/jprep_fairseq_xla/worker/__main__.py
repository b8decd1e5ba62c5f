"""The worker's command line: `python -m jprep_fairseq_xla.worker {train,export,infer} …`."""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version

from jprep.train.worker.cli import run_command, run_process, worker_parsers
from jprep.train.worker.session import Session, run_worker
from jprep_fairseq_xla.backend import FairseqXla
from jprep_fairseq_xla.worker.patches import import_fairseq
from jprep_torch.planning.xla import add_worker_flags

version("fairseq")  # fails if fairseq is not installed: jprep imports this module to find out


def main(arguments: list[str] | None = None) -> int:
    """Run the worker, and return its exit code."""
    parser, train = worker_parsers("jprep_fairseq_xla.worker")
    train.add_argument("--device", choices=["cpu", "cuda", "xla"], required=True)
    train.add_argument("--settings", type=json.loads, required=True, help="fairseq's options, as JSON")
    train.add_argument(
        "--micro-batch", "--rows", type=int, required=True, help="rows that go through the model at a time"
    )
    add_worker_flags(train)
    return run_command(parser.parse_args(arguments), _train, "jprep_fairseq_xla.worker.inference")


def _train(given: argparse.Namespace) -> int:
    from jprep_torch.worker.distributed.context import join_processes, process_timeout, rank_and_world_size

    def train(session: Session) -> None:
        import_fairseq(given.device)
        from jprep_fairseq_xla.worker.train_state import TrainState
        from jprep_torch.worker.trainer import Trainer

        deterministic = FairseqXla().read_options(session.job.options).deterministic
        on_xla = {"devices": given.devices, "host": given.process}
        with join_processes(
            given.device, deterministic=deterministic, timeout=process_timeout(session.job), **on_xla
        ) as context:
            job, weights = session.job, session.initial_weights
            state = TrainState(job, weights, session.resume, context, given.settings, session.profiler)
            Trainer(session, context, state, given.micro_batch).train()

    ranks = rank_and_world_size(given.process, given.hosts)
    return run_worker(train, given.run, *ranks, whole=given.device == "xla")


if __name__ == "__main__":
    run_process(main)
