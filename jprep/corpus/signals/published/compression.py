"""How much shorter a text becomes by compression. Costly: each document is compressed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
import pyarrow as pa

from jprep.corpus.step import Signal, StepConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.signals.batch import TextBatch

_LZ4_LIMIT = 1 << 20


class DeflateSignal(Signal):
    """The size of the text's UTF-8 after deflate, in zlib's format, as a fraction of it.

    Column: `deflate_ratio`; not for an empty text.
    """

    name = "deflate"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the signal `deflate`.

        Attributes:
            level: level of compression.
        """

        level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 9

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of what is measured."""
        return ("deflate_ratio",)

    def provenance(self) -> dict[str, str]:
        """Return the version of zlib: others can compress differently."""
        return {"zlib": zlib.ZLIB_RUNTIME_VERSION}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return the column for all documents of a batch."""
        return {"deflate_ratio": np.array([self._ratio(text) for text in batch.texts], np.float64)}

    def _ratio(self, text: str) -> float:
        data = text.encode("utf-8", "surrogatepass")
        return len(zlib.compress(data, self.config.level)) / len(data) if data else float("nan")


class Lz4Signal(Signal):
    """The size of the text's UTF-8 after LZ4, as a fraction of it: without line feeds, and of at most 1 MiB.

    Column: `lz4_ratio`; not for an empty text. Arrow's LZ4 gives the sizes of lz4-java's `fastCompressor`; the `block`
    of Python's lz4 does not, since it compresses by the streaming interface, with another hash table.
    """

    name = "lz4"
    version = 2

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of what is measured."""
        return ("lz4_ratio",)

    def provenance(self) -> dict[str, str]:
        """Return the version of Arrow, which has its own LZ4."""
        return {"arrow": pa.__version__}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return the column for all documents of a batch."""
        codec = pa.Codec("lz4_raw")
        return {"lz4_ratio": np.array([_lz4_ratio(text, codec) for text in batch.texts], np.float64)}


def _lz4_ratio(text: str, codec: pa.Codec) -> float:
    data = text.replace("\n", "").encode("utf-8", "surrogatepass")
    if len(data) > _LZ4_LIMIT:  # whole characters only
        data = data[:_LZ4_LIMIT].decode("utf-8", "ignore").encode()
    return len(codec.compress(data)) / len(data) if data else float("nan")
