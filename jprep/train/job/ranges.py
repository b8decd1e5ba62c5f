"""Ranges of the numbers in `[train]`."""

from __future__ import annotations

import math

from jprep.errors import ConfigError
from jprep.train.job.config import TrainConfig

_POSITIVE, _NOT_NEGATIVE, _FRACTION = "a number above 0", "0 or more", "a number from 0 to below 1"


def check_train_ranges(train: TrainConfig) -> None:
    """Check that all numbers of a `[train]` section are in their ranges.

    Raises:
        ConfigError: one is not; the message names the key.
    """
    optimizer, checkpoint, validation = train.optimizer, train.checkpoint, train.validation
    for key, is_valid, allowed in (
        ("epochs", 0 <= train.epochs < math.inf, _NOT_NEGATIVE),
        ("model.pad_vocab", 0 <= train.model.pad_vocab <= 1 << 16, "0, or a multiple such as 128"),
        ("seed", 0 <= train.seed < 1 << 63, "a whole number from 0 to below 2**63"),
        ("silent_minutes", train.silent_minutes > 0, _POSITIVE),
        ("optimizer.lr", 0 < optimizer.lr < math.inf, _POSITIVE),
        ("optimizer.momentum", 0 <= optimizer.momentum < 1, _FRACTION),
        ("optimizer.beta1", 0 <= optimizer.beta1 < 1, _FRACTION),
        ("optimizer.beta2", 0 <= optimizer.beta2 < 1, _FRACTION),
        ("optimizer.eps", 0 < optimizer.eps < math.inf, _POSITIVE),
        ("optimizer.weight_decay", 0 <= optimizer.weight_decay < math.inf, _NOT_NEGATIVE),
        ("optimizer.clip", 0 <= optimizer.clip < math.inf, _NOT_NEGATIVE),
        ("checkpoint.every_steps", checkpoint.every_steps >= 0, _NOT_NEGATIVE),
        ("checkpoint.every_epochs", 0 <= checkpoint.every_epochs < math.inf, _NOT_NEGATIVE),
        ("checkpoint.every_minutes", checkpoint.every_minutes >= 0, _NOT_NEGATIVE),
        ("checkpoint.keep_last", checkpoint.keep_last >= 1, "1 or more: a run resumes from the newest one"),
        ("checkpoint.keep_best", checkpoint.keep_best >= 0, _NOT_NEGATIVE),
        ("validation.every_steps", validation.every_steps >= 0, _NOT_NEGATIVE),
        ("push.every", train.push.every >= 0, _NOT_NEGATIVE),
        ("validation.every_epochs", 0 <= validation.every_epochs < math.inf, _NOT_NEGATIVE),
        ("validation.patience", validation.patience >= 0, _NOT_NEGATIVE),
        ("validation.min_delta", 0 <= validation.min_delta < math.inf, _NOT_NEGATIVE),
        ("validation.batches", validation.batches >= 0, _NOT_NEGATIVE),
    ):
        if not is_valid:
            raise ConfigError(f"train.{key} is out of its range", where=f"train.{key}", fix=f"give {allowed}")
    if optimizer.momentum != type(optimizer)().momentum and optimizer.kind != "muon":
        what, fix = "momentum is Muon's, and the optimizer is AdamW", 'remove momentum, or set kind = "muon"'
        raise ConfigError(what, where="train.optimizer.momentum", fix=f"{fix}; beta1 is AdamW's")
