"""The recipe's `[train.push]`: uploads of a run's model to the Hugging Face Hub."""

from __future__ import annotations

from typing import Literal

import msgspec

from jprep.hub.names import check_name


class PushConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Uploads of the exported model to the Hugging Face Hub, in the background; a failed one never stops training.

    Attributes:
        to: the repository, `org/name`; "" uploads nothing. With folds, `-fold-0`, `-fold-1` … are added.
        every: number of checkpoints between uploads, besides the one at the end of the run; 0 for that one only.
        private: whether a new repository is private.
        dtype: the dtype of the uploaded weights.
    """

    to: str = ""
    every: int = 0
    private: bool = True
    dtype: Literal["fp32", "bf16", "fp16"] = "fp32"


def check_push(push: PushConfig) -> None:
    """Check the name of the repository, without any request.

    Raises:
        ConfigError: it cannot be the name of a repository.
    """
    if push.to:
        check_name(push.to, "train.push.to")
