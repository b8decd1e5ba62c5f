"""The tokenizer of the model that a recipe starts from, which is the recipe's own unless it names or trains another."""

from __future__ import annotations

from pathlib import Path

from jprep.pipeline.output_paths import output_paths
from jprep.pipeline.recipe import Recipe
from jprep.tokenizer.card import CARD_JSON
from jprep.tokenizer.external.files import is_external, resolve_tokenizer
from jprep.train.pretrained.location import missing_init, refuse_run


def tokenizer_of_init(recipe: Recipe, work: Path, init: str = "") -> Path | None:
    """Return the tokenizer in the folder of `train.model.init`, if the recipe uses it; else None.

    A recipe uses it if it has no section [tokenizer], keeps the vocabulary of the given weights, and has no finished
    tokenizer of its own from an earlier command. A name on the Hub is downloaded, without its weights.

    Args:
        recipe: the recipe.
        work: the directory of all recipes' outputs.
        init: given weights that a smaller scale leaves out, see `jprep.pipeline.tiny_scale.kept_init`.

    Raises:
        ConfigError: there is no such folder or name on the Hub, it is a run, or the token is missing or without access.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    model = recipe.train.model if recipe.train else None
    init = (model and model.init) or init
    if init:
        refuse_run(Path(init).expanduser())
    if recipe.tokenizer or not model or not init or model.vocabulary != "same":
        return None
    if (output_paths(work, recipe.name).tokenizer / CARD_JSON).exists():
        return None
    return tokenizer_beside(init)


def tokenizer_beside(init: str) -> Path | None:
    """Return the tokenizer in the folder of given weights; None if it has none. See `tokenizer_of_init`."""
    folder = resolve_tokenizer(init)
    if not folder.exists():
        raise missing_init(init)
    return folder if is_external(folder) or (folder / CARD_JSON).is_file() else None


def init_tokenizer_note(folder: Path) -> str:
    """Return a message that the tokenizer of the given weights is used."""
    return f"using the tokenizer of train.model.init, {folder}; --tokenizer or a section [tokenizer] chooses another"
