"""`jprep dataset pack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import describe_executor, limit_blas_threads, open_executor
from jprep.cli.common.options import AS_JSON, DRY_RUN, EXECUTOR, OUTPUT, OVERRIDES, RESTART, WORK_FOLDER, WORKERS
from jprep.cli.common.output import echo, next_steps, note
from jprep.cli.common.remote_output import FINISHED_OUTPUT, Url, local_output
from jprep.io.escaping import one_line
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.corpus.api import Corpus
    from jprep.dataset.pack import PackPlan
    from jprep.pipeline.recipe import Recipe


@click.command()
@click.argument("source", metavar="RECIPE|CORPUS", type=FINISHED_OUTPUT)
@click.option(
    "--tokenizer", type=FINISHED_OUTPUT, help="The tokenizer. Default for a RECIPE: its own, else that of model.init."
)
@click.option("--corpus", type=FINISHED_OUTPUT, help="The corpus of a RECIPE. Default: its own.")
@OVERRIDES
@WORKERS
@EXECUTOR
@OUTPUT
@WORK_FOLDER
@RESTART
@DRY_RUN
@AS_JSON
def pack(
    source: Path,
    tokenizer: Path | None,
    corpus: Path | None,
    overrides: tuple[str, ...],
    workers: int | None,
    executor: str | None,
    output: Path | Url | None,
    work: Path,
    restart: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Encode the documents of a corpus as Megatron's indexed dataset, with the starts of words and sentences beside it.

    Interrupt at any time and rerun to resume; the output is identical.

    \b
    Example:
      jprep dataset pack data_recipes/jawiki.toml
      jprep dataset pack work/jawiki/corpus --tokenizer work/jawiki/tokenizer -o dataset
    """
    limit_blas_threads()
    from jprep.cli.cluster.scripts import show_scripts
    from jprep.cli.common.next_commands import CommandContext, after_dataset
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.cli.dataset.inspect import show
    from jprep.dataset.manifest import DatasetConfig
    from jprep.dataset.pack import STAGES, PackPlan, dataset_directory
    from jprep.dataset.pack import pack as pack_corpus
    from jprep.io.safe_names import check_name

    if dry_run:
        refuse_unused("--dry-run packs nothing", "as_json", "restart")
    packed, recipe = _inputs(source, corpus, work, overrides)
    config = recipe.dataset or DatasetConfig()
    from_recipe = source.suffix == ".toml"
    name, trains = recipe.name if from_recipe else packed.manifest.name, from_recipe and bool(recipe.train)
    if not (tokenizer and output):
        check_name(name, what="an output", where=f"{source}: name", fix="give --tokenizer and -o")
    tokenizer = tokenizer or (_tokenizer_of_init(recipe, work) if from_recipe else None)
    tokenizer_folder, own = tokenizer or work / name / "tokenizer", work / name / "dataset"
    folder = output if isinstance(output, Path) else own
    if dry_run:
        dataset_directory(folder).check()
        where = describe_executor(recipe.executor, executor, workers)
        _show_plan(PackPlan(packed, tokenizer_folder, config), folder, where)
        show_scripts(recipe.executor, executor, [(folder, list(STAGES))])
        return
    with (
        local_output(output, "dataset", own, replace=restart),
        open_executor(workers, executor, recipe.executor) as (running, progress),
    ):
        dataset = pack_corpus(packed, tokenizer_folder, config, folder, running, progress, restart=restart)
    show(dataset, folder, as_json=as_json)
    if not as_json:
        context = CommandContext(source if trains else None, name, overrides, work)
        next_steps(after_dataset(context, tokenizer_folder, folder, trains=trains))


def _inputs(source: Path, corpus: Path | None, work: Path, overrides: tuple[str, ...]) -> tuple[Corpus, Recipe]:
    """Return the corpus and the recipe; without a recipe file, one that has the overrides only."""
    from jprep.corpus.api import Corpus
    from jprep.pipeline.output_paths import find_finished
    from jprep.pipeline.recipe import check_recipe, decode_recipe, load_recipe

    if source.suffix == ".toml":
        recipe = load_recipe(source, overrides)
        return Corpus(find_finished("corpus", recipe, source, work, corpus)), recipe
    if corpus:
        raise click.UsageError("--corpus is for a RECIPE: this is a corpus already")
    packed = Corpus(source)
    recipe = decode_recipe({"name": "corpus"}, overrides, where="the options")
    check_recipe(recipe, "the options")
    return packed, recipe


def _tokenizer_of_init(recipe: Recipe, work: Path) -> Path | None:
    """Return the tokenizer of the model that the recipe starts from, if it is the recipe's, and say so."""
    from jprep.pipeline.init_tokenizer import init_tokenizer_note, tokenizer_of_init

    if found := tokenizer_of_init(recipe, work):
        note(f"jprep: {init_tokenizer_note(found)}")
    return found


def _show_plan(plan: PackPlan, folder: Path, where: str) -> None:
    from jprep.dataset.manifest import describe_held_out

    totals, card = plan.corpus.manifest.totals, plan.tokenizer.card
    held_out = {"validation": plan.config.validation, "test": plan.config.test}
    shown = [f"{name}: {describe_held_out(value)}" for name, value in held_out.items() if value]
    echo(f"{plan.corpus.manifest.name}: {folder} {where}")
    echo(f"  encode  {counted(totals['documents'], 'document')}, {totals['bytes']:,} bytes of text")
    echo(f"  with    {card.signature}")
    echo(f"  as      {plan.encoder.dtype}, each document ended by id {plan.encoder.end}")
    echo(f"  split   {', '.join(plan.splits)}" + (f" ({'; '.join(shown)})" if shown else ""))
    if plan.parts:
        parts, left_out = plan.placement.count_documents(plan.corpus)
        shown = [f"{documents:,} in {name}" for name, documents in parts.items()]
        echo(one_line(f"  parts   documents: {', '.join(shown)}"))
        left = ", ".join(f"{documents:,} of {name}" for name, documents in left_out.items())
        echo(one_line(f"  out     documents in no part: {left or 'none'}"))
