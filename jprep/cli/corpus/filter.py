"""`jprep corpus filter`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.execution import executor_options, limit_blas_threads, open_executor
from jprep.cli.common.options import EXECUTOR, FOLDER, RESTART, WORKERS
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.completion.candidates import RECIPE_PATH

if TYPE_CHECKING:
    from jprep.corpus.refilter.request import FilterRequest
    from jprep.pipeline.recipe import Recipe


@click.command("filter")
@FOLDER
@click.option("--preset", "presets", multiple=True, metavar="NAME", help="Keep what a preset keeps.")
@click.option("--recipe", type=RECIPE_PATH, help="Apply the filters of a recipe, and add the signals that it keeps.")
@click.option(
    "--filter",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Drop documents for which the condition is false: 'hiragana_share>=0.2'.",
)
@click.option(
    "--signal",
    "signals",
    multiple=True,
    metavar="SIGNAL",
    help='Also keep this signal: a name, or a table as in recipes, \'{ use = "quality", model = "DIR" }\'.',
)
@click.option(
    "--line-signal",
    "line_signals",
    multiple=True,
    metavar="SIGNAL",
    help="Also keep this signal of every line, a name or a table.",
)
@click.option("-o", "--output", type=OUTPUT_PATH, required=True, help="Output directory.")
@WORKERS
@EXECUTOR
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set an option of the executor, executor.KEY=VALUE, or with --recipe any key of the recipe.",
)
@RESTART
@click.option("--json", "as_json", is_flag=True, help="Output the corpus's figures as JSON.")
def filter_(
    folder: Path,
    presets: tuple[str, ...],
    recipe: Path | None,
    conditions: tuple[str, ...],
    signals: tuple[str, ...],
    line_signals: tuple[str, ...],
    output: Path,
    workers: int | None,
    executor: str | None,
    overrides: tuple[str, ...],
    restart: bool,
    as_json: bool,
) -> None:
    """Filter a finished corpus into a new one, or add signals to it, without reading its sources again.

    Signals that the corpus keeps are used; others are measured from the text. Interrupt at any time and rerun to
    resume; the output is identical.

    \b
    Example:
      jprep corpus filter work/web/corpus --filter 'hiragana_share>=0.2' --filter 'characters>=400' -o filtered
    """
    limit_blas_threads()
    from jprep.cli.corpus.stats import show
    from jprep.corpus.refilter.run import refilter
    from jprep.engine.executors.worker import tune_memory
    from jprep.pipeline.recipe import load_recipe

    given = load_recipe(recipe, overrides) if recipe else None
    ref = given.executor if given else executor_options(overrides)
    request = _request(presets, given, conditions, signals, line_signals)
    tune_memory()
    with open_executor(workers, executor, ref) as (running, progress):
        manifest = refilter(folder, request, output, running, progress, restart=restart)
    show(manifest, output, as_json=as_json)


def _request(
    presets: tuple[str, ...],
    recipe: Recipe | None,
    conditions: tuple[str, ...],
    signals: tuple[str, ...],
    line_signals: tuple[str, ...],
) -> FilterRequest:
    from jprep.config import parse_value
    from jprep.corpus.refilter.request import FilterRequest, parse_condition

    if (recipe is None) == (not any((presets, conditions, signals, line_signals))):
        raise click.UsageError("give --preset NAME, --filter CONDITION or --signal NAME (or several), or --recipe FILE")
    if recipe:
        return FilterRequest.of_recipe(recipe.corpus)
    refs: list[Any] = [{"preset": name} for name in presets]
    kept, of_lines = list(map(parse_value, signals)), list(map(parse_value, line_signals))
    return FilterRequest([*refs, *map(parse_condition, conditions)], {}, kept, of_lines)
