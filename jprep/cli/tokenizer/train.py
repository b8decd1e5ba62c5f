"""`jprep tokenizer train`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.execution import limit_blas_threads, open_executor
from jprep.cli.common.output import echo, echo_json, next_steps
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.corpus.stats import AS_JSON, table
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.corpus.config import Recipe
    from jprep.tokenizer.card import TokenizerCard
    from jprep.tokenizer.training_data import TrainingData

_BOUNDARIES = "tokenizer.boundaries="
_KEYS = ("model", "vocab_size", "alphabet", "boundaries", "special")


@click.command()
@click.argument("inputs", nargs=-1, metavar="CORPUS|RECIPE|FILE...")
@click.option("--model", type=click.Choice(["bpe", "byte-bpe", "unigram", "wordpiece"]), help="bpe by default.")
@click.option("--vocab-size", type=int, metavar="N", help="All ids, special tokens and bytes among them; 32000.")
@click.option("--alphabet", type=int, metavar="N", help="Characters with a piece of their own; what covers 99.95 %.")
@click.option(
    "--boundaries", type=click.Choice(["train", "hard", "none"]), help="What words are for; train by default."
)
@click.option("--special", multiple=True, metavar="SET|TOKEN", help="roberta, bert, gpt, t5, none; or a further token.")
@click.option("--segmenter", metavar="NAME", help="Finds words in FILEs; jumandic by default.")
@click.option("--counts", is_flag=True, help="The input is a file of lines: word, tab, count.")
@click.option(
    "--corpus", type=click.Path(path_type=Path), help="The corpus of a RECIPE, if it is not in its usual place."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key, e.g. tokenizer.digits=split."
)
@click.option("--workers", type=click.IntRange(1), help="Processes that count; the cores by default.")
@click.option("--executor", default="local", show_default=True, metavar="NAME", help="Where the counting runs.")
@click.option("-o", "--output", type=OUTPUT_PATH, help="The tokenizer's folder.")
@click.option("--work", type=OUTPUT_PATH, default=Path("work"), help="Where outputs go without -o.")
@click.option("--restart", is_flag=True, help="Delete what an earlier training left in the folder, and start again.")
@AS_JSON
def train(
    inputs: tuple[str, ...],
    workers: int | None,
    executor: str,
    output: Path | None,
    work: Path,
    restart: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a tokenizer on a corpus, on a recipe's corpus, or on files: Parquet, JSON lines, text; `-` is text from
    standard input.

    Interrupt at any time and rerun to resume; the output is the same, byte for byte.

    \b
    jprep tokenizer train data_recipes/jawiki.toml
    jprep tokenizer train work/jawiki/corpus -o tokenizer --model unigram --vocab-size 32000
    """
    limit_blas_threads()
    from jprep.cli.common.next_commands import CommandContext, after_tokenizer
    from jprep.cli.common.reader_hints import explain_reader_options
    from jprep.tokenizer.config import tokenizer_config
    from jprep.tokenizer.train import train as train_tokenizer

    recipe = _recipe(inputs, options)
    config = tokenizer_config(recipe.tokenizer, "[tokenizer]")
    folder = output or work / recipe.name / "tokenizer"
    file = Path(inputs[0]) if _is_recipe(inputs) else None
    with explain_reader_options(recipe, file), open_executor(workers, executor) as (running, progress):
        material = _material(inputs, recipe, options, folder, work)
        with _options_explained():
            card = train_tokenizer(material, config, folder, running, progress, restart=restart)
    show(card, folder, as_json=as_json)
    if material.corpus and not as_json:
        called = CommandContext(file, recipe.name, options["overrides"], work)
        next_steps(after_tokenizer(called, material.corpus, folder, recipe.dataset))


@contextlib.contextmanager
def _options_explained() -> Iterator[None]:
    """Complete fixes that give a key of the recipe with the option that sets it."""
    from jprep.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        if found := re.match(r"(vocab_size|alphabet) = (\d+)", error.fix):
            option = f"--{found[1].replace('_', '-')} {found[2]}"
            raise type(error)(error.what, where=error.where, fix=f"{option}, or in a recipe {error.fix}") from error
        raise


def _recipe(inputs: tuple[str, ...], options: dict[str, Any]) -> Recipe:
    """The recipe that is named, or one that says how files become a corpus."""
    import msgspec

    from jprep.corpus.config import DedupConfig, decode_recipe, default_recipe
    from jprep.pipeline.recipe import check_recipe, load_recipe

    _refuse_idle(inputs, options)
    given = {key: options[key] for key in _KEYS if options[key] is not None and options[key] != ()}
    if _is_recipe(inputs):
        return load_recipe(Path(inputs[0]), options["overrides"], given)
    files = {} if _is_corpus(inputs) or options["counts"] else _by_reader(inputs)
    if not files and any(setting.startswith("corpus.") for setting in options["overrides"]):
        raise click.UsageError("there is no corpus to build here, so nothing of it can be set")
    own = default_recipe(files, options["segmenter"] or ("none" if _needs_no_words(options) else "jumandic"))
    corpus = msgspec.structs.replace(own.corpus, dedup=DedupConfig(documents=False))  # a text given twice counts twice
    raw = msgspec.to_builtins(msgspec.structs.replace(own, name=_name(inputs), corpus=corpus))
    recipe = decode_recipe(raw, options["overrides"], where="the options")
    recipe = msgspec.structs.replace(recipe, tokenizer={**recipe.tokenizer, **given})
    check_recipe(recipe, "the options")
    return recipe


def _refuse_idle(inputs: tuple[str, ...], options: dict[str, Any]) -> None:
    """Refuse what would do nothing: an input or an option that is passed over has lost something."""
    if not inputs:
        raise click.UsageError("give a corpus's folder, a recipe, or files")
    if len(inputs) > 1 and any(_is_recipe((each,)) or _is_corpus((each,)) for each in inputs):
        raise click.UsageError("give one recipe or one corpus's folder, and nothing beside it; or files")
    if options["counts"] and (len(inputs) > 1 or _is_recipe(inputs) or _is_corpus(inputs)):
        raise click.UsageError("--counts takes one file: word, tab, count; words that repeat add up")
    if options["segmenter"] and (options["counts"] or _is_recipe(inputs) or _is_corpus(inputs)):
        raise click.UsageError("--segmenter is for FILEs: recipes name their own, corpora and counts have words")
    if options["corpus"] and not _is_recipe(inputs):
        raise click.UsageError("--corpus is for a RECIPE")


def _material(
    inputs: tuple[str, ...], recipe: Recipe, options: dict[str, Any], folder: Path, work: Path
) -> TrainingData:
    from jprep.corpus.api import Corpus
    from jprep.engine.output_kinds import HASH_CACHE
    from jprep.pipeline.output_paths import find_finished
    from jprep.tokenizer.training_data import CorpusTrainingData, InputTrainingData, WordCountTrainingData

    if options["counts"]:
        return WordCountTrainingData(Path(inputs[0]))
    if _is_corpus(inputs):
        return CorpusTrainingData(Corpus(inputs[0]))
    if not _is_recipe(inputs):
        return InputTrainingData(recipe, folder / HASH_CACHE)
    return CorpusTrainingData(Corpus(find_finished("corpus", recipe, Path(inputs[0]), work, options["corpus"])))


def _needs_no_words(options: dict[str, Any]) -> bool:
    return "none" in (options["boundaries"], *(each[21:] for each in options["overrides"] if each[:21] == _BOUNDARIES))


def _is_recipe(inputs: tuple[str, ...]) -> bool:
    return len(inputs) == 1 and inputs[0].endswith(".toml")


def _is_corpus(inputs: tuple[str, ...]) -> bool:
    return len(inputs) == 1 and Path(inputs[0]).is_dir()


def _by_reader(inputs: tuple[str, ...]) -> dict[str, list[str]]:
    """Files by the reader that their names speak for."""
    files: dict[str, list[str]] = {}
    for path in inputs:
        suffixes = Path(path).suffixes
        reader = next((suffix[1:] for suffix in suffixes if suffix in (".parquet", ".jsonl")), "text")
        files.setdefault(reader, []).append(path)
    return files


def _name(inputs: tuple[str, ...]) -> str:
    """What the tokenizer is called: as its input is."""
    from jprep.corpus.api import Corpus
    from jprep.io.safe_names import name_problem

    if _is_corpus(inputs):
        name = Corpus(inputs[0]).manifest.name
    else:
        name = re.sub(r"[^\w.-]", "-", Path(inputs[0]).name.partition(".")[0] if inputs[0] != "-" else "stdin")
    return "corpus" if name_problem(name) else name


def show(card: TokenizerCard, folder: Path, *, as_json: bool) -> None:
    """Print what a tokenizer is, and how it scores."""
    if as_json:
        names = ("name", "signature", "fingerprint", "counts", "figures")
        echo_json({"folder": str(folder)} | {name: getattr(card, name) for name in names})
        return
    echo(one_line(f"{card.name}  {folder}"))
    table("counted while training", card.counts)
    table("on a sample of its corpus", card.figures)
    echo(f"\n{one_line(card.signature)}")
