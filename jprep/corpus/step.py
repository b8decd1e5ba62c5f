"""Base classes of the corpus steps: readers, normalizers, splitters, signals, filters and segmenters.

A step is a class with a typed `Config`, an integer `version` and one method. A complete normalizer plugin (its hook
returns the class, see `jprep.plugins.hookspecs`):

    class Shout(Normalizer):
        "Double full-width exclamation marks."

        name = "shout"
        version = 1

        class Config(StepConfig, frozen=True):
            mark: str = "！"

        def apply(self, text: str) -> str:
            return text.replace(self.config.mark, self.config.mark * 2)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from jprep.corpus.document import Document, Reject, Tally, Verdict
from jprep.io.inputs.limits import MAX_RATIO
from jprep.io.inputs.paths import short_names
from jprep.io.inputs.streams import is_plain
from jprep.plugins.files import PROVENANCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jprep.corpus.signals.batch import TextBatch

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""Type of an option: a fraction from 0 to 1."""

Count = Annotated[int, msgspec.Meta(ge=0)]
"""Type of an option: a non-negative count."""

Positive = Annotated[float, msgspec.Meta(gt=0)]
"""Type of an option: a positive size."""

Unit = Literal["document", "line"]
"""What is measured."""

Threshold = tuple[float | None, float | None]
"""The smallest and the largest value of a measure that a filter keeps; None means no limit."""


class StepConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a step in a recipe. Every field has a default; an unknown key is an error."""


class Step(ABC):
    """Base class of all steps.

    Attributes:
        name: the name used in recipes.
        version: increased whenever the output of the step can differ; part of the fingerprint.
        local: names of options that depend on the machine and do not change the output, such as paths and timeouts.
            They are left out of the fingerprint.
        source_file: `sha256:` and the hash of the user's file that defines the step; "" for a registered one.
        tally: counts of what the step did since the build last collected them. The build prefixes the names with the
            kind and name of the step.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    local: ClassVar[frozenset[str]] = frozenset()
    source_file: ClassVar[str] = ""

    class Config(StepConfig, frozen=True):
        """No options."""

    def __init__(self, config: Any = None) -> None:
        self.config: Any = self.Config() if config is None else config
        self.tally: Tally = Tally()

    def provenance(self) -> dict[str, str]:
        """Return what the output depends on: versions of libraries and programs, hashes of dictionaries and models."""
        return {}

    def close(self) -> None:  # noqa: B027 - most steps have nothing to release
        """Release processes and files. The step is not used afterwards."""


def provenance_of(step: Step) -> dict[str, str]:
    """Return a step's provenance, with the hash and the class of the user's file that defines it."""
    if not step.source_file:
        return step.provenance()
    return step.provenance() | {PROVENANCE: step.source_file, "class": type(step).__name__}


def describe_step(step: Step) -> dict[str, Any]:
    """Return a step as it is stored in fingerprints and manifests: name, version, config, provenance.

    A filter is stored with the signals whose values it compares.
    """
    config = msgspec.to_builtins(step.config)
    described = {
        "name": step.name,
        "version": step.version,
        "config": {key: value for key, value in config.items() if key not in step.local},
        "provenance": provenance_of(step),
    }
    signals = step.signals() if isinstance(step, Filter) else ()
    return described | ({"signals": [describe_step(signal) for signal in signals]} if signals else {})


class Shard(msgspec.Struct, frozen=True):
    """A part of one input file, read by one task.

    Attributes:
        path: path or URL of the input, or "-" for standard input.
        index: number of the shard in its file, from 0.
        start: where the shard begins, in a unit of the reader (bytes; bits for bzip2 blocks).
        end: where the shard ends, or -1 for the end of the file. A record belongs to the shard in which it begins.
        weight: size in compressed bytes, for progress.
        data: the bytes of the shard, if the input cannot be read from the middle (a pipe, gzip, xz, zstd). The build
            caches them: tasks are sent without them.
        hints: what the reader found at the beginning of the file and needs for each shard. The build adds `name`: a
            name of the file that is unique among the inputs.
    """

    path: str
    index: int
    start: int = 0
    end: int = -1
    weight: int = 0
    data: bytes | None = None
    hints: dict[str, str] = {}

    def id_prefix(self, source: str) -> str:
        """Return `SOURCE:FILE`, a prefix for ids that are unique in all inputs if the rest is unique in the file."""
        return f"{source}:{self.hints.get('name') or short_names([self.path])[self.path]}"


class RecordScan(msgspec.Struct, frozen=True):
    """How `Reader.shards` cuts an input, where it cuts at separators only.

    Each shard ends at the first record that begins `shard_bytes` or more after the beginning of the shard.

    Attributes:
        separator: what separates records, a key of `jprep.corpus.readers.chunking.SEPARATORS`.
        shard_bytes: least size of a shard in bytes.
        limit: maximum size of a record in bytes.
        hints: the hints of all shards.
        max_ratio: maximum ratio of decompressed to compressed bytes.
    """

    separator: str
    shard_bytes: int
    limit: int
    hints: dict[str, str] = {}
    max_ratio: float = MAX_RATIO


class Reader(Step):
    """Converts an input file to documents. Must delete U+001E and U+001F from the text and count them.

    Attributes:
        can_keep_text: whether the reader observes `as_is`.
        as_is: whether to keep all of the text but U+001E and U+001F; set by the build, see `Source.as_is`.
    """

    can_keep_text: ClassVar[bool] = False
    as_is: bool = False

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are positions in the input and therefore unique. Otherwise the build looks for repeated ids."""
        return False

    def check_input(self, path: str) -> None:
        """Refuse a local file that does not have the columns to read. Only its head is read, before anything is built.

        Raises:
            ConfigError: a column does not exist.
            InputError: the head is damaged or malformed.
        """

    @abstractmethod
    def shards(self, path: str) -> Iterator[Shard]:
        """Split one input into shards. The result depends on the input only, not on the machine."""

    def reads_through(self, path: str) -> bool:
        """Return whether `shards` reads an input, which is not a pipe, from its start to its end.

        Then it is called in a worker, and its result is kept for an interrupted build.
        """
        return not is_plain(path)

    def record_scan(self, path: str) -> RecordScan | None:
        """Return how `shards` cuts an input, if parts of it can be searched for records on their own."""
        return None

    @abstractmethod
    def read(self, shard: Shard, source: str) -> Iterator[Document | Reject]:
        """Yield the documents and rejects of one shard, in order.

        Args:
            shard: one of the shards returned by `shards`.
            source: name of the source in the recipe, for the ids and the field `source`.

        Raises:
            InputError: the input is damaged; the error names the file, the offset and a fix.
        """

    def read_with_originals(self, shard: Shard, source: str) -> Iterator[tuple[Document | Reject, str]]:
        """Yield what `read` yields, each item with its record as it stands in the input, decoded to text.

        A page's markup, a line of JSON, a row of a table: what a viewer shows beside the text. A reader without this
        method shows the text that it has read.
        """
        for item in self.read(shard, source):
            yield item, item.text if isinstance(item, Document) else item.excerpt


class Normalizer(Step):
    """Changes characters line by line. The result for a line must not depend on other lines."""

    @abstractmethod
    def apply(self, text: str) -> str:
        """Normalize a text of any number of lines. Count the changed characters in `tally`, by kind of change."""


class Splitter(Step):
    """Finds sentence boundaries."""

    @abstractmethod
    def mark(self, text: str) -> str:
        """Insert U+001E between the sentences of each paragraph. Nothing else may change."""

    def mark_all(self, texts: Sequence[str]) -> list[str]:
        """Return what `mark` returns for each text. A splitter may override it to mark many texts in one call."""
        return [self.mark(text) for text in texts]


class Signal(Step):
    """Measures documents: one number each for every column.

    A measure depends on one document only, not on the others of its batch.

    Attributes:
        per: what is measured; see `jprep.corpus.signals.per_line` for lines.
    """

    per: ClassVar[Unit] = "document"

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured, e.g. `("hiragana_share",)`; they depend on the config only."""

    @abstractmethod
    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch, each of shape [documents]; NaN where it does not apply."""

    @cached_property
    def key(self) -> str:
        """Identifies what is measured: signals of equal name, version, config and provenance have equal keys."""
        return msgspec.json.encode(describe_step(self), order="sorted").decode()


class Filter(Step):
    """Decides which documents and lines to keep, after normalizing and splitting."""

    @property
    def label(self) -> str:
        """The name under which rejects and dropped lines are counted."""
        return self.name

    def use_signals(self, signals: Sequence[Signal]) -> None:
        """Receive the signals that the corpus keeps, before the first document."""

    def signals(self) -> Sequence[Signal]:
        """Return the signals that `judge_all` compares with thresholds."""
        return ()

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return the verdict on each document of a batch: what `judge` returns, in fewer calls."""
        return [self.judge(doc) for doc in batch.docs]

    @abstractmethod
    def judge(self, doc: Document) -> Verdict:
        """Return whether to keep the document, drop it, or drop some of its lines."""

    def measure(self, doc: Document) -> Mapping[str, float]:
        """Return the numbers that `judge` compares with its thresholds, by name, for reports and viewers.

        A filter with thresholds drops a document exactly when one of its measures lies outside its threshold. A measure
        that does not apply to a document, such as a fraction of no characters, is left out.
        """
        return {}

    def measure_all(self, batch: TextBatch) -> Sequence[Mapping[str, float]]:
        """Return the measures of each document of a batch: what `measure` returns, in fewer calls."""
        return [self.measure(doc) for doc in batch.docs]

    def thresholds(self) -> Mapping[str, Threshold]:
        """Return the smallest and the largest value that is kept of each measure; None where there is no limit."""
        return {}


class Segmenter(Step):
    """Splits sentences into words.

    Attributes:
        marks: whether the segmenter splits at all; if False, `segment` is not called.
    """

    marks: ClassVar[bool] = True

    @abstractmethod
    def segment(self, texts: Sequence[str]) -> list[str]:
        """Insert U+001F between the words of each sentence. Deleting it must restore the sentence, spaces included.

        A sentence that the analyzer cannot process is returned unchanged and counted in `tally` as
        `unsegmented.<reason>`.
        """
