"""Limits against hostile and damaged input."""

from __future__ import annotations

from jprep.errors import InputError, TruncatedError

MIB = 1 << 20

UNCHECKED_BYTES = 64 * MIB
"""Output that any input may expand to, before its ratio is looked at."""

MAX_RATIO = 250.0
"""Decompressed bytes a compressed byte may stand for; Japanese text reaches 5 to 12, page histories about 100."""

DOWNLOAD_AGAIN = "download it again; `jprep corpus fetch` resumes and checks"
"""What to do about damaged files."""


class BombGuard:
    """Watches how far a compressed input expands.

    Args:
        name: the file's path or URI, for the error.
        max_ratio: decompressed bytes that one compressed byte may stand for.
    """

    def __init__(self, name: str, max_ratio: float = MAX_RATIO) -> None:
        self._name, self._max_ratio = name, max_ratio

    def check(self, consumed: int, produced: int) -> None:
        """Look at the totals so far, in bytes.

        Raises:
            InputError: the input expands like a decompression bomb.
        """
        if produced > UNCHECKED_BYTES and produced > self._max_ratio * consumed:
            raise InputError(
                f"the compressed data expands more than {self._max_ratio:g}:1, as a decompression bomb does",
                where=f"{self._name}, compressed byte {consumed} ({produced} bytes out)",
                fix="if you trust the file, raise the reader's `max_ratio` or decompress it first",
            )


def truncated_error(name: str, offset: int) -> TruncatedError:
    """The error for compressed data that ends too early; `offset` counts compressed bytes."""
    return TruncatedError(
        "the compressed data is cut short", where=f"{name}, compressed byte {offset}", fix=DOWNLOAD_AGAIN
    )


def corrupt_error(name: str, offset: int, detail: object) -> InputError:
    """The error for compressed data that is damaged; `offset` counts compressed bytes."""
    return InputError(
        f"the compressed data is corrupt ({detail})", where=f"{name}, compressed byte {offset}", fix=DOWNLOAD_AGAIN
    )
