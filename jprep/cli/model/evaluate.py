"""`jprep evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.interrupt import end_on_sigterm
from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_fields, echo_json, next_steps, note
from jprep.cli.common.shell_command import command_for_other, shell_command
from jprep.cli.completion.candidates import BACKEND_NAME
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.train.backend import Backend
    from jprep.train.evaluation.records import Evaluation

_EXISTING = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--data", multiple=True, metavar="PATH", type=_EXISTING,
    help="What to measure on: a dataset; for classify, regress and sft files with rows. Default: the run's dataset, or "
    "the rows that it held out for validation.",
)  # fmt: skip
@click.option(
    "--split",
    metavar="NAME",
    default="",
    help="The split of a dataset: test, validation or train. Default: test, or validation if there is no test split.",
)
@click.option("--source", metavar="NAME", default="", help="The source of a dataset. Default: all of them.")
@click.option(
    "--which",
    metavar="last|best|initial|STEP",
    default="",
    help="The checkpoint; initial: the weights that the training began with. Default: best of a training that ended "
    "early and keeps it, else last.",
)
@click.option("--backend", metavar="NAME", type=BACKEND_NAME, default="", help="Default: the run's backend.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="Set train.batch, train.precision, an option of the backend, e.g. train.backend.torch.processes=1, or for "
    "labelled rows a column or the encoding, e.g. train.labelled.text=comment.",
)  # fmt: skip
@AS_JSON
def evaluate(
    run: Path,
    data: tuple[Path, ...],
    split: str,
    source: str,
    which: str,
    backend: str,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure a checkpoint of a run, or its initial weights, on the test split of its dataset or on other rows.

    The figures are those of a validation: the loss, and accuracy, F1 and others of labelled rows; for clm, mlm and sft
    the perplexity; for clm on a dataset bits per byte, which models with different tokenizers can be compared by. Every
    row counts once, without dropout. The run may still be training. The figures are recorded in RUN/evaluations, and
    the model card of `jprep export` lists them.

    \b
    Example:
      jprep evaluate work/jawiki/runs/torch
      jprep evaluate work/jawiki/runs/torch --data work/news/dataset --which initial
      jprep evaluate work/mixed/runs/torch --source web
      jprep evaluate work/sentiment/runs/torch --data test.jsonl --which best
    """
    from jprep.cli.common.progress import show_status
    from jprep.train.evaluation.evaluate import evaluate as measure

    _require_run(run)
    with show_status("evaluating"), end_on_sigterm():
        found = measure(run, data, split=split, source=source, which=which, backend_name=backend, settings=settings)
    _record(run, found)
    if as_json:
        echo_json(found)
    else:
        _show(run, found)


def suggested_evaluation(run: Path, backend: Backend, *options: object) -> list[str]:
    """Return the command that measures a run on the test split of its dataset, if there is one."""
    from jprep.train.evaluation.data import has_test_split
    from jprep.train.run.directory import read_job

    evaluates = backend.evaluates and has_test_split(run, read_job(run))
    return [shell_command("evaluate", run, *options)] if evaluates else []


def _require_run(run: Path) -> None:
    from jprep.train.run.directory import JOB, no_run_error

    if not (run / JOB).exists():
        raise no_run_error(run, "there is no run here", "`jprep train` creates one", command_for_other(run))


def _record(run: Path, found: Evaluation) -> None:
    """Record the figures in the run directory, if it is writable."""
    from jprep.errors import MachineError
    from jprep.train.evaluation.records import add_evaluation

    try:
        add_evaluation(run, found)
    except MachineError as error:
        note(f"jprep: the figures are not recorded: {error.what}: {one_line(error.where)}")


def _counts(found: Evaluation) -> dict[str, str]:
    """Return how many rows there are, and what was cut or left out."""
    from jprep.dataset.conversations.config import describe_counts

    rows = f"{found.rows:,}"
    if "conversations" in found.counts:
        return {"messages": describe_counts(found.counts), "rows": rows}
    cut = found.counts.get("truncated", 0)
    return {"rows": f"{rows}, {cut:,} of them cut to train.labelled.length" if cut else rows}


def _show(run: Path, found: Evaluation) -> None:
    """Print the figures, and the command that exports the model with them."""
    echo(str(run))
    weights = f"initial weights, step {found.step:,}" if found.initial else f"step {found.step:,}"
    shown = {"checkpoint": weights, "data": one_line(found.place), **_counts(found)}
    figures = {name: "not finite" if figure is None else f"{figure:.4f}" for name, figure in found.figures.items()}
    shown |= {one_line(name): figure for name, figure in figures.items()}
    echo_fields(shown)
    if found.seen:
        note("jprep: the run was trained on these rows, so the figures do not show how good it is on others")
    if not found.initial:
        next_steps(shell_command("export", run, "--which", found.step))
