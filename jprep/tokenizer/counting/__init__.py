"""Count training units: each distinct unit of a corpus with its number of occurrences.

Memory is bounded for any corpus: what does not fit is sorted, written to disk and merged. Counts are exact; the rarest
units are only dropped, down to `max_words`, once all are known.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jprep.errors import ConfigError
from jprep.plurals import counted

if TYPE_CHECKING:  # pyarrow is imported when counting starts
    from jprep.corpus.api import Corpus
    from jprep.engine.runner import Executor, ProgressReporter
    from jprep.engine.stage import Receipt, Stage
    from jprep.tokenizer.config import TokenizerConfig
    from jprep.tokenizer.counting.merging import SumStage
    from jprep.tokenizer.counting.sequence_stages import CountSequencesStage
    from jprep.tokenizer.counting.sources import CountedSource, CountSourcesStage, SourceReceipts
    from jprep.tokenizer.counting.stages import CountUnitsStage

_EMPTY_FILE, _SHOWN = hashlib.sha256(b"").hexdigest(), 5

_NAMES = ("units.cut.distinct", "units.cut.total", "paragraphs.total", "paragraphs.sampled")
_SEQUENCE_NAMES = ("sequences.cut.total", "sequences.total")
"""Counters that may be 0, and are then missing in receipts."""


class UnitCounts(msgspec.Struct, frozen=True):
    r"""Result of counting: files in a directory, and totals.

    Attributes:
        words: lines of `unit \t count`, count descending, ties by code point. Spaces are unchanged; no unit contains a
            tab, newline, carriage return, NUL, U+001E or U+001F.
        characters: lines of `hexadecimal code point \t count` over all units, including dropped ones; count descending,
            ties by code point.
        sample: paragraphs with U+001F between words and sentences, one per line; empty if there are no words. Split it
            at `\n` only: a paragraph may contain any other character.
        counts: `units.total` (occurrences), `units.distinct`, `units.cut.total`, `units.cut.distinct`,
            `characters.total`, `characters.distinct`, `paragraphs.total`, `paragraphs.sampled`; with sequences
            `sequences.total`, `sequences.cut.total`.
        sequences: under `boundaries = "super"`, sequences of words and their counts as in `words`, each word written as
            a character; see `jprep.tokenizer.counting.sequences`.
        samples: the files of the sample of each source, if there are several sources.
        shares: the share of each source in all units, after its counts were multiplied.
    """

    words: Path
    characters: Path
    sample: Path
    counts: dict[str, int]
    sequences: Path | None = None
    samples: dict[str, list[Path]] = {}
    shares: dict[str, float] = {}


def count_corpus(
    corpus: Corpus,
    config: TokenizerConfig,
    root: Path,
    executor: Executor,
    progress: ProgressReporter,
    held_out: Sequence[str] = (),
) -> UnitCounts:
    """Count the units of a corpus with the engine; an interrupted run resumes.

    Args:
        corpus: the corpus.
        config: defines units, and how many are kept.
        root: directory for outputs, receipts and intermediate files. Its bytes only depend on corpus and config.
        executor: runs the tasks.
        progress: progress callback.
        held_out: names of sources to leave out.

    Raises:
        ConfigError: the corpus has no words and boundaries need them, or it has no text.
        MismatchError: `root` belongs to other work.
    """
    from jprep.tokenizer.counting.merging import SUMMING, MergeCountsStage
    from jprep.tokenizer.counting.stages import CountUnitsStage

    _check_words(corpus, config)
    counting = CountUnitsStage(corpus, config, held_out)
    run = _Run(config, root, executor, progress)
    summing, counted, summed = run.count(counting, SUMMING)
    merged = run(MergeCountsStage(summing, counted, summed))
    done = _counted(root, [*counted, *summed, *merged])
    return run.with_sequences(done, counting, merged) if config.boundaries == "super" else done


def count_sources(
    sources: Sequence[CountedSource],
    config: TokenizerConfig,
    root: Path,
    executor: Executor,
    progress: ProgressReporter,
) -> UnitCounts:
    """Count the units of several sources in the proportions of their weights; see `count_corpus`.

    Raises:
        ConfigError: a source has no text.
        InputError: the counts, multiplied for the weights, reach 2**63.
    """
    from jprep.tokenizer.counting.merging import SUMMING
    from jprep.tokenizer.counting.sources import CountSourcesStage, MergeSourcesStage, SumSourcesStage, find_factors

    run, counting = _Run(config, root, executor, progress), CountSourcesStage(sources)
    counted = run(counting)
    found = _of_sources(sources, counted)
    factors = find_factors([source.share for source in sources], [receipts.units for receipts in found])
    summing = SumSourcesStage(counting, counted, found, factors, config.max_words, root)
    summed = run.sum(summing, counting, SUMMING)
    merged = run(MergeSourcesStage(summing, counted, summed))
    done = _counted(root, [*counted, *summed, *merged])
    return _with_sources(done, [source.name for source in sources], found, factors, root)


def _of_sources(sources: Sequence[CountedSource], counted: list[Receipt]) -> list[SourceReceipts]:
    """Return what was counted of each source."""
    from jprep.tokenizer.counting.sources import receipts_of

    found = [receipts_of(counted, number) for number in range(len(sources))]
    for source, receipts in zip(sources, found, strict=True):
        if not receipts.units:
            where, fix = f"tokenizer.sources, {source.name}", "give it text, or remove the source"
            raise ConfigError("this source has no text to learn from", where=where, fix=fix)
    return found


def _with_sources(
    done: UnitCounts, names: list[str], found: list[SourceReceipts], factors: list[int], root: Path
) -> UnitCounts:
    """Return counts with those of each source, its share and its sample."""
    from jprep.io.verified_files import verify_file

    counts, samples, shares = dict(done.counts), dict[str, list[Path]](), dict[str, float]()
    for name, receipts, factor in zip(names, found, factors, strict=True):
        counts |= {f"units.counted.{name}": receipts.units, f"units.factor.{name}": factor}
        samples[name] = [verify_file(root / part.path, part.sha256) for part in receipts.samples]
        shares[name] = round(receipts.units * factor / counts["units.total"], 6)
    return msgspec.structs.replace(done, counts=dict(sorted(counts.items())), samples=samples, shares=shares)


class _Run:
    """Run stages of counting.

    Args:
        config: defines units, and how many are kept.
        root: directory for outputs, receipts and intermediate files.
        executor: runs the tasks.
        progress: progress callback.
    """

    def __init__(self, config: TokenizerConfig, root: Path, executor: Executor, progress: ProgressReporter) -> None:
        self._config, self._root, self._executor, self._progress = config, root, executor, progress

    def __call__(self, stage: Stage) -> list[Receipt]:
        """Run a stage, and return its receipts."""
        from jprep.engine.runner import run_stage

        return run_stage(stage, self._root, self._root / stage.name, self._executor, self._progress)

    def count(
        self, counting: CountUnitsStage | CountSequencesStage, name: str
    ) -> tuple[SumStage, list[Receipt], list[Receipt]]:
        """Count into runs and sum these; return the second stage, and the receipts of both."""
        from jprep.tokenizer.counting.merging import SumStage

        counted = self(counting)
        summing = SumStage(counting, counted, self._config.max_words, self._root, name=name)
        return summing, counted, self.sum(summing, counting, name)

    def sum(
        self, summing: SumStage, counting: CountUnitsStage | CountSequencesStage | CountSourcesStage, name: str
    ) -> list[Receipt]:
        """Sum runs, and delete them; return the receipts."""
        from jprep.engine.consumed import consume_files

        summed = self(summing)
        readers = (self._root / name / "receipts" / f"{receipt.task}.json" for receipt in summed)
        consume_files(self._root, summing.runs, readers, counting.runs_folder)
        return summed

    def with_sequences(self, done: UnitCounts, counting: CountUnitsStage, merged: list[Receipt]) -> UnitCounts:
        """Count the sequences of frequent words, too."""
        from jprep.engine.runner import list_outputs, sum_counts
        from jprep.io.verified_files import verify_file
        from jprep.tokenizer.counting.results import WORDS
        from jprep.tokenizer.counting.sequence_stages import SUMMING, CountSequencesStage, SelectSequencesStage

        words = next(output for output in list_outputs(merged) if output.path == WORDS)
        summing, _, summed = self.count(CountSequencesStage(counting, words, self._config), SUMMING)
        selected = self(SelectSequencesStage(summing, summed))
        (file,) = list_outputs(selected)
        found = sum_counts([receipt.counts for receipt in selected])
        counts = done.counts | dict.fromkeys(_SEQUENCE_NAMES, 0) | found
        path = verify_file(self._root / file.path, file.sha256)
        return msgspec.structs.replace(done, sequences=path, counts=dict(sorted(counts.items())))


def stage_names(config: TokenizerConfig | None) -> list[str]:
    """Return the names of the stages that count a corpus; None is the default configuration."""
    from jprep.tokenizer.counting import merging, sequence_stages

    return [*merging.STAGES, *(sequence_stages.STAGES if config and config.boundaries == "super" else ())]


def read_counts(path: Path, config: TokenizerConfig, root: Path) -> UnitCounts:
    r"""Count the units of a word list with lines of `word \t count` in any order; counts of repeated words are added.

    Args:
        path: the list; compression is detected from its first bytes.
        config: defines how words become units, and how many are kept.
        root: output directory.

    Raises:
        InputError: an invalid line, or counts that add up to 2**63 or more.
        ConfigError: the file does not exist, or is empty; or the words need their text.
    """
    if config.boundaries == "spaces" and not config.whole_words:
        what = 'a list does not say which words follow a space, which boundaries = "spaces" needs'
        raise ConfigError(what, where=str(path), fix='train on a corpus, or use model = "words"')
    if config.boundaries == "super":
        what = 'a list does not say which words follow each other, which boundaries = "super" needs'
        raise ConfigError(what, where=str(path), fix="train on a corpus")
    from jprep.tokenizer.counting.word_list import count_list

    return _counted(root, count_list(path, config, root))


def _check_words(corpus: Corpus, config: TokenizerConfig) -> None:
    totals, where = corpus.manifest.totals, str(corpus.folder)
    if not totals.get("characters"):
        raise _empty_corpus(corpus)
    check_boundaries(config, where, words=bool(totals.get("words")))


def check_boundaries(config: TokenizerConfig, where: str, *, words: bool) -> None:
    """Check that a corpus has the words that the boundaries of a tokenizer need.

    Args:
        config: how the tokenizer is trained, on this corpus.
        where: the corpus, for the error.
        words: whether the corpus is segmented.

    Raises:
        ConfigError: it has no words, and they are needed.
    """
    if config.boundaries not in ("none", "bert") and not words:
        what = f"this corpus has no words, which boundaries = {config.boundaries!r} needs"
        fix = "build it with a segmenter, or use --boundaries none"
        if config.boundaries == "spaces":
            fix = 'build it with a segmenter; segmenter = "spaces" takes the spaces of the text'
        raise ConfigError(what, where=where, fix=fix)


def _empty_corpus(corpus: Corpus) -> ConfigError:
    """Return the error for a corpus without text: how many documents it has and lacks, and which inputs are empty."""
    manifest = corpus.manifest
    sources = manifest.made_from.get("documents", {}).get("sources", [])
    empty = [
        file["name"] for source in sources for file in source.get("files", []) if file.get("sha256") == _EMPTY_FILE
    ]
    kept, rejected = manifest.totals.get("documents", 0), sum(manifest.rejects.values())
    what = f"there is no text to learn from: the corpus has {counted(kept, 'document')}, {rejected:,} rejected"
    what += f"; empty inputs: {', '.join(empty[:_SHOWN])}" if empty else ""
    fix = f"check its inputs; `jprep corpus stats {shlex.quote(str(corpus.folder))}` counts what was dropped"
    return ConfigError(what, where=str(corpus.folder), fix=fix)


def _no_text(where: str) -> ConfigError:
    return ConfigError("there is no text to learn from", where=where, fix="use a corpus with text")


def _counted(root: Path, receipts: list[Receipt]) -> UnitCounts:
    from jprep.engine.runner import list_outputs, sum_counts
    from jprep.io.verified_files import verify_file
    from jprep.tokenizer.counting.results import CHARACTERS, FOLDER, SAMPLE, WORDS, read_characters

    for output in list_outputs(receipts):
        if output.folder == FOLDER:
            verify_file(root / output.path, output.sha256)
    counts = sum_counts([receipt.counts for receipt in receipts])
    if not counts.get("units.total"):
        raise _no_text(str(root))
    characters = read_characters(root / CHARACTERS)
    # Not in a receipt: the sum may exceed its integers.
    counts |= {"characters.total": sum(characters.values()), "characters.distinct": len(characters)}
    counts = dict.fromkeys(_NAMES, 0) | counts
    return UnitCounts(root / WORDS, root / CHARACTERS, root / SAMPLE, dict(sorted(counts.items())))
