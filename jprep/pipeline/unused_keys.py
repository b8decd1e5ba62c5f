"""Find keys of a recipe that have no effect in combination with the others, for warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from jprep.corpus.config import CorpusConfig
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.job.config import TrainConfig


def find_unused_keys(corpus: CorpusConfig, tokenizer: TokenizerConfig, train: TrainConfig | None) -> Iterator[str]:
    """Yield a sentence for each key that has no effect and does not have its default: which, why, and what to do.

    Such keys are not refused: earlier recipes may have them, and `--set` can make another key ineffective.

    Args:
        corpus: the section `[corpus]`.
        tokenizer: `[tokenizer]`.
        train: `[train]`; None where the recipe has none.
    """
    sections: list[tuple[str, msgspec.Struct, Mapping[str, str]]] = [
        ("corpus.dedup", corpus.dedup, {} if corpus.dedup.lines else {"line_min_chars": "dedup.lines is false"}),
        ("tokenizer", tokenizer, _unused_in_tokenizer(tokenizer)),
    ]
    if train:
        sections += [
            ("train", train, _unused_in_train(train)),
            ("train.labelled", train.labelled, _unused_in_labelled(train)),
            ("train.schedule", train.schedule, _unused_in_schedule(train)),
            ("train.checkpoint", train.checkpoint, _unused_in_checkpoint(train)),
            ("train.validation", train.validation, _unused_in_validation(train)),
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


def _unused_in_tokenizer(config: TokenizerConfig) -> dict[str, str]:
    found: dict[str, str] = {}
    if config.model != "unigram":
        found["threads"] = f"it is for the model unigram, and the model is {config.model}"
    if config.model == "words":
        found |= dict.fromkeys(("alphabet", "max_piece_chars"), "the model words has no pieces of words")
    if config.boundaries != "bert":
        found["handle_chinese_chars"] = f'it is for boundaries = "bert" (here: {config.boundaries})'
    if config.boundaries != "super":
        found["sequences"] = f'it is for boundaries = "super" (here: {config.boundaries})'
    if config.model == "unigram" or config.boundaries != "train":
        found["crossing"] = f'it is for boundaries = "train" and models other than unigram (here: {config.boundaries})'
    return found


def _unused_in_train(train: TrainConfig) -> dict[str, str]:
    if train.task == "sft":
        reason = "conversations do not use it"
        return dict.fromkeys(("masking", "rtd", "labelled", "fold"), reason)
    if train.data:
        found = dict.fromkeys(("packing", "masking", "rtd", "sft"), "labelled rows do not use it")
        return {"length": "labelled rows use labelled.length", **found}
    reason = f"the task {train.task} reads the dataset, not labelled rows"
    found = dict.fromkeys(("validation_data", "labelled", "sft", "fold"), reason)
    for key, tasks in (("masking", ("mlm", "rtd")), ("rtd", ("rtd",))):
        if train.task not in tasks:
            found[key] = f"it is for the task {' or '.join(tasks)}, and the task is {train.task}"
    return found


def _unused_in_labelled(train: TrainConfig) -> dict[str, str]:
    found = {} if train.labelled.folds else {"fold": "labelled.folds is 0"}
    binned = train.labelled.stratify in ("quantiles", "width")
    return found if binned else found | {"bins": "labelled.stratify makes no bins"}


def _unused_in_validation(train: TrainConfig) -> dict[str, str]:
    reason = "validation.every_steps and every_epochs are 0, so validation never runs"
    return {} if train.validation.enabled else {"batches": reason}


def _unused_in_schedule(train: TrainConfig) -> dict[str, str]:
    schedule, found = train.schedule, dict[str, str]()
    if schedule.kind == "constant":
        found |= dict.fromkeys(("floor", "total"), "a constant learning rate does not decay")
    if schedule.kind == "inverse_sqrt":
        found["total"] = "this rate has no last step"
    if schedule.kind != "wsd":
        found |= dict.fromkeys(("decay_steps", "decay_shape"), f'it is for kind = "wsd" (here: {schedule.kind})')
    if not schedule.restarts:
        found["restart_warmup"] = "the schedule has no restarts"
    return found


def _unused_in_checkpoint(train: TrainConfig) -> dict[str, str]:
    reason = "it needs the validation loss, and validation.every_steps is 0"
    return {} if train.validation.enabled else dict.fromkeys(("keep_best", "best", "best_is"), reason)
