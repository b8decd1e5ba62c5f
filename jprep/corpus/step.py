"""What every step of the corpus is: a class with a typed Config, a version and one method.

A whole plugin, for example (the class itself is named in the plugin's hook, see `jprep.plugins.hookspecs`):

    class Shout(Normalizer):
        "Full-width exclamation marks become two."

        name = "shout"
        version = 1

        class Config(StepConfig, frozen=True):
            mark: str = "！"

        def apply(self, text: str) -> str:
            return text.replace(self.config.mark, self.config.mark * 2)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from jprep.corpus.document import Document, Reject, Tally, Verdict

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
"""Types of options: a share of a whole, a number of things, a size."""


class StepConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A step's options as a recipe gives them; every field has a default, an unknown key is an error."""


class Step(ABC):
    """What all steps share.

    Attributes:
        name: the name that recipes use.
        version: raised whenever the step's output can differ; part of the fingerprint.
        local: options that say where and how the step runs on a machine, and not what comes out: no part of the
            fingerprint, so that a corpus is the same corpus on another machine.
        tally: counts of what the step did since the pipeline last took them; it prefixes them with the step's kind
            and name.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    local: ClassVar[frozenset[str]] = frozenset()

    class Config(StepConfig, frozen=True):
        """No options."""

    def __init__(self, config: Any = None) -> None:
        self.config: Any = self.Config() if config is None else config
        self.tally: Tally = Tally()

    def provenance(self) -> dict[str, str]:
        """Version of each library and program, hash of each dictionary, model and table, that the output depends on."""
        return {}

    def close(self) -> None:  # noqa: B027 - most steps hold nothing
        """Release processes and files; the step is not used afterwards."""


class Shard(msgspec.Struct, frozen=True):
    """A part of one input file that one task reads.

    Attributes:
        path: the input's path or URI, or "-".
        index: the shard's place in its file, from 0.
        start: where it begins, in the reader's own unit (bytes; bits for bzip2 blocks).
        end: where it ends; -1 is the end of the file. A record belongs to the shard in which it begins.
        weight: compressed bytes, for progress.
        data: the shard's bytes themselves, where the input cannot be read from the middle (a pipe, gzip, xz, zstd).
        hints: what the reader learnt from the file's head and its shards need to know.
    """

    path: str
    index: int
    start: int = 0
    end: int = -1
    weight: int = 0
    data: bytes | None = None
    hints: dict[str, str] = {}


class Reader(Step):
    """Turns an input into documents. Deletes U+001E and U+001F from its input, and counts them."""

    @property
    def ids_are_places(self) -> bool:
        """Whether every id names a place in the input, and so is unique; the ids of other readers are checked."""
        return False

    @abstractmethod
    def shards(self, path: str) -> Iterator[Shard]:
        """Cut one input into shards: the same ones whenever and wherever it is called."""

    @abstractmethod
    def read(self, shard: Shard, source: str) -> Iterator[Document | Reject]:
        """Read one shard of the source of that name, in order.

        Raises:
            InputError: the input is damaged, with file, offset and fix.
        """


class Normalizer(Step):
    """Changes characters, line by line: what it does to a line does not depend on the lines around it."""

    @abstractmethod
    def apply(self, text: str) -> str:
        """Normalise a text of any number of lines; count in `tally` how many characters changed, per kind of change."""


class Splitter(Step):
    """Finds the ends of sentences."""

    @abstractmethod
    def mark(self, text: str) -> str:
        """Put U+001E between the sentences of each paragraph; nothing else changes."""


class Filter(Step):
    """Judges documents, after normalising and splitting."""

    @abstractmethod
    def judge(self, doc: Document) -> Verdict:
        """Keep the document, drop it, or drop some of its lines."""


class Segmenter(Step):
    """Cuts sentences into words.

    Attributes:
        marks: whether it ever does; one that leaves sentences whole is not asked.
    """

    marks: ClassVar[bool] = True

    @abstractmethod
    def segment(self, texts: Sequence[str]) -> list[str]:
        """Put U+001F between the words of each sentence; deleting it gives each one back, spaces included.

        A sentence that the analyser cannot take comes back as it was, counted in `tally` as `unsegmented.<reason>`.
        """
