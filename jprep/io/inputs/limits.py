"""Limits for hostile and damaged input."""

from __future__ import annotations

from jprep.errors import InputError, Setting, TruncatedError

MIB = 1 << 20

UNCHECKED_BYTES = 64 * MIB
"""Size that any input may expand to before its ratio is checked."""

MAX_RATIO = 250.0
"""Maximum ratio of decompressed to compressed bytes. Japanese text has 5 to 12, page histories about 100."""

DOWNLOAD_AGAIN = "copy or download it again; if a recipe downloads it, delete it and run `jprep corpus fetch RECIPE`"
"""The fix for damaged input files: the user's own, or those of a recipe, which `fetch` does not replace."""


class BombGuard:
    """Checks the expansion of a compressed input.

    Args:
        name: the file's path or URL, for the error.
        max_ratio: maximum ratio of decompressed to compressed bytes.
    """

    def __init__(self, name: str, max_ratio: float = MAX_RATIO) -> None:
        self._name, self._max_ratio = name, max_ratio

    def check(self, consumed: int, produced: int) -> None:
        """Check the totals so far, in bytes.

        Raises:
            InputError: the input expands like a decompression bomb.
        """
        if produced > UNCHECKED_BYTES and produced > self._max_ratio * consumed:
            raise InputError(
                f"the compressed data expands more than {self._max_ratio:g}:1, as a decompression bomb does",
                where=f"{self._name}, compressed byte {consumed} ({produced} bytes out)",
                fix="if you trust the file, raise the reader's `max_ratio` or decompress it first",
                setting=Setting("max_ratio"),
            )


def truncated_error(name: str, offset: int) -> TruncatedError:
    """Return the error for truncated compressed data; `offset` counts compressed bytes."""
    return TruncatedError(
        "the compressed data is truncated", where=f"{name}, compressed byte {offset}", fix=DOWNLOAD_AGAIN
    )


def corrupt_error(name: str, offset: int, detail: object) -> InputError:
    """Return the error for corrupt compressed data; `offset` counts compressed bytes."""
    return InputError(
        f"the compressed data is corrupt ({detail})", where=f"{name}, compressed byte {offset}", fix=DOWNLOAD_AGAIN
    )
