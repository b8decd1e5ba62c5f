"""Counts training units: what a trainer sees of a corpus, each distinct unit once, and how often it occurs.

Memory is bounded whatever the corpus: what does not fit is sorted, written to disk and merged. Counts are exact; only
once all are known, the rarest are cut, down to `max_words`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jprep.errors import ConfigError

if TYPE_CHECKING:  # pyarrow is loaded when something is counted
    from jprep.corpus.api import Corpus
    from jprep.engine.runner import Executor, ProgressReporter
    from jprep.engine.stage import Receipt
    from jprep.tokenizer.config import TokenizerConfig

_NAMES = ("units.cut.distinct", "units.cut.total", "paragraphs.total", "paragraphs.sampled")
"""Counts that may be 0, and are then in no receipt."""


class UnitCounts(msgspec.Struct, frozen=True):
    r"""What counting gives: three files in one folder, and figures.

    Attributes:
        words: `unit \t count` lines, count descending, ties by code point. Spaces are as they are; no unit holds a tab,
            newline, carriage return, NUL, U+001E or U+001F.
        characters: `code point in hexadecimal \t count` lines over all units, those that were cut too; count
            descending, ties by code point.
        sample: paragraphs with U+001F between words and sentences, one a line; empty where there are no words. Split
            it at `\n` only: a paragraph may hold any other character.
        counts: `units.total` (occurrences), `units.distinct`, `units.cut.total`, `units.cut.distinct`,
            `characters.total`, `characters.distinct`, `paragraphs.total`, `paragraphs.sampled`.
    """

    words: Path
    characters: Path
    sample: Path
    counts: dict[str, int]


def count_corpus(
    corpus: Corpus, config: TokenizerConfig, root: Path, executor: Executor, progress: ProgressReporter
) -> UnitCounts:
    """Count a corpus's units through the engine; a run that was killed goes on where it was.

    Args:
        corpus: where the units come from.
        config: says what a unit is, and how many of them stay.
        root: the folder that receives outputs, receipts and work under way. Its bytes depend on corpus and config only.
        executor: where the work runs.
        progress: is told of it.

    Raises:
        ConfigError: the corpus has no words, and boundaries need them; or there is nothing to learn from.
        MismatchError: `root` holds other work.
    """
    from jprep.engine.runner import run_stage
    from jprep.tokenizer.counting.stages import CountStage, MergeCountsStage

    _refuse_wordless(corpus, config)
    counting = CountStage(corpus, config)
    receipts = run_stage(counting, root, root / counting.name, executor, progress)
    merging = MergeCountsStage(counting, receipts, config.max_words)
    return _counted(root, [*receipts, *run_stage(merging, root, root / merging.name, executor, progress)])


def read_counts(path: Path, config: TokenizerConfig, root: Path) -> UnitCounts:
    r"""Count the units of a word list, `word \t count` a line, in any order; words that repeat add up.

    Args:
        path: the list; compressed ones are told by their first bytes.
        config: says how words become units, and how many of them stay.
        root: the folder that receives the outputs.

    Raises:
        InputError: a line is not a word and its count, or the counts add up to 2**63 or more.
        ConfigError: there is no such file, or nothing in it.
    """
    from jprep.tokenizer.counting.word_list import count_list

    return _counted(root, count_list(path, config, root))


def _refuse_wordless(corpus: Corpus, config: TokenizerConfig) -> None:
    totals, where = corpus.manifest.totals, str(corpus.folder)
    if not totals.get("characters"):
        raise _nothing(where)
    if config.boundaries != "none" and not totals.get("words"):
        what = f"this corpus has no words, which boundaries = {config.boundaries!r} needs"
        raise ConfigError(what, where=where, fix="build it with a segmenter, or give --boundaries none")


def _nothing(where: str) -> ConfigError:
    return ConfigError("there is nothing to learn from", where=where, fix="give a corpus that holds text")


def _counted(root: Path, receipts: list[Receipt]) -> UnitCounts:
    from jprep.engine.runner import list_outputs, sum_counts
    from jprep.io.verified_files import verify_file
    from jprep.tokenizer.counting.results import CHARACTERS, FOLDER, SAMPLE, WORDS, read_characters

    for output in list_outputs(receipts):
        if output.folder == FOLDER:
            verify_file(root / output.path, output.sha256)
    counts = sum_counts([receipt.counts for receipt in receipts])
    if not counts.get("units.total"):
        raise _nothing(str(root))
    characters = read_characters(root / CHARACTERS)
    # Not in a receipt: their sum may be more than its format holds.
    counts |= {"characters.total": sum(characters.values()), "characters.distinct": len(characters)}
    counts = dict.fromkeys(_NAMES, 0) | counts
    return UnitCounts(root / WORDS, root / CHARACTERS, root / SAMPLE, dict(sorted(counts.items())))
