"""`jprep dataset pack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads, open_executor
from jprep.cli.common.output import echo, next_steps
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.corpus.stats import AS_JSON
from jprep.io.machine import cpu_count

if TYPE_CHECKING:
    from jprep.corpus.api import Corpus
    from jprep.corpus.config import Recipe
    from jprep.dataset.manifest import DatasetConfig
    from jprep.dataset.pack import PackPlan


@click.command()
@click.argument("source", metavar="RECIPE|CORPUS", type=click.Path(path_type=Path))
@click.option("--tokenizer", type=click.Path(path_type=Path), help="Its folder; a RECIPE's has its usual place.")
@click.option(
    "--corpus", type=click.Path(path_type=Path), help="The corpus of a RECIPE, if it is not in its usual place."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key, e.g. dataset.validation=0.01."
)
@click.option("--workers", type=click.IntRange(1), help="Processes that encode; the cores by default.")
@click.option("--executor", default="local", show_default=True, metavar="NAME", help="Where the encoding runs.")
@click.option("-o", "--output", type=OUTPUT_PATH, help="The dataset's folder.")
@click.option("--work", type=OUTPUT_PATH, default=Path("work"), help="Where outputs go without -o.")
@click.option("--restart", is_flag=True, help="Delete what an earlier packing left in the folder, and start again.")
@click.option("--dry-run", is_flag=True, help="Print the plan, and do nothing.")
@AS_JSON
def pack(
    source: Path,
    tokenizer: Path | None,
    corpus: Path | None,
    overrides: tuple[str, ...],
    workers: int | None,
    executor: str,
    output: Path | None,
    work: Path,
    restart: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Encode a corpus's documents, and pack them as Megatron's indexed data, with word and sentence starts beside it.

    Interrupt at any time and rerun to resume; the output is the same, byte for byte.

    \b
    jprep dataset pack data_recipes/jawiki.toml
    jprep dataset pack work/jawiki/corpus --tokenizer work/jawiki/tokenizer -o dataset
    """
    limit_blas_threads()
    from jprep.cli.common.next_commands import CommandContext, after_dataset
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.cli.dataset.inspect import show
    from jprep.dataset.pack import PackPlan, dataset_directory
    from jprep.dataset.pack import pack as pack_corpus
    from jprep.io.safe_names import check_name

    if dry_run:
        refuse_unused("--dry-run prints a plan and packs nothing", "as_json")
    packed, recipe, config = _inputs(source, corpus, work, overrides)
    from_recipe = source.suffix == ".toml"
    name, trains = recipe.name if from_recipe else packed.manifest.name, from_recipe and bool(recipe.train)
    if not (tokenizer and output):
        check_name(name, what="an output", where=f"{source}: name", fix="give --tokenizer and -o")
    place, folder = tokenizer or work / name / "tokenizer", output or work / name / "dataset"
    if dry_run:
        dataset_directory(folder).check()
        _show_plan(PackPlan(packed, place, config), folder, workers or cpu_count())
        return
    with open_executor(workers, executor) as (running, progress):
        dataset = pack_corpus(packed, place, config, folder, running, progress, restart=restart)
    show(dataset, folder, as_json=as_json)
    if not as_json:
        given = CommandContext(source if trains else None, name, overrides, work)
        next_steps(after_dataset(given, place, folder, trains=trains))


def _inputs(
    source: Path, corpus: Path | None, work: Path, overrides: tuple[str, ...]
) -> tuple[Corpus, Recipe, DatasetConfig]:
    """Return the corpus, the recipe, and how the corpus is packed."""
    from jprep.corpus.api import Corpus
    from jprep.corpus.config import decode_recipe
    from jprep.dataset.manifest import dataset_config
    from jprep.pipeline.output_paths import find_finished
    from jprep.pipeline.recipe import check_recipe, load_recipe

    if source.suffix != ".toml":
        if corpus:
            raise click.UsageError("--corpus is for a RECIPE: this is a corpus already")
        packed = Corpus(source)
        recipe = decode_recipe({"name": "corpus"}, overrides, where="the options")
        check_recipe(recipe, "the options")
        return packed, recipe, dataset_config(recipe.dataset, "[dataset]")
    recipe = load_recipe(source, overrides)
    place = find_finished("corpus", recipe, source, work, corpus)
    return Corpus(place), recipe, dataset_config(recipe.dataset, "[dataset]")


def _show_plan(plan: PackPlan, folder: Path, workers: int) -> None:
    totals, card, share = plan.corpus.manifest.totals, plan.tokenizer.card, plan.config.validation
    echo(f"{plan.corpus.manifest.name}: {folder} with {workers} workers")
    echo(f"  encode  {totals['documents']:,} documents, {totals['bytes']:,} bytes of text")
    echo(f"  with    {card.signature}")
    echo(f"  as      {plan.encoder.dtype}, each document ended by id {plan.encoder.end}")
    echo(f"  split   {', '.join(plan.splits)}" + (f" ({share:g} of the documents)" if share else ""))
