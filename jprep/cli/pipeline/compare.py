"""`jprep compare`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.options import AS_JSON, DRY_RUN, OVERRIDES, RESTART, WORKERS
from jprep.cli.common.output import echo, echo_json, hint, note
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.completion.candidates import BACKEND_NAME, RECIPE_PATH
from jprep.io.escaping import one_line
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.compare.data.preparation import Preparation
    from jprep.compare.options import CompareOptions
    from jprep.compare.result import Arm, Comparison, ComparisonPlan, TaskResult
    from jprep.compare.run import CompareReporter

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("recipes", type=RECIPE_PATH, nargs=-1, required=True)
@click.option(
    "-o", "--output", type=OUTPUT_PATH, default=Path("work/compare"), show_default=True, help="Output directory."
)
@click.option("--budget", default="20min", show_default=True, help="How long it may take: 20min, 2h, gpu:30min.")
@click.option("--seeds", type=click.IntRange(1), help="Models of each recipe. Default: as many as fit, at most 5.")
@click.option("--size", metavar="NAME", help="Size of the models: 0.1m, 0.3m, 0.8m, 5m, 25m, 85m. Default: what fits.")
@click.option(
    "--characters", type=click.IntRange(1), help="Characters of text that each model sees. Default: what fits."
)
@click.option(
    "--backend", type=BACKEND_NAME, default="torch", show_default=True, metavar="NAME", help="The backend that trains."
)
@click.option(
    "--tasks",
    type=_FILE,
    multiple=True,
    help="A file with the items of a task, or a TOML file that describes it. Can be repeated.",
)
@click.option(
    "--heldout", type=_FILE, multiple=True,
    help="A file of held-out texts: JSON lines, Parquet or text. Default: from the recipes' common sources.",
)  # fmt: skip
@OVERRIDES
@WORKERS
@RESTART
@DRY_RUN
@AS_JSON
def compare(
    recipes: tuple[Path, ...],
    output: Path,
    budget: str,
    seeds: int | None,
    size: str | None,
    characters: int | None,
    backend: str,
    tasks: tuple[Path, ...],
    heldout: tuple[Path, ...],
    overrides: tuple[str, ...],
    workers: int | None,
    restart: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Measure what a choice is worth: train small models with each of two or more RECIPES and judge them.

    The recipes may differ in sources, filters, normalizers or tokenizer. Their models have the same size, see the same
    number of characters, and are judged by bits per character on held-out text that none of them has seen.
    Interrupt at any time and rerun to resume.

    \b
    Example:
      jprep compare plain.toml filtered.toml --budget 20min -o work/filters
    """
    limit_blas_threads()
    from jprep.compare.options import CompareOptions, parse_budget
    from jprep.compare.run import compare as start

    options = CompareOptions(
        budget=parse_budget(budget),
        seeds=seeds or 0,
        size=size or "",
        characters=characters or 0,
        backend=backend,
        tasks=tasks,
        held_out=heldout,
        overrides=overrides,
        workers=workers,
    )
    if dry_run:
        return _show_guess(recipes, options, as_json=as_json)
    result = start(recipes, output, options, _reporter(), restart=restart)
    report = _write_report(output)
    _show(result, output, as_json=as_json)
    if report and not as_json:
        hint(f"\nreport: {report}")
    return 0


def _write_report(folder: Path) -> Path | None:
    """Write the report beside the result; return None if it cannot be: the result is finished without it."""
    from jprep.errors import JprepError
    from jprep.io.atomic import write_atomic
    from jprep.report.build import build_report

    path = folder / "report.html"
    try:
        write_atomic(path, build_report([folder]).html().encode())
    except JprepError as error:
        note(f"no report: {error}")
        return None
    return path


def _reporter() -> CompareReporter:
    from jprep.compare.run import CompareReporter as Base

    class Reporter(Base):
        """Prints progress to standard error."""

        def stage(self, text: str) -> None:
            note(f"{text} …")

        def note(self, text: str) -> None:
            note(text)

        def planned(self, plan: ComparisonPlan, preparation: Preparation) -> None:
            note(_describe_plan(plan, len(preparation.distinct), len(preparation.held_out)))

        def scored(self, arm: str, seed: int, bits_per_character: float) -> None:
            note(f"      {arm}, seed {seed}: {bits_per_character:.4f} bits per character")

        @contextlib.contextmanager
        def executor(self, workers: int | None) -> Iterator[tuple[Executor, ProgressReporter]]:
            with open_executor(workers) as running:
                yield running

        def train(self, prepared: PreparedRun) -> int:
            return run_training(prepared)

    from jprep.cli.common.execution import open_executor
    from jprep.cli.model.train import run_training
    from jprep.engine.runner import Executor, ProgressReporter
    from jprep.train.launcher.launch import PreparedRun

    return Reporter()


def _describe_plan(plan: ComparisonPlan, arms: int, held_out: int) -> str:
    size = plan.size
    shape = f"{size.parameters:,} parameters without embeddings ({size.layers} layers of width {size.width})"
    judged = f", judged on {counted(held_out, 'held-out text')}" if held_out else ""
    return (
        f"plan: {counted(arms, 'recipe')} × {counted(len(plan.seeds), 'seed')}, models of {shape}, each trained on"
        f" {plan.characters:,} characters on a {plan.device.upper()}{judged}"
    )


def _show_guess(recipes: tuple[Path, ...], options: CompareOptions, *, as_json: bool) -> int:
    from jprep.compare.planning import guess_plan, needs_calibration
    from jprep.compare.run import check_comparison

    arms, _ = check_comparison(recipes, options)
    plan = guess_plan(options, len(arms))
    if as_json:
        echo_json(plan)
        return 0
    echo(_describe_plan(plan, len(arms), 0))
    if needs_calibration(options):
        hint("a guess from the speed of this machine's cores: a short training measures it before the plan is made")
    for arm in arms:
        echo(f"  {arm.name}  {arm.path}  {arm.recipe.name}")
    return 0


def _describe_task(task: TaskResult, arms: list[str]) -> str:
    items = f"{task.name}: {counted(task.items, 'item')}, {task.left_out} left out"
    if not task.items:
        return items
    means = ", ".join(f"{arm} {sum(seeds) / len(seeds):.3f}" for arm, seeds in zip(arms, task.scores, strict=True))
    return f"{items}; {task.metric} {means}" + (f" (chance {task.chance:.3f})" if task.chance else "")


def _show(result: Comparison, folder: Path, *, as_json: bool) -> None:
    if as_json:
        shown = {"folder": str(folder), "plan": result.plan, "arms": result.arms, "judgements": result.judgements}
        echo_json({**shown, "bits_per_character": result.bits_per_character, "tasks": result.tasks})
        return
    from jprep.compare.statistics.verdict import pairs_note

    for arm, seeds in zip(result.arms, result.bits_per_character, strict=True):
        _show_arm(arm, seeds)
    echo(f"\n{counted(len(result.scored), 'held-out text')}, {len(result.items) - len(result.scored)} left out")
    for task in result.tasks:
        echo(one_line(_describe_task(task, [arm.name for arm in result.arms])))
    for judgement in result.judgements:
        echo(one_line(judgement.sentence if judgement.primary else f"  {judgement.measure}: {judgement.sentence}"))
    if pairs := pairs_note(sum(judgement.primary for judgement in result.judgements)):
        hint(pairs)


def _show_arm(arm: Arm, seeds: list[float]) -> None:
    """Print a recipe, what distinguishes it, and the bits per character of its models."""
    echo("\n" + one_line(f"{arm.name}  {arm.recipe}  {arm.title}"))
    for line in arm.differences:
        echo(one_line(f"   {line}"))
    if arm.same_as:
        echo(f"   comes to the same data as {arm.same_as}")
    echo(f"   {sum(seeds) / len(seeds):.4f} bits per character  ({', '.join(f'{each:.4f}' for each in seeds)})")
    echo(
        f"   {arm.documents:,} documents, {arm.characters:,} characters, {arm.epochs:.2f} epochs,"
        f" {arm.tokens_per_character:.3f} tokens per character"
    )
