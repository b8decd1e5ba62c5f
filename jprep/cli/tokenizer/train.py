"""`jprep tokenizer train`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.execution import limit_blas_threads, open_executor
from jprep.cli.common.options import AS_JSON, DRY_RUN, EXECUTOR, OUTPUT, OVERRIDES, RESTART, WORK_FOLDER, WORKERS
from jprep.cli.common.output import echo, echo_json, next_steps, table
from jprep.cli.common.remote_output import FINISHED_OUTPUT, Url, local_corpus, local_output
from jprep.cli.completion.candidates import PATTERN, SEGMENTER
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.pipeline.recipe import Recipe
    from jprep.tokenizer.card import TokenizerCard
    from jprep.tokenizer.training_data import TrainingData

_BOUNDARIES = "tokenizer.boundaries="
_ALL_BOUNDARIES = ("train", "super", "hard", "none", "spaces", "bert")
_SETS = "roberta, bert, gpt, t5, sentencepiece, hf-unigram, none"
_KEYS = ("model", "vocab_size", "alphabet", "boundaries", "special", "extends")


@click.command()
@click.argument("inputs", nargs=-1, type=PATTERN, metavar="CORPUS|RECIPE|FILE...")
@click.option("--model", type=click.Choice(["bpe", "byte-bpe", "unigram", "wordpiece", "words"]), help="Default: bpe.")
@click.option("--vocab-size", type=int, metavar="N", help="All ids, special tokens and bytes included. Default: 32000.")
@click.option("--alphabet", type=int, metavar="N", help="Characters with their own piece. Default: cover 99.95 %.")
@click.option(
    "--boundaries",
    type=click.Choice(list(_ALL_BOUNDARIES)),
    help="How word boundaries restrict pieces. Default: train.",
)
@click.option("--special", multiple=True, metavar="SET|TOKEN", help=f"{_SETS}; or a further token.")
@click.option("--extends", metavar="TOKENIZER", help="Add pieces to this tokenizer: a directory, or a name on the Hub.")
@click.option("--segmenter", type=SEGMENTER, metavar="NAME", help="Segmenter for FILEs. Default: pointwise.")
@click.option("--counts", is_flag=True, help="The input is a file of `word<TAB>count` lines.")
@click.option("--corpus", type=FINISHED_OUTPUT, help="The corpus of a RECIPE. Default: its own.")
@OVERRIDES
@WORKERS
@EXECUTOR
@OUTPUT
@WORK_FOLDER
@RESTART
@DRY_RUN
@AS_JSON
def train(
    inputs: tuple[str, ...],
    workers: int | None,
    executor: str | None,
    output: Path | Url | None,
    work: Path,
    restart: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a tokenizer on a corpus, on a recipe's corpus, or on files: Parquet, JSON Lines, text, or `-` for text from
    standard input.

    Interrupt at any time and rerun to resume; the output is identical.

    \b
    Example:
      jprep tokenizer train data_recipes/jawiki.toml
      jprep tokenizer train work/jawiki/corpus -o tokenizer --model unigram --vocab-size 32000
    """
    limit_blas_threads()
    from jprep.cli.common.next_commands import CommandContext, after_tokenizer
    from jprep.cli.common.reader_hints import explain_reader_options
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.cli.tokenizer.training_plan import show_plan
    from jprep.tokenizer.config import TokenizerConfig
    from jprep.tokenizer.train import train as train_tokenizer

    if dry_run:
        refuse_unused("--dry-run trains nothing", "as_json", "restart")
    inputs = (local_corpus(inputs[0], manifest_only=dry_run),) if len(inputs) == 1 else inputs
    recipe = _recipe(inputs, options)
    own = work / recipe.name / "tokenizer"
    folder = output if isinstance(output, Path) else own
    file = Path(inputs[0]) if _is_recipe(inputs) else None
    if dry_run:
        with _options_explained():
            show_plan(_training_data(inputs, recipe, options, folder, work), recipe, folder, workers, executor)
        return
    with (
        local_output(output, "tokenizer", own, replace=restart),
        explain_reader_options(recipe, file),
        open_executor(workers, executor, recipe.executor) as (running, progress),
    ):
        data = _training_data(inputs, recipe, options, folder, work)
        with _options_explained():
            config = recipe.tokenizer or TokenizerConfig()
            card = train_tokenizer(data, config, folder, running, progress, restart=restart)
    show(card, folder, as_json=as_json)
    if data.corpus and not as_json:
        context = CommandContext(file, recipe.name, options["overrides"], work)
        next_steps(after_tokenizer(context, data.corpus, folder, recipe.dataset))


@contextlib.contextmanager
def _options_explained() -> Iterator[None]:
    """Add the command's option to fixes that name a key of the recipe."""
    from jprep.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        if error.setting and error.setting.name in ("vocab_size", "alphabet"):
            option = f"--{error.setting.name.replace('_', '-')} {error.setting.value}"
            raise error.replace(fix=f"{option}, or in a recipe {error.fix}") from error
        raise


def _recipe(inputs: tuple[str, ...], options: dict[str, Any]) -> Recipe:
    """Return the recipe that is named, or one that makes a corpus from the files."""
    import msgspec

    from jprep.config import apply_overrides
    from jprep.corpus.config import DEFAULT_SEGMENTER, DedupConfig, default_recipe
    from jprep.pipeline.recipe import check_recipe, decode_recipe, load_recipe

    _check_inputs(inputs, options)
    given = {key: options[key] for key in _KEYS if options[key] is not None and options[key] != ()}
    if _is_recipe(inputs):
        return load_recipe(inputs[0], options["overrides"], given)
    files = {} if _is_corpus(inputs) or options["counts"] else _by_reader(inputs)
    if not files and any(setting.startswith("corpus.") for setting in options["overrides"]):
        raise click.UsageError("no corpus is built here, so --set corpus.… has no effect")
    own = default_recipe(files, options["segmenter"] or ("none" if _needs_no_words(options) else DEFAULT_SEGMENTER))
    corpus = msgspec.structs.replace(own.corpus, dedup=DedupConfig(documents=False))  # repeated texts count repeatedly
    raw = msgspec.to_builtins(msgspec.structs.replace(own, name=_name(inputs), corpus=corpus))
    raw = apply_overrides(raw, options["overrides"])
    recipe = decode_recipe(raw, {f"tokenizer.{key}": value for key, value in given.items()}, where="the options")
    check_recipe(recipe, "the options")
    return recipe


def _check_inputs(inputs: tuple[str, ...], options: dict[str, Any]) -> None:
    """Refuse inputs and options that would be ignored."""
    if not inputs:
        raise click.UsageError("give a corpus directory, a recipe, or files")
    if len(inputs) > 1 and any(_is_recipe((each,)) or _is_corpus((each,)) for each in inputs):
        raise click.UsageError("give one recipe, one corpus directory, or files")
    if options["counts"] and (len(inputs) > 1 or _is_recipe(inputs) or _is_corpus(inputs)):
        raise click.UsageError("--counts takes one file of `word<TAB>count` lines; counts of repeated words are added")
    if options["segmenter"] and (options["counts"] or _is_recipe(inputs) or _is_corpus(inputs)):
        raise click.UsageError("--segmenter is for FILEs: a recipe names its own, corpora and counts have words")
    if options["corpus"] and not _is_recipe(inputs):
        raise click.UsageError("--corpus is for a RECIPE")


def _training_data(
    inputs: tuple[str, ...], recipe: Recipe, options: dict[str, Any], folder: Path, work: Path
) -> TrainingData:
    from jprep.corpus.api import Corpus
    from jprep.engine.output_kinds import HASH_CACHE
    from jprep.pipeline.output_paths import find_finished
    from jprep.tokenizer.config import TokenizerConfig
    from jprep.tokenizer.sources.data import training_data
    from jprep.tokenizer.training_data import InputTrainingData, WordCountTrainingData

    config = recipe.tokenizer or TokenizerConfig()
    if config.source_list and not (_is_recipe(inputs) or _is_corpus(inputs)):
        raise click.UsageError("tokenizer.sources are for a recipe or a corpus; name the files as `paths` of a source")
    if options["counts"]:
        return WordCountTrainingData(Path(inputs[0]))
    if not _is_recipe(inputs) and not _is_corpus(inputs):
        return InputTrainingData(recipe, folder / HASH_CACHE)

    def own() -> Corpus:
        if _is_corpus(inputs):
            return Corpus(inputs[0])
        return Corpus(find_finished("corpus", recipe, Path(inputs[0]), work, options["corpus"]))

    held_out = recipe.dataset.held_out if recipe.dataset else ()
    return training_data(config, recipe.name, own, folder / HASH_CACHE, held_out)


def _needs_no_words(options: dict[str, Any]) -> bool:
    overrides = (each.removeprefix(_BOUNDARIES) for each in options["overrides"] if each.startswith(_BOUNDARIES))
    return not {"none", "bert"}.isdisjoint([options["boundaries"], *overrides])


def _is_recipe(inputs: tuple[str, ...]) -> bool:
    return len(inputs) == 1 and inputs[0].endswith(".toml")


def _is_corpus(inputs: tuple[str, ...]) -> bool:
    return len(inputs) == 1 and Path(inputs[0]).is_dir()


def _by_reader(inputs: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the files by reader, judged by their suffixes."""
    files: dict[str, list[str]] = {}
    for path in inputs:
        suffixes = Path(path).suffixes
        reader = next((suffix[1:] for suffix in suffixes if suffix in (".parquet", ".jsonl")), "text")
        files.setdefault(reader, []).append(path)
    return files


def _name(inputs: tuple[str, ...]) -> str:
    """Return the tokenizer's name: that of its input."""
    from jprep.corpus.api import Corpus
    from jprep.io.safe_names import name_problem

    if _is_corpus(inputs):
        name = Corpus(inputs[0]).manifest.name
    else:
        name = re.sub(r"[^\w.-]", "-", Path(inputs[0]).name.partition(".")[0] if inputs[0] != "-" else "stdin")
    return "corpus" if name_problem(name) else name


def show(card: TokenizerCard, folder: Path, *, as_json: bool) -> None:
    """Print a tokenizer's figures."""
    if as_json:
        names = ("name", "signature", "fingerprint", "counts", "figures")
        echo_json({"folder": str(folder)} | {name: getattr(card, name) for name in names})
        return
    echo(one_line(f"{card.name}  {folder}"))
    table("counts", card.counts)
    table("figures on a sample of the corpus", card.figures)
    echo(f"\n{one_line(card.signature)}")
