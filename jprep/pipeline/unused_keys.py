"""Keys of a recipe that have no effect beside the others: a warning names them, so that nobody relies on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from jprep.corpus.config import CorpusConfig
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.job.config import TrainConfig


def find_unused_keys(corpus: CorpusConfig, tokenizer: TokenizerConfig, train: TrainConfig | None) -> Iterator[str]:
    """Yield a sentence for each key that has no effect and is not at its default: which, why, and what to do.

    They are not refused: recipes of earlier versions may have them, and `--set` may make a recipe's own key idle.

    Args:
        corpus: the section `[corpus]`.
        tokenizer: `[tokenizer]`.
        train: `[train]`; None where the recipe has none.
    """
    sections: list[tuple[str, msgspec.Struct, Mapping[str, str]]] = [
        ("corpus.dedup", corpus.dedup, {} if corpus.dedup.lines else {"line_min_chars": "dedup.lines is false"}),
        ("tokenizer", tokenizer, _of_tokenizer(tokenizer)),
    ]
    if train:
        sections += [
            ("train", train, _of_train(train)),
            ("train.labelled", train.labelled, _of_labelled(train)),
            ("train.schedule", train.schedule, _of_schedule(train)),
            ("train.checkpoint", train.checkpoint, _of_checkpoint(train)),
            ("train.validation", train.validation, _of_validation(train)),
        ]
    for name, section, reasons in sections:
        for key, reason in reasons.items():
            default = getattr(type(section)(), key)
            if getattr(section, key) != default:
                yield f"{name}.{key} has no effect: {reason}; {_fix(name, key, default)}"


def _fix(name: str, key: str, default: object) -> str:
    if isinstance(default, str | int | float | bool) and default != "":
        return f"leave it out, or --set {name}.{key}={msgspec.json.encode(default).decode()}"
    return "leave it out"


def _of_tokenizer(config: TokenizerConfig) -> dict[str, str]:
    found = {}
    if config.model != "unigram":
        found["threads"] = f"they are the Unigram trainer's, and the model is {config.model}"
    if config.model == "unigram" or config.boundaries != "train":
        found["crossing"] = f'it is for boundaries = "train", and not for the model unigram (here: {config.boundaries})'
    return found


def _of_train(train: TrainConfig) -> dict[str, str]:
    if train.data:
        reason = "labelled rows have none of this"
        return {"length": "a labelled row has labelled.length", "packing": reason, "masking": reason}
    reason = f"the task {train.task} reads the dataset, and no labelled rows"
    found = {"validation_data": reason, "labelled": reason, "fold": reason}
    return found if train.task == "mlm" else found | {"masking": f"it is for the task mlm, and this is {train.task}"}


def _of_labelled(train: TrainConfig) -> dict[str, str]:
    return {} if train.labelled.folds else {"fold": "labelled.folds is 0"}


def _of_validation(train: TrainConfig) -> dict[str, str]:
    return {} if train.validation.every_steps else {"batches": "validation.every_steps is 0, so nothing is measured"}


def _of_schedule(train: TrainConfig) -> dict[str, str]:
    reason = "a constant learning rate does not fall"
    return dict.fromkeys(("floor", "steps"), reason) if train.schedule.kind == "constant" else {}


def _of_checkpoint(train: TrainConfig) -> dict[str, str]:
    reason = "it goes by the validation loss, and validation.every_steps is 0"
    return {} if train.validation.every_steps else {"keep_best": reason}
