"""The command that usually follows one that has made a corpus, a tokenizer or a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jprep.cli.common.shell_command import shell_command
from jprep.corpus.api import Corpus
from jprep.dataset.manifest import DatasetConfig
from jprep.pipeline.output_paths import WORK, MadeStep, OutputPaths, output_paths
from jprep.tokenizer.config import TokenizerConfig

_VALIDATION_DOCUMENTS, _MOST_VALIDATION = 20, 0.2
"""How many documents a small dataset keeps for validation, about, and their share at most."""
_LEAST_IDS, _CHARACTERS_PER_ID = 1500, 8
"""How many ids a small corpus carries, at least and about."""


class CommandContext(NamedTuple):
    """How a command was called.

    Attributes:
        recipe: the recipe's file; None where there is none.
        name: the recipe's name, or what stands for it.
        overrides: `--set` settings.
        work: `--work`.
    """

    recipe: Path | None
    name: str
    overrides: Sequence[str]
    work: Path

    @property
    def usual(self) -> OutputPaths:
        """Where outputs are without `-o`."""
        return output_paths(self.work, self.name)

    def settings(self) -> list[object]:
        """Return the options that a later step of the same recipe needs to be of the same recipe."""
        settings = [part for each in self.overrides for part in ("--set", each)]
        return [*settings, *([] if self.work == WORK else ["--work", self.work])]

    def place(self, kind: MadeStep, folder: Path) -> list[object]:
        """Return the option that names an output of an earlier step, where it is not in its usual place."""
        return [] if folder == getattr(self.usual, kind) else [f"--{kind}", folder]

    def output(self, kind: MadeStep, beside: Path, earlier: MadeStep) -> list[object]:
        """Return `-o` for a step: beside an earlier step's output, where that is not in its usual place."""
        return [] if beside == getattr(self.usual, earlier) else ["-o", beside.parent / kind]


def after_corpus(given: CommandContext, corpus: Path, totals: Mapping[str, int], section: Mapping[str, Any]) -> str:
    """Return what trains a tokenizer on a corpus.

    Args:
        given: how the corpus was built.
        corpus: its folder.
        totals: what it holds, which may be too little for the defaults.
        section: the recipe's `[tokenizer]`.
    """
    words = totals.get("words", 0) or "boundaries" in section
    ids = max(_LEAST_IDS, totals["characters"] // _CHARACTERS_PER_ID // 100 * 100)
    fitting: list[object] = [] if words else ["--boundaries", "none"]
    fitting += ["--vocab-size", ids] if ids < TokenizerConfig().vocab_size and "vocab_size" not in section else []
    output = given.output("tokenizer", corpus, "corpus")
    if given.recipe is None:
        return shell_command("tokenizer", "train", corpus, *fitting, *output)
    own = [given.recipe, *given.settings(), *given.place("corpus", corpus)]
    return shell_command("tokenizer", "train", *own, *fitting, *output)


def after_tokenizer(given: CommandContext, corpus: Corpus, tokenizer: Path, section: Mapping[str, Any]) -> str:
    """Return what packs a corpus with its tokenizer.

    Args:
        given: how the tokenizer was trained.
        corpus: the corpus; of a small one the default share for validation may hold no document.
        tokenizer: the tokenizer's folder.
        section: the recipe's `[dataset]`.
    """
    share = min(_MOST_VALIDATION, round(_VALIDATION_DOCUMENTS / max(1, len(corpus)), 3))
    larger = share > DatasetConfig().validation and "validation" not in section
    output: list[object] = ["--set", f"dataset.validation={share}"] if larger else []
    output += given.output("dataset", tokenizer, "tokenizer")
    if given.recipe is None:
        return shell_command("dataset", "pack", corpus.folder, "--tokenizer", tokenizer, *output)
    places = [*given.place("corpus", corpus.folder), *given.place("tokenizer", tokenizer)]
    return shell_command("dataset", "pack", given.recipe, *given.settings(), *places, *output)


def after_dataset(given: CommandContext, tokenizer: Path, dataset: Path, *, trains: bool) -> str:
    """Return what plans the training of a recipe's model; without one, what shows where a token came from."""
    if given.recipe is None or not trains:
        return shell_command("dataset", "inspect", dataset, "--token", 0)
    places = [*given.place("tokenizer", tokenizer), *given.place("dataset", dataset)]
    return shell_command("train", given.recipe, *given.settings(), *places, "--dry-run")
