"""`jprep run`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from jprep.cli.common.execution import limit_blas_threads, open_executor
from jprep.cli.common.output import echo, live, next_steps, note
from jprep.cli.common.output_path import OUTPUT_PATH

if TYPE_CHECKING:
    from jprep.corpus.config import Recipe
    from jprep.pipeline.output_paths import OutputPaths
    from jprep.pipeline.steps import Step

_DOWNLOADS = Path("downloads")
_UNTIL = ("corpus", "tokenizer", "dataset", "train", "export")


class Order(NamedTuple):
    """What is to be done, and where.

    Attributes:
        recipe: the recipe, cut if a scale was asked for.
        steps: its steps.
        places: where their outputs are.
        run: the run directory.
        backend: the backend's name.
        workers: processes; None for as many as cores.
        given: whether a finished corpus was given.
        file: the recipe's file.
        scale: `tiny`, or None.
    """

    recipe: Recipe
    steps: list[Step]
    places: OutputPaths
    run: Path
    backend: str
    workers: int | None
    given: bool
    file: Path | None = None
    scale: str | None = None


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--scale", type=click.Choice(["tiny"]), help="Cut model, steps and data, to see that all of it works.")
@click.option("--backend", metavar="NAME", help="The one that the recipe has options for, if it is one; else torch.")
@click.option("--corpus", type=click.Path(path_type=Path), help="A finished corpus, for a RECIPE without sources.")
@click.option("--tokenizer", type=click.Path(path_type=Path), help="A finished tokenizer, instead of the RECIPE's own.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key, e.g. train.batch=64.")
@click.option("--until", type=click.Choice(_UNTIL), default="export", show_default=True, help="The last step.")
@click.option("--workers", type=click.IntRange(1), help="Processes; the cores by default.")
@click.option("--work", type=OUTPUT_PATH, default=Path("work"), help="Where outputs go.")
@click.option("--dry-run", is_flag=True, help="Print the plan, and do nothing.")
def run(
    recipe: Path,
    scale: str | None,
    backend: str | None,
    corpus: Path | None,
    tokenizer: Path | None,
    overrides: tuple[str, ...],
    until: Step,
    workers: int | None,
    work: Path,
    dry_run: bool,
) -> int:
    """Do every step of a RECIPE: fetch, corpus, tokenizer, dataset, training, export.

    Finished steps are not repeated. Interrupt at any time and rerun to resume.

    \b
    jprep run data_recipes/jawiki.toml --scale tiny
    """
    limit_blas_threads()
    from jprep.engine.output_directory import OutputDirectory
    from jprep.engine.output_kinds import RECIPE
    from jprep.pipeline.output_paths import output_paths
    from jprep.pipeline.steps import check_steps, missing_section, select_steps
    from jprep.pipeline.tiny_inputs import with_tiny_inputs
    from jprep.train.launcher.launch import backend_name

    loaded = _load(recipe, scale, overrides)
    chosen = backend or backend_name(loaded.train)
    steps = select_steps(loaded, until, corpus=bool(corpus), tokenizer=bool(tokenizer))
    usual = output_paths(work, loaded.name)
    for folder in (work, work / loaded.name):
        OutputDirectory(folder, RECIPE, shared=True).check()
    where = usual._replace(corpus=corpus or usual.corpus, tokenizer=tokenizer or usual.tokenizer)
    order = Order(loaded, steps, where, usual.runs / chosen, chosen, workers, bool(corpus), recipe, scale)
    if dry_run:
        _show_plan(order)
        return 0
    check_steps(loaded, steps, chosen, corpus=bool(corpus))
    if scale and "corpus" in steps and not corpus:
        order = order._replace(recipe=with_tiny_inputs(loaded, _DOWNLOADS, note))
    code = _do_all(order)
    if not code and (missing := missing_section(loaded, steps, until)):
        echo(f"the recipe has no {missing}, so it ends here")
    if not code and "export" in steps:
        _say_what_next(order)
    return code


def _say_what_next(order: Order) -> None:
    from jprep.cli.model.export import example_infer_command
    from jprep.train.run.directory import EXPORT

    next_steps(*(example_infer_command(run / EXPORT) for run in _folds(order) or [order.run]))


def _load(path: Path, scale: str | None, overrides: tuple[str, ...]) -> Recipe:
    """The recipe, cut if that is asked for; what --set says holds all the same."""
    import msgspec

    from jprep.corpus.config import decode_recipe
    from jprep.pipeline.recipe import load_recipe
    from jprep.pipeline.tiny_scale import list_changes, scale_down

    recipe = load_recipe(path, overrides)
    if not scale:
        return recipe
    small = decode_recipe(msgspec.to_builtins(scale_down(recipe)), overrides, where=str(path))
    echo(f"{recipe.name} at scale {scale}:")
    for change in list_changes(recipe, small):
        echo(f"  {change}")
    return small


def _show_plan(order: Order) -> None:
    from jprep.pipeline.steps import pending_downloads, summarize_steps
    from jprep.pipeline.tiny_inputs import pending_partial_downloads

    echo(f"{order.recipe.name}:")
    beginnings = pending_partial_downloads(order.recipe, _DOWNLOADS) if order.scale and not order.given else {}
    for path, url in beginnings.items():
        echo(f"  {'fetch':<10} {path}  the beginning of {url}")
    for name, file in {} if order.given else pending_downloads(order.recipe, _DOWNLOADS).items():
        if file.url not in beginnings.values():
            echo(f"  {'fetch':<10} {_DOWNLOADS / name}  of {file.url}")
    for step, line in summarize_steps(order.recipe, order.steps, order.backend):
        echo(f"  {step:<10} {_place(order, step)}  {line}")


def _place(order: Order, step: Step) -> Path:
    if step == "export":
        return order.run / ("fold-*" if _folds(order) else "") / "export"
    return order.run if step == "train" else getattr(order.places, step)


def _folds(order: Order) -> list[Path]:
    """The run directories of the folds; none where there is one run only."""
    from jprep.train.launcher.cross_validation import fold_count, fold_directories

    return fold_directories(order.run, fold_count(order.recipe.train))


def _do_all(order: Order) -> int:
    """One step after another, until one fails; its exit code, or 0."""
    return next((code for step in order.steps if (code := do(order, step))), 0)


def do(order: Order, step: Step) -> int:
    """Do one of the steps, or see that it is done; the exit code.

    Raises:
        MismatchError: other work stands in its folder.
    """
    from jprep.errors import MismatchError

    number, begun = order.steps.index(step) + 1, time.monotonic()
    echo(f"[{number}/{len(order.steps)}] {step}: {_place(order, step)}")
    try:
        if code := _STEPS[step](order):
            return code
    except MismatchError as error:
        fix = f"{error.fix} (with the step's own command); here another --work, or delete the folder"
        raise MismatchError(error.what, where=error.where, fix=fix) from error
    note(f"      done in {time.monotonic() - begun:.1f} s")
    return 0


def _corpus(order: Order) -> int:
    from jprep.cli.common.reader_hints import explain_reader_options
    from jprep.corpus.build import build
    from jprep.corpus.store import read_manifest

    if not order.given:
        _fetch(order.recipe)
        with explain_reader_options(order.recipe, order.file), open_executor(order.workers) as (executor, progress):
            build(order.recipe, order.places.corpus, executor, progress)
    totals = read_manifest(order.places.corpus).totals
    echo(f"      {totals.get('documents', 0):,} documents, {totals.get('bytes', 0):,} bytes of text")
    return 0


def _fetch(recipe: Recipe) -> None:
    """Download what is not there; say from where, and how large it is, before its first byte comes."""
    from jprep.cli.corpus.fetch import show
    from jprep.corpus.download.fetch import fetch
    from jprep.pipeline.steps import pending_downloads

    files = pending_downloads(recipe, _DOWNLOADS)
    said: set[str] = set()

    def tell(name: str, done: int, total: int) -> None:
        if name not in said:
            said.add(name)
            size = f"{total:,} bytes" if total >= 0 else "size unknown"
            echo(f"      fetching {files[name].url}, {size}, to {_DOWNLOADS / name}")
        if live():
            show(name, done, total)

    if files:
        fetch(files.values(), _DOWNLOADS, progress=tell)


def _tokenizer(order: Order) -> int:
    from jprep.corpus.api import Corpus
    from jprep.tokenizer.config import tokenizer_config
    from jprep.tokenizer.train import train
    from jprep.tokenizer.training_data import CorpusTrainingData

    config = tokenizer_config(order.recipe.tokenizer, "[tokenizer]")
    with open_executor(order.workers) as (executor, progress):
        card = train(
            CorpusTrainingData(Corpus(order.places.corpus)), config, order.places.tokenizer, executor, progress
        )
    echo(f"      {card.signature}")
    return 0


def _dataset(order: Order) -> int:
    from jprep.corpus.api import Corpus
    from jprep.dataset.manifest import dataset_config
    from jprep.dataset.pack import pack

    places, config = order.places, dataset_config(order.recipe.dataset, "[dataset]")
    with open_executor(order.workers) as (executor, progress):
        dataset = pack(Corpus(places.corpus), places.tokenizer, config, places.dataset, executor, progress)
    splits = ", ".join(f"{split.name} {split.tokens:,} tokens" for split in dataset.splits)
    echo(f"      {splits}")
    return 0


def _train(order: Order) -> int:
    from jprep.cli.model.train import run_training, show_figures
    from jprep.train.launcher.launch import prepare_run

    if _folds(order):
        return _train_folds(order)
    section = order.recipe.train
    dataset = order.places.dataset if "dataset" in order.steps else None
    prepared = prepare_run(section, order.recipe.name, order.backend, order.run, order.places.tokenizer, dataset)
    code = run_training(prepared)
    if not code:
        show_figures(prepared)
    return code


def _train_folds(order: Order) -> int:
    from jprep.cli.model.train import run_training, show_folds
    from jprep.train.launcher.cross_validation import train_folds

    recipe, places = order.recipe, order.places
    code = train_folds(recipe.train, recipe.name, order.backend, order.run, places.tokenizer, through=run_training)
    if not code:
        show_folds(order.run, as_json=False)
    return code


def _export(order: Order) -> int:
    from jprep.train.exporting import export, newest_export

    for run in _folds(order) or [order.run]:
        folder = newest_export(run) or export(run)
        echo(f"      {folder}")
    return 0


_STEPS = {"corpus": _corpus, "tokenizer": _tokenizer, "dataset": _dataset, "train": _train, "export": _export}
