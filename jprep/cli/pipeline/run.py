"""`jprep run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.options import BACKEND, OVERRIDES, RECIPE, WORK_FOLDER, WORKERS
from jprep.cli.common.output import echo, next_steps
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.cli.completion.candidates import EXECUTOR_NAME
from jprep.io.escaping import one_line
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.pipeline.run import RunPlan
    from jprep.pipeline.steps import Step

_UNTIL = ("corpus", "tokenizer", "dataset", "train", "export")


@click.command()
@RECIPE
@click.option("--scale", type=click.Choice(["tiny"]), help="Cut model, steps and data, to try the recipe quickly.")
@BACKEND
@click.option("--corpus", type=FINISHED_OUTPUT, help="A finished corpus, for a RECIPE without sources.")
@click.option("--tokenizer", type=FINISHED_OUTPUT, help="A finished tokenizer, instead of the RECIPE's own.")
@OVERRIDES
@click.option("--until", type=click.Choice(_UNTIL), default="export", show_default=True, help="The last step.")
@WORKERS
@click.option(
    "--executor", type=EXECUTOR_NAME, metavar="NAME",
    help="Where tasks run; slurm also trains in a job, see [train.submit]. Default: the recipe's, else local.",
)  # fmt: skip
@WORK_FOLDER
@click.option("--dry-run", is_flag=True, help="Print the plan and do nothing.")
def run(
    recipe: Path,
    scale: Literal["tiny"] | None,
    backend: str | None,
    corpus: Path | None,
    tokenizer: Path | None,
    overrides: tuple[str, ...],
    until: Step,
    workers: int | None,
    executor: str | None,
    work: Path,
    dry_run: bool,
) -> int:
    """Do every step of a RECIPE: fetch, corpus, tokenizer, dataset, training, export.

    Finished steps are not repeated. Interrupt at any time and rerun to resume.

    \b
    Example:
      jprep run data_recipes/jawiki.toml --scale tiny
    """
    limit_blas_threads()
    from jprep.cli.cluster.scripts import show_scripts, show_training_script
    from jprep.cli.common.reader_hints import explain_reader_options
    from jprep.cli.pipeline.terminal_reporter import TerminalReporter
    from jprep.pipeline.run import execute_plan, plan_run
    from jprep.train.launcher.time_limit import ignore_time_limit

    plan = plan_run(
        recipe,
        set=overrides,
        scale=scale,
        backend=backend,
        corpus=corpus,
        tokenizer=tokenizer,
        until=until,
        workers=workers,
        executor=executor,
        work=work,
    )
    _show_changes(recipe, plan)
    if dry_run:
        with explain_reader_options(plan.recipe, recipe, restart=False):
            notes = _notes_of_dry_run(plan)
        _show_plan(plan, notes)
        show_scripts(plan.recipe.executor, executor, _stages(plan))
        show_training_script(plan)
        return 0
    with explain_reader_options(plan.recipe, recipe, restart=False):
        code = execute_plan(plan, TerminalReporter()).exit_code
    ignore_time_limit()
    if not code:
        _show_end(plan)
    return code


def _show_changes(recipe: Path, plan: RunPlan) -> None:
    if plan.scale:
        echo(f"{recipe} at scale {plan.scale}:")
        for change in plan.changes:
            echo(f"  {change}")


def _notes_of_dry_run(plan: RunPlan) -> list[str]:
    """Check a plan, which may be for another machine; return what this one lacks, and what is not checked."""
    from jprep.errors import ConfigError, MachineError
    from jprep.hub.location import is_hub_name
    from jprep.pipeline.early_checks import check_inputs
    from jprep.pipeline.run import check_plan

    tokenizer = str(plan.paths.tokenizer)
    notes = [f"not checked: {tokenizer} on the Hub"] if plan.tokenizer_given and is_hub_name(tokenizer) else []
    try:
        check_plan(plan, here=False)
        check_inputs(plan.recipe, plan.steps, corpus_given=plan.corpus_given)
    except MachineError as error:
        notes.append(f"this machine cannot do it: {error.what}; {error.fix}")
    except ConfigError as error:
        if not error.setting or error.setting.name not in ("paths", "data"):
            raise
        notes.append(f"not on this machine: {error.where} ({error.what})")
    return [*notes, *_compare_existing(plan)]


def _compare_existing(plan: RunPlan) -> list[str]:
    """Refuse existing outputs that the recipe would not make; return a note if they cannot be compared yet."""
    from jprep.pipeline.existing_outputs import check_existing, output_state

    if not any(download.partial for download in plan.pending_downloads()):
        check_existing(plan.recipe, plan.own_steps, plan.paths)
    elif any(output_state(step, plan.output(step)) != "new" for step in plan.own_steps):
        # Without a server, the embedded sample is used, which changes some options.
        return ["existing outputs are compared once the first megabytes are downloaded"]
    return []


def _show_plan(plan: RunPlan, notes: list[str]) -> None:
    from jprep.pipeline.steps import summarize_steps

    echo(f"{plan.recipe.name}:")
    for download in plan.pending_downloads():
        part = "the first megabytes of " if download.partial else ""
        echo(f"  {'fetch':<10} {download.path}  from {part}{download.url}")
    for step, line in summarize_steps(plan.recipe, plan.steps, plan.backend, corpus=plan.corpus_given):
        echo(f"  {step:<10} {plan.output(step)}  {line}{_existing_work(plan, step)}")
    for text in (*plan.notes, *notes):
        echo(f"  {'note':<10} {text}")


def _existing_work(plan: RunPlan, step: Step) -> str:
    """Return the state of a step's existing output, as the end of its line; "" if there is none."""
    from jprep.pipeline.existing_outputs import output_state

    state = _existing_runs(plan.runs) if step == "train" else ""
    if step in plan.own_steps and (found := output_state(step, plan.output(step))) != "new":
        state = found
    return f"; {state}" if state else ""


def _existing_runs(runs: Sequence[Path]) -> str:
    """Return what runs a training has; "" if there are none."""
    from jprep.train.results.summary import summarize_run
    from jprep.train.run.directory import JOB

    found = [summarize_run(run) for run in runs if (run / JOB).exists()]
    finished = [run for run in found if run.state == "finished"]
    if not found:
        return ""
    if len(runs) > 1:
        return f"{len(finished)} of {len(runs)} folds finished"
    if found[0].state == "unknown":
        return f"there is a run that cannot be read ({one_line(found[0].reason)})"
    steps = counted(found[0].steps, "step")
    progress = f"a finished run of {steps}" if finished else f"a run, at step {found[0].step:,} of {steps}"
    return f"there is {progress}"


def _stages(plan: RunPlan) -> list[tuple[Path, list[str]]]:
    """Return the output directories of steps that have stages, with the names of these."""
    from jprep.corpus.build import stage_names
    from jprep.dataset.pack import STAGES
    from jprep.tokenizer.counting import stage_names as counting_names

    stages: dict[Step, list[str]] = {
        "corpus": stage_names(plan.recipe.corpus),
        "tokenizer": counting_names(plan.recipe.tokenizer),
        "dataset": list(STAGES),
    }
    return [(plan.output(step), stages[step]) for step in plan.steps if step in stages]


def _show_end(plan: RunPlan) -> None:
    """Print why the run ends here, and how to measure and use the models."""
    from jprep.cli.model.evaluate import suggested_evaluation
    from jprep.cli.model.export import example_infer_commands
    from jprep.train.backend_loading import load_backend
    from jprep.train.exporting.manifest import read_export

    if plan.missing_section:
        echo(f"the recipe has no {plan.missing_section}, so the run ends here")
    commands: list[str] = []
    if "train" in plan.steps:
        commands += (one for run in plan.runs for one in suggested_evaluation(run, load_backend(plan.backend)))
    if "export" in plan.steps:
        exports = [(run, run / "export") for run in plan.runs]
        commands += (one for run, made in exports for one in example_infer_commands(run, made, read_export(made)))
    next_steps(*commands)
