"""Compose a starter recipe, check it, and write it."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from jprep.config import suggest_name
from jprep.corpus.config import VERSION
from jprep.errors import ConfigError, JprepError
from jprep.io.atomic import write_atomic
from jprep.io.escaping import one_line
from jprep.io.os_errors import write_error
from jprep.io.safe_names import name_problem
from jprep.pipeline.output_paths import WORK
from jprep.pipeline.recipe import load_recipe
from jprep.pipeline.starter.choices import BACKENDS, SOURCES, Answers, BackendName, check_model
from jprep.pipeline.starter.corpus_tables import (
    corpus_table,
    dataset_table,
    default_inputs,
    source_reader,
    source_table,
    tokenizer_table,
)
from jprep.pipeline.starter.inputs import DUMPS, InputSummary, dump_inputs, hub_inputs, hub_pattern, local_inputs
from jprep.pipeline.starter.toml_lines import Key, table
from jprep.pipeline.starter.train_tables import backend_table, train_table
from jprep.plugins import plugins
from jprep.plugins.files import parse_reference


def compose_recipe(answers: Answers, file: Path) -> str:
    """Return the text of a recipe for the answers; it is loaded to check it.

    Args:
        answers: what it is for.
        file: its file, which the commands in its comments name.

    Raises:
        ConfigError: an answer is wrong, or no input matches.
        MachineError, InputError: an input cannot be read.
    """
    check_name(answers.name)
    if not answers.start:
        check_model(answers.backend, answers.model)
    elif answers.start.needs_words and answers.segmenter == "none":
        what = "the tokenizer of this model takes words, which a segmenter finds"
        raise ConfigError(what, where="--segmenter none", fix="leave it out, or name another; see `jprep doctor`")
    _check_segmenter(answers)
    inputs = _inputs(answers)
    text = "\n".join(
        [
            _head(answers, file),
            source_table(answers, inputs),
            corpus_table(answers),
            *([] if answers.start else [tokenizer_table(answers, inputs)]),
            dataset_table(answers, inputs),
            train_table(answers, inputs),
            backend_table(answers.backend),
        ]
    )
    check_text(text)
    return text


def check_name(name: str) -> None:
    """Refuse a name that no directory of outputs can have.

    Raises:
        ConfigError: the name is invalid.
    """
    if problem := name_problem(name):
        raise ConfigError(f"a recipe cannot be called {name!r}: {problem}", where="--name", fix="--name novels")


def _check_segmenter(answers: Answers) -> None:
    """Refuse a segmenter that no plugin has; that of the starting model's tokenizer may be installed elsewhere."""
    name, known = answers.segmenter, plugins().names("segmenter")
    if name in known or parse_reference(name) or (answers.start and answers.start.segmenter.get("use") == name):
        return
    what = f"no segmenter is called {name!r}"
    raise ConfigError(what, where=f"--segmenter {name}", fix=suggest_name(name, known))


def _inputs(answers: Answers) -> InputSummary:
    if not answers.inputs and answers.source == "text":
        raise ConfigError("the source `text` needs files", fix="--input 'texts/*.txt'")
    if not answers.inputs:
        return default_inputs(answers)
    if answers.source == "hf":
        return hub_inputs([hub_pattern(each) for each in answers.inputs], answers.text_field)
    if answers.source == "text":
        return local_inputs(answers.inputs, answers.text_field)
    return dump_inputs(answers.inputs, source_reader(answers), DUMPS[answers.source])


def _head(answers: Answers, file: Path) -> str:
    path, model = one_line(shlex.quote(str(file))), _model(answers)
    above = (
        f"{SOURCES[answers.source][0].upper()}{SOURCES[answers.source][1:]}; {model} by {answers.backend}.",
        "",
        f"  jprep run {path} --scale tiny    # try every step on a small part, in minutes",
        f"  jprep run {path} --dry-run       # show the plan",
        f"  jprep run {path}                 # every step; interrupt at any time, rerun to resume",
    )
    return recipe_head(answers.name, answers.backend, f"{model} on {SOURCES[answers.source]}", *above)


def recipe_head(name: str, backend: BackendName, description: str, *above: str) -> str:
    """Return the comments at the head of a recipe, and the keys of the recipe as a whole.

    Args:
        name: the recipe's name.
        backend: what trains.
        description: one line for readers.
        above: the first comments: what it is for, and its commands.
    """
    comments = (
        *above,
        f"  jprep backends install {backend}    # once: {BACKENDS[backend].about}",
        "",
        f"Outputs are written to {WORK}/{name}/. docs/recipes.md lists all keys.",
    )
    keys = [
        Key("version", VERSION, "of the format: a recipe keeps its meaning when defaults change"),
        Key("name", name, f"names the directory of the outputs below {WORK}/"),
        Key("description", description, "one line for readers"),
    ]
    return table("", keys, *comments)


def _model(answers: Answers) -> str:
    return f"{'continued training of ' if answers.start else ''}{one_line(answers.model_name)}"


def check_text(text: str) -> None:
    """Load a recipe's text, which raises what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="jprep-init-") as folder:
        path = Path(folder) / "recipe.toml"
        path.write_text(text, encoding="utf-8")
        load_recipe(path)


def refuse_existing(file: Path, *, force: bool) -> None:
    """Refuse a file that is no recipe by its name, is a directory, or exists without `force`.

    Raises:
        ConfigError: it is one of these.
    """
    if file.suffix != ".toml":
        raise ConfigError("a recipe's file ends in .toml", where=str(file), fix=f"e.g. {file.name or 'recipe'}.toml")
    if file.is_dir():
        raise ConfigError("expected a file, got a directory", where=str(file), fix="give another name")
    if not force and (file.exists() or file.is_symlink()):
        raise _exists(file)


def write_recipe(text: str, file: Path, *, force: bool = False) -> None:
    """Write a recipe; an existing file is replaced only if `force`.

    Raises:
        ConfigError: the file exists, also if it appeared just now.
        MachineError: it cannot be written.
    """
    try:
        if force:
            write_atomic(file, text.encode())
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise _exists(file) from error
    except OSError as error:
        raise write_error(error, file) from error


def _exists(file: Path) -> JprepError:
    return ConfigError("the file exists", where=str(file), fix="give another name, or --force to replace it")
