"""`jprep corpus build`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import describe_executor, limit_blas_threads, open_executor
from jprep.cli.common.options import DRY_RUN, EXECUTOR, OUTPUT, OVERRIDES, RESTART, WORK_FOLDER, WORKERS
from jprep.cli.common.output import describe_files, echo, next_steps
from jprep.cli.common.remote_output import Url, local_output
from jprep.cli.completion.candidates import PATTERN, RECIPE_PATH, SEGMENTER
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.corpus.config import StepRef
    from jprep.pipeline.recipe import Recipe

_READERS = ("wikipedia", "cc100", "text", "jsonl", "parquet", "csv", "tsv")
_DEDUP = ("near", "documents", "lines", "paragraphs", "sentences")


@click.command()
@click.argument("recipe", required=False, type=RECIPE_PATH)
@click.option(
    "--wikipedia", multiple=True, type=PATTERN, metavar="DUMP", help="A MediaWiki dump: .xml, .bz2, .gz, .xz or .zst."
)
@click.option(
    "--cc100", multiple=True, type=PATTERN, metavar="FILE", help="A CC-100 file: blank lines between documents."
)
@click.option("--text", multiple=True, type=PATTERN, metavar="GLOB", help="Text files.")
@click.option("--jsonl", multiple=True, type=PATTERN, metavar="GLOB", help="JSON Lines files with a field `text`.")
@click.option("--parquet", multiple=True, type=PATTERN, metavar="GLOB", help="Parquet files with a column `text`.")
@click.option("--csv", multiple=True, type=PATTERN, metavar="GLOB", help="CSV files with a column `text`.")
@click.option("--tsv", multiple=True, type=PATTERN, metavar="GLOB", help="TSV files with a column `text`; no quoting.")
@click.option(
    "--segmenter",
    type=SEGMENTER,
    metavar="NAME",
    help="pointwise (the default), jumandic, jumanpp, sudachi, unidic, spaces or none.",
)
@OVERRIDES
@WORKERS
@EXECUTOR
@OUTPUT
@WORK_FOLDER
@RESTART
@DRY_RUN
@click.option("--json", "as_json", is_flag=True, help="Output the corpus's figures as JSON.")
def build(
    recipe: Path | None,
    segmenter: str | None,
    overrides: tuple[str, ...],
    workers: int | None,
    executor: str | None,
    output: Path | Url | None,
    work: Path,
    restart: bool,
    dry_run: bool,
    as_json: bool,
    **inputs: tuple[str, ...],
) -> None:
    """Build a corpus from a RECIPE, or from the inputs that the options name.

    Interrupt at any time and rerun to resume; the output is identical. `-` is standard input.

    \b
    Example:
      jprep corpus build data_recipes/jawiki.toml
      jprep corpus build --wikipedia jawiki-latest-pages-articles-multistream.xml.bz2 -o corpus
    """
    limit_blas_threads()
    from jprep.cli.cluster.scripts import show_scripts
    from jprep.cli.common.next_commands import CommandContext, after_corpus
    from jprep.cli.common.reader_hints import explain_reader_options
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.cli.corpus.stats import show
    from jprep.corpus.build import build as build_corpus
    from jprep.corpus.build import corpus_directory, stage_names
    from jprep.corpus.stages.sources import check_sources
    from jprep.engine.executors.worker import tune_memory

    if isinstance(output, Path):
        refuse_unused("-o names the output directory", "work")
    if dry_run:
        refuse_unused("--dry-run builds nothing", "as_json", "restart")
    loaded = _recipe(recipe, inputs, segmenter, overrides)
    own = work / loaded.name / "corpus"
    folder = output if isinstance(output, Path) else own
    if dry_run:
        corpus_directory(folder).check()
        with explain_reader_options(loaded, recipe, restart=False):
            check_sources(loaded.corpus.sources)
        _show_plan(loaded, folder, describe_executor(loaded.executor, executor, workers))
        show_scripts(loaded.executor, executor, [(folder, stage_names(loaded.corpus))])
        return
    tune_memory()
    with (
        local_output(output, "corpus", own, replace=restart),
        explain_reader_options(loaded, recipe, output=folder),
        open_executor(workers, executor, loaded.executor) as (running, progress),
    ):
        manifest = build_corpus(loaded, folder, running, progress, restart=restart)
    show(manifest, folder, as_json=as_json)
    if not as_json and manifest.totals:
        context = CommandContext(recipe, loaded.name, overrides, work)
        next_steps(after_corpus(context, folder, manifest.totals, loaded.tokenizer))


def _recipe(
    path: Path | None, inputs: dict[str, tuple[str, ...]], segmenter: str | None, overrides: tuple[str, ...]
) -> Recipe:
    import msgspec

    from jprep.corpus.config import DEFAULT_SEGMENTER, default_recipe
    from jprep.pipeline.recipe import check_recipe, decode_recipe, load_recipe
    from jprep.pipeline.starter.formats import refuse_as_text

    if (path is None) != any(inputs.values()):
        raise click.UsageError("give either a RECIPE or inputs such as --wikipedia DUMP")
    if path:
        return load_recipe(path, [*overrides, *([f"corpus.segmenter={segmenter}"] if segmenter else [])])
    refuse_as_text([*inputs["text"], *inputs["cc100"]])
    default = default_recipe({name: inputs[name] for name in _READERS}, segmenter or DEFAULT_SEGMENTER)
    recipe = decode_recipe(msgspec.to_builtins(default), overrides, where="the options")
    check_recipe(recipe, "the options")
    return recipe


def _show_plan(recipe: Recipe, folder: Path, where: str) -> None:
    """Print what would be built, in the order in which it is done."""
    from jprep.corpus.config import step_name
    from jprep.corpus.stages.read_plan import CorpusSteps

    corpus = recipe.corpus
    CorpusSteps(corpus, corpus.segmenter).close()  # report now what is misspelt or not installed
    echo(f"{recipe.name}: {folder} {where}")
    for source in corpus.sources:
        reader = step_name(source.reader) + (f", its first {counted(source.shards, 'shard')}" if source.shards else "")
        echo(f"  read       {source.name}: {describe_files(source.paths)}, by {reader}")
    own = [source for source in corpus.sources if source.normalizers is not None or source.as_is]
    if len(own) < len(corpus.sources):
        _show_steps("normalize", "", corpus.normalizers)
    for source in own:
        _show_steps("normalize", f"{source.name}: ", corpus.normalizers_of(source))
    _show_steps("split", "", [corpus.splitter])
    for source in corpus.sources:
        _show_steps("filter", f"{source.name}: ", corpus.filters_of(source))
    if corpus.decontaminate:
        echo(f"  test sets  {', '.join(each.name for each in corpus.decontaminate)}")
    kinds = [kind for kind in _DEDUP if getattr(corpus.dedup, kind)]
    echo(f"  dedup      {', '.join(kinds) or 'nothing'}")
    _show_steps("segment", "", [corpus.segmenter])


def _show_steps(what: str, source: str, steps: Sequence[StepRef]) -> None:
    from jprep.corpus.config import step_name

    echo(f"  {what:<10} {source}{', '.join(map(step_name, steps)) or 'nothing'}")
