"""The questions of `jprep init`, on standard error; answers are checked, and asked for again if they are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import click

from jprep.cli.common.output import error, note
from jprep.errors import ConfigError, JprepError

T = TypeVar("T")


class Questions:
    """Ask for what options did not say.

    Args:
        asking: whether to ask; otherwise each question is answered by its default.
    """

    def __init__(self, asking: bool) -> None:
        self._asking = asking

    def choose(self, question: str, choices: Mapping[T, str], default: T) -> T:
        """Ask for one of some names or their numbers; the names have descriptions."""
        if not self._asking:
            return default
        names = {str(name): name for name in choices}
        for number, (name, about) in enumerate(choices.items(), 1):
            note(f"{'' if number > 1 else chr(10) + question + chr(10)}  {number}  {name:<12} {about}")
        return self._ask("Answer", str(default), lambda text: _one_of(text, names))

    def model(self, backend: str) -> str:
        """Ask for a preset that a backend trains."""
        from jprep.pipeline.starter.choices import BACKENDS, FAMILIES, family_of, models_for

        name = next(each for each in BACKENDS if each == backend)
        about = {model: _TASKS[FAMILIES[family_of(model)].task] for model in models_for(name)}
        return self.choose("Which model?", about, BACKENDS[name].model)

    def inputs(self, source: str) -> Sequence[str]:
        """Ask for the files of a source; () downloads them."""
        from jprep.pipeline.starter.corpus_tables import HUB_DATASET
        from jprep.pipeline.starter.inputs import hub_pattern

        if not self._asking:
            return ()
        if source == "text":
            note(
                "\nWhich files? Several are separated by spaces; '*' matches several, a directory stands for its files."
            )
            return self._ask("Files", "", _existing)
        if source == "hf":
            note("\nWhich dataset? ORG/NAME, or hf://datasets/ORG/NAME/PATH-*.parquet for some of its files.")
            return self._ask("Dataset", HUB_DATASET, lambda text: [hub_pattern(text)])
        return ()

    def name(self, default: str) -> str:
        """Ask for the recipe's name."""
        from jprep.io.safe_names import name_problem

        if not self._asking:
            return default

        def check(text: str) -> str:
            if problem := name_problem(text):
                raise ConfigError(problem)
            return text

        note("\nWhat is the recipe called? Its outputs are written to work/NAME.")
        return self._ask("Name", default, check)

    def _ask(self, label: str, default: str, convert: Callable[[str], T]) -> T:
        """Ask until an answer can be converted."""
        while True:
            text = click.prompt(label, default=default or None, err=True, type=str)
            try:
                return convert(text.strip())
            except JprepError as problem:
                error("  ".join(part for part in (problem.what, problem.where, problem.fix) if part))


_TASKS = {"clm": "writes text", "mlm": "reads text: predicts masked words", "rtd": "reads text: finds replaced words"}
"""What a model is good for, by the task that it is trained for."""


def _one_of(text: str, names: Mapping[str, T]) -> T:
    if text.isdecimal() and 1 <= int(text) <= len(names):
        return list(names.values())[int(text) - 1]
    if text in names:
        return names[text]
    raise ConfigError("give a name of the list, or its number")


def _existing(text: str) -> list[str]:
    import shlex

    from jprep.pipeline.starter.inputs import local_inputs

    try:
        paths = shlex.split(text)
    except ValueError as problem:
        raise ConfigError(f"cannot read this: {problem}") from problem
    if not paths:
        raise ConfigError("give at least one file")
    local_inputs(paths)
    return paths
