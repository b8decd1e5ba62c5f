"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.remote_output import FINISHED_OUTPUT, OUTPUT_PATH_OR_URL
from jprep.cli.completion.candidates import BACKEND_NAME, EXECUTOR_NAME, RECIPE_PATH

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of an existing file."""

FOLDER = click.argument("folder", metavar="DIR", type=FINISHED_OUTPUT)
RECIPE = click.argument("recipe", type=RECIPE_PATH)
"""A recipe's file, or the name of one that comes with jprep."""
BACKEND = click.option(
    "--backend",
    metavar="NAME",
    type=BACKEND_NAME,
    help="Default: the backend that the recipe has options for, else torch.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Output JSON.")
OVERRIDES = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key of the recipe, e.g. train.batch=64."
)
WORKERS = click.option("--workers", type=click.IntRange(1), help="Number of processes. Default: the number of cores.")
EXECUTOR = click.option(
    "--executor", type=EXECUTOR_NAME, metavar="NAME", help="Where tasks run. Default: the recipe's, else local."
)
EXECUTOR_OPTIONS = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set an option of the executor, executor.KEY=VALUE."
)
WORK_FOLDER = click.option(
    "--work", type=OUTPUT_PATH, default=Path("work"), show_default=True, help="Parent directory of a recipe's outputs."
)
OUTPUT = click.option(
    "-o", "--output", type=OUTPUT_PATH_OR_URL,
    help="Output directory, or the URL to upload it to when it is finished. Default: below --work.",
)  # fmt: skip
RESTART = click.option("--restart", is_flag=True, help="Delete earlier work in the output directory and start again.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the plan and do nothing.")
