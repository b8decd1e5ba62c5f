"""`jprep plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.options import AS_JSON, BACKEND, EXECUTOR, OVERRIDES, RECIPE, WORK_FOLDER
from jprep.cli.common.output import echo_json, hint, next_steps, note
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.cli.common.shell_command import shell_command

if TYPE_CHECKING:
    from jprep.pipeline.estimate.comparison import StepComparison
    from jprep.pipeline.estimate.plan import PlanOptions
    from jprep.pipeline.estimate.result import RecipeEstimate
    from jprep.pipeline.run import RunPlan
    from jprep.pipeline.steps import Step

_LAST = "train"
_UNTIL = ("corpus", "tokenizer", "dataset", _LAST)
_MB, _GB = 1e6, 1e9


class _SourceSize(click.ParamType[tuple[str, float]]):
    """The name of a source and its size."""

    name = "SOURCE=GB"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """Return the name and the bytes."""
        source, _, size = str(value).rpartition("=")
        try:
            return source, float(size) * _GB
        except ValueError:
            self.fail("expected the name of a source and gigabytes, e.g. jawiki=4.2", param, ctx)


class _Counts(click.ParamType[tuple[int, ...]]):
    """One number or several, with commas between them."""

    name = "N[,N…]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers."""
        try:
            counts = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail("expected a number, or several with commas between them", param, ctx)
        return counts if min(counts) > 0 else self.fail("expected numbers above 0", param, ctx)


_SIZE = _SourceSize()


@click.command()
@RECIPE
@click.option(
    "--workers",
    type=_Counts(),
    default=None,
    help="Number of processes; with several numbers, e.g. 1,64,1024, also how the work scales. Default: the cores.",
)
@EXECUTOR
@BACKEND
@click.option("--tokenizer", type=FINISHED_OUTPUT, help="A finished tokenizer, instead of the RECIPE's own.")
@OVERRIDES
@click.option("--until", type=click.Choice(_UNTIL), default=_LAST, show_default=True, help="The last step.")
@WORK_FOLDER
@click.option(
    "--seconds", type=click.FloatRange(0.0), default=20.0, show_default=True, help="CPU time for the sample's corpus."
)
@click.option(
    "--storage-rate", type=click.FloatRange(0.0), metavar="MB/S", default=0.0,
    help="Rate of the file system that all workers share. Default: as measured on this disk.",
)  # fmt: skip
@click.option(
    "--file-rate", type=click.FloatRange(0.0), metavar="N/S", default=0.0,
    help="Files that it commits a second. Default: as measured on this disk.",
)  # fmt: skip
@click.option(
    "--input-size", "input_sizes", type=_SIZE, multiple=True,
    help="Stored gigabytes of a source's files, where their server cannot be asked.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Measure again, even if the steps are finished and can be compared.")
@AS_JSON
def plan(
    recipe: Path,
    workers: tuple[int, ...] | None,
    executor: str | None,
    backend: str | None,
    tokenizer: Path | None,
    overrides: tuple[str, ...],
    until: Step,
    work: Path,
    seconds: float,
    storage_rate: float,
    file_rate: float,
    input_sizes: tuple[tuple[str, float], ...],
    again: bool,
    as_json: bool,
) -> None:
    """Estimate what a RECIPE takes: hours, disk, files, memory, and what limits it.

    The steps run for some seconds on a sample of the inputs. When they are finished, the same command compares the
    last plan with what they took.

    \b
    Example:
      jprep plan data_recipes/jawiki.toml --workers 1,8,64
    """
    limit_blas_threads()
    from jprep.cli.common.reader_hints import explain_reader_options
    from jprep.pipeline.estimate.plan import PlanOptions
    from jprep.pipeline.output_paths import WORK
    from jprep.pipeline.run import plan_run

    run = plan_run(
        recipe,
        set=overrides,
        backend=backend,
        tokenizer=tokenizer,
        until=until,
        workers=workers[0] if workers else None,
        executor=executor,
        work=work,
    )
    options = PlanOptions(workers or (), storage_rate * _MB, file_rate, seconds=seconds, input_sizes=dict(input_sizes))
    if not again and (compared := _compare(run)):
        _show_comparison(*compared, as_json=as_json)
        return
    with explain_reader_options(run.recipe, recipe, restart=False):
        estimate = _estimate(run, options, work)
    _show_estimate(estimate, as_json=as_json)
    if not as_json:
        given = {"executor": executor, "backend": backend, "tokenizer": tokenizer}
        given |= {"until": until if until != _LAST else None, "work": work if work != WORK else None}
        settings = [part for name, value in given.items() if value for part in (f"--{name}", str(value))]
        settings += [part for each in overrides for part in ("--set", each)]
        if estimate.fits:
            next_steps(shell_command("run", recipe, *settings, "--workers", estimate.workers))
        else:
            hint("\nthis does not fit: change what the warnings name, and plan again")


def _estimate(run: RunPlan, options: PlanOptions, work: Path) -> RecipeEstimate:
    """Return the estimate, which is stored for a later comparison."""
    from jprep.engine.executors.worker import tune_memory
    from jprep.pipeline.estimate.plan import estimate_recipe
    from jprep.pipeline.estimate.result import store_estimate

    tune_memory()
    estimate = estimate_recipe(run, options, note)
    path = store_estimate(work / run.recipe.name, estimate)
    note(f"the plan is stored as {path}")
    return estimate


def _compare(run: RunPlan) -> tuple[RecipeEstimate, list[StepComparison]] | None:
    """Return the stored plan and its comparison, if all its steps are finished."""
    from jprep.engine.output_kinds import CORPUS, DATASET, TOKENIZER
    from jprep.pipeline.estimate.comparison import MEASURED, compare_with_usage
    from jprep.pipeline.estimate.plan import recipe_fingerprint
    from jprep.pipeline.estimate.result import read_estimate

    estimate = read_estimate(run.paths.corpus.parent)
    if estimate is None or estimate.recipe != recipe_fingerprint(run.recipe):
        return None
    kinds, folders = {"corpus": CORPUS, "tokenizer": TOKENIZER, "dataset": DATASET}, run.paths._asdict()
    steps = [step for step in MEASURED if step in run.steps]
    if not all((folders[step] / kinds[step].manifest).exists() for step in steps):
        return None
    compared = compare_with_usage(estimate, folders)
    return (estimate, compared) if compared else None


def _show_estimate(estimate: RecipeEstimate, *, as_json: bool) -> None:
    from jprep.cli.pipeline.plan_tables import show_estimate

    if as_json:
        echo_json(estimate)
    else:
        show_estimate(estimate)


def _show_comparison(estimate: RecipeEstimate, compared: list[StepComparison], *, as_json: bool) -> None:
    from jprep.cli.pipeline.plan_tables import show_comparison

    if as_json:
        echo_json({"plan": estimate, "comparison": compared})
    else:
        show_comparison(estimate, compared)
