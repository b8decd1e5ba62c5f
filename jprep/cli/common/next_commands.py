"""The command that usually follows `jprep corpus build`, `tokenizer train` or `dataset pack`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jprep.cli.common.shell_command import shell_command
from jprep.corpus.api import Corpus
from jprep.dataset.manifest import DatasetConfig
from jprep.pipeline.output_paths import WORK, MadeStep, OutputPaths, output_paths
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.suggested_size import suggest_vocab_size_for

_VALIDATION_DOCUMENTS, _MAX_VALIDATION = 20, 0.2
"""About how many documents of a small dataset are suggested for validation, and their maximum share."""


class CommandContext(NamedTuple):
    """How a command was called.

    Attributes:
        recipe: the recipe's file; None where there is none.
        name: the recipe's name, or that of the output.
        overrides: `--set` settings.
        work: `--work`.
    """

    recipe: Path | None
    name: str
    overrides: Sequence[str]
    work: Path

    @property
    def defaults(self) -> OutputPaths:
        """The output directories without `-o`."""
        return output_paths(self.work, self.name)

    def settings(self) -> list[object]:
        """Return the options that a later step needs to use the same recipe."""
        settings = [part for each in self.overrides for part in ("--set", each)]
        return [*settings, *([] if self.work == WORK else ["--work", self.work])]

    def input(self, step: MadeStep, folder: Path) -> list[object]:
        """Return the option that names an earlier step's output, unless that is the default one."""
        return [] if folder == getattr(self.defaults, step) else [f"--{step}", folder]

    def output(self, step: MadeStep, sibling: Path, earlier: MadeStep) -> list[object]:
        """Return `-o` for a step, next to the output of the earlier step, unless that is the default one."""
        return [] if sibling == getattr(self.defaults, earlier) else ["-o", sibling.parent / step]


def after_corpus(
    context: CommandContext, corpus: Path, totals: Mapping[str, int], section: TokenizerConfig | None
) -> str:
    """Return the command that trains a tokenizer on a corpus.

    Args:
        context: how the corpus was built.
        corpus: its directory.
        totals: its totals; where they are too small for the defaults, the command has smaller values.
        section: the recipe's `[tokenizer]`.
    """
    default = TokenizerConfig()
    config = section or default
    given = config.vocab_size != default.vocab_size
    ids = 0 if given else suggest_vocab_size_for(Corpus(corpus), totals["characters"], config)
    without_words = not totals.get("words", 0) and config.boundaries == default.boundaries
    fitting: list[object] = ["--boundaries", "none"] if without_words else []
    fitting += ["--vocab-size", ids] if 0 < ids < default.vocab_size else []
    output = context.output("tokenizer", corpus, "corpus")
    if context.recipe is None:
        return shell_command("tokenizer", "train", corpus, *fitting, *output)
    own = [context.recipe, *context.settings(), *context.input("corpus", corpus)]
    return shell_command("tokenizer", "train", *own, *fitting, *output)


def after_tokenizer(context: CommandContext, corpus: Corpus, tokenizer: Path, section: DatasetConfig | None) -> str:
    """Return the command that packs a corpus with its tokenizer.

    Args:
        context: how the tokenizer was trained.
        corpus: the corpus; where it is so small that the default share for validation may select no document, the
            command has a larger one.
        tokenizer: the tokenizer's directory.
        section: the recipe's `[dataset]`.
    """
    default = DatasetConfig().validation
    share = min(_MAX_VALIDATION, round(_VALIDATION_DOCUMENTS / max(1, len(corpus)), 3))
    larger = not isinstance(default, list) and share > default and (section is None or section.validation == default)
    output: list[object] = ["--set", f"dataset.validation={share}"] if larger else []
    output += context.output("dataset", tokenizer, "tokenizer")
    if context.recipe is None:
        return shell_command("dataset", "pack", corpus.folder, "--tokenizer", tokenizer, *output)
    inputs = [*context.input("corpus", corpus.folder), *context.input("tokenizer", tokenizer)]
    return shell_command("dataset", "pack", context.recipe, *context.settings(), *inputs, *output)


def after_dataset(context: CommandContext, tokenizer: Path, dataset: Path, *, trains: bool) -> str:
    """Return the command that plans the training of a recipe; without one, the command that inspects a token."""
    if context.recipe is None or not trains:
        return shell_command("dataset", "inspect", dataset, "--token", 0)
    inputs = [*context.input("tokenizer", tokenizer), *context.input("dataset", dataset)]
    return shell_command("train", context.recipe, *context.settings(), *inputs, "--dry-run")
