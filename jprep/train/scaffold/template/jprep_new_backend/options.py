"""The options in `[train.backend.new-backend]`."""

from __future__ import annotations

import msgspec

SECTION = "train.backend.new-backend"
"""The section of the options, for error messages."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[train.backend.new-backend]`.

    Attributes:
        micro_batch: rows that go through the model at a time; gradients are accumulated over a batch. 0 uses as many as
            fit into memory by the estimate.
        threads: threads of numpy; 0 uses all cores.
    """

    micro_batch: int = 0
    threads: int = 0
