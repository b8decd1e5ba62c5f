"""The first stage of counting: count groups of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jprep.batching import batches_of
from jprep.corpus.api import Corpus
from jprep.corpus.shard_reader import CorpusShard, read_batches, shard_of
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.io.atomic import file_sha256, write_atomic
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.sample import AIM, ParagraphSample
from jprep.tokenizer.counting.sorted_runs import SpilledRuns, commit_run
from jprep.tokenizer.counting.unit_counter import UnitCounter
from jprep.tokenizer.counting.units import VERSION, pieces
from jprep.tokenizer.counting.unsegmented import count_pieces
from jprep.tokenizer.word_spaces import separate_words_arrow

RUNS, SAMPLES, KEYS = "runs", "samples", "keys"
"""Folders of files: sorted runs, parts of the sample, and units that divide a run into parts of about one size."""

TASKS = 150
"""Most tasks that count a corpus, about."""

MIN_TASK_BYTES = 4 << 20
"""Bytes of text of a task; a small corpus has fewer tasks."""


class CountedRun(NamedTuple):
    """What a task has counted.

    Attributes:
        outputs: the run and the file of dividing units.
        units: occurrences of all units.
    """

    outputs: list[Output]
    units: int


def count_into_run(
    root: Path,
    stage: str,
    task: str,
    config: TokenizerConfig | None,
    where: str,
    count: Callable[[UnitCounter], None],
) -> CountedRun:
    """Count units into a sorted run, and write the units that divide it.

    Args:
        root: the output directory.
        stage: the stage's name.
        task: the task's id.
        config: defines units; None if what is counted are units.
        where: location for error messages.
        count: counts what the task has.
    """
    run, divides = (f"{stage}/{kind}/{task}" for kind in (RUNS, KEYS))
    keys = list[bytes]()
    with SpilledRuns(root / stage / RUNS, task) as spill:
        tally = UnitCounter(config, spill, where)
        count(tally)
        rows = commit_run(root / run, tally.blocks(), keys)
    write_atomic(root / divides, b"\n".join(keys))
    outputs = [Output(run, rows, file_sha256(root / run)), Output(divides, len(keys), file_sha256(root / divides))]
    return CountedRun(outputs, tally.units)


class CountUnitsStage(Stage):
    """Count the units of a corpus: each task counts consecutive shards into one sorted run.

    Args:
        corpus: the corpus.
        config: defines units.
        held_out: names of sources to leave out.
        aim: approximate bytes of the sample; 0 for `sample.AIM`.
    """

    name = "counting"
    runs_folder = f"{name}/{RUNS}"

    def __init__(self, corpus: Corpus, config: TokenizerConfig, held_out: Sequence[str] = (), aim: int = 0) -> None:
        self._held_out = list(held_out)
        self._folder, self._config = corpus.folder, config
        self._made_from = corpus.manifest.fingerprint
        self._has_words = bool(corpus.manifest.totals.get("words"))
        column = "words" if self._has_words else "text"
        self._shards = [shard_of(corpus.folder, file, column) for file in corpus.manifest.parts]
        self._bytes = sum(shard.size for shard in self._shards)
        self._stride = max(1, self._bytes // (aim or AIM))

    def fields(self) -> dict[str, Any]:
        """Return the corpus's fingerprint and what defines a unit."""
        config = self._config
        kind = {"pattern": "gpt2" if config.model == "byte-bpe" else "scripts", "regex": version("regex")}
        policies = {"spaces": config.spaces, "digits": config.digits, "newline": config.newline}
        boundaries = kind if config.boundaries == "none" else self._own_boundaries()
        left_out = {"held_out": self._held_out} if self._held_out else {}
        return {
            "corpus": self._made_from,
            "units": VERSION,
            "stride": self._stride,
            **policies,
            **boundaries,
            **left_out,
        }

    def _own_boundaries(self) -> dict[str, Any]:
        """Return what defines the units of `spaces` and `bert`; nothing for other boundaries."""
        if self._config.boundaries == "spaces":
            return {"boundaries": "words" if self._config.whole_words else "spaces"}
        if self._config.boundaries == "bert":
            split = self._config.splits_ideographs
            return {"boundaries": "bert", "handle_chinese_chars": split, "tokenizers": version("tokenizers")}
        return {}

    def total(self) -> int:
        """Return the bytes of text."""
        return self._bytes

    def tasks(self) -> Iterator[Task]:
        """Yield a task per group of consecutive shards, large enough to limit the number of tasks."""
        for number, group in enumerate(self._groups()):
            digest = fingerprint({"parts": [shard.sha256 for shard in group]})
            yield Task(f"{number:04d}", group, sum(shard.size for shard in group), digest)

    def _groups(self) -> Iterator[list[CorpusShard]]:
        return batches_of(self._shards, max(MIN_TASK_BYTES, self._bytes // TASKS), lambda shard: shard.size)

    def run(self, task: Task, root: Path) -> Result:
        """Count a group of shards."""
        return self.count(task, root)[0]

    def count(self, task: Task, root: Path) -> tuple[Result, int]:
        """Count a group of shards; return the occurrences of all units, too."""
        sample = ParagraphSample(self._stride, task.weight)

        def count(tally: UnitCounter) -> None:
            for shard in task.payload:
                self._count(shard, tally, sample)

        counted = count_into_run(root, self.name, task.id, self._config, str(self._folder), count)
        path = f"{self.name}/{SAMPLES}/{task.id}"
        write_atomic(root / path, sample.data())
        taken = Output(path, sample.taken, file_sha256(root / path))
        counts = {"paragraphs.total": sample.paragraphs, "paragraphs.sampled": sample.taken}
        run, divides = counted.outputs
        return Result([run, taken, divides], counts), counted.units

    def _count(self, shard: CorpusShard, tally: UnitCounter, sample: ParagraphSample) -> None:
        from_text = self._config.boundaries in ("none", "bert")
        columns = ["text"] * from_text + ["words"] * self._has_words
        for batch in self.batches(shard, columns):
            rows = batch["words" if self._has_words else "text"]
            if self._config.boundaries == "spaces":
                rows = separate_words_arrow(rows)
            sample.add(rows)
            if from_text:
                tally.add_counts(count_pieces(batch["text"].to_pylist(), self._config))
            elif self._config.whole_words:  # a mark is beside each space
                tally.add_values(pieces(pc.replace_substring(rows, " ", "")))
            else:
                tally.add_values(pieces(rows, newline_is_space=self._config.newline == "space"))

    def batches(self, shard: CorpusShard, columns: list[str]) -> Iterator[Any]:
        """Yield the documents of a shard, without those of sources that are held out."""
        if not self._held_out:
            yield from read_batches(self._folder, shard, columns)
            return
        held_out = pa.array(self._held_out)
        for batch in read_batches(self._folder, shard, [*columns, "source"]):
            kept = batch.filter(pc.invert(pc.is_in(batch["source"], held_out)))
            if len(kept):
                yield kept
