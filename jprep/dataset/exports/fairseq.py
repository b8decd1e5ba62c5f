"""Export as fairseq's data-bin: `dict.txt`, and `train` and `valid` as memory-mapped indexed datasets.

The layout is the predecessor of Megatron's: `MMIDIDX`, version 1, dtype code, number of sequences, lengths (int32) and
pointers (int64, bytes), without documents.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from jprep.dataset.exports.base import TOKENIZER_FIX, ExportedSplit, ExportFormat, ExportJob, SequenceUnit
from jprep.dataset.exports.row_reader import BLOCK, Block, Offsets, RowReader, Tokens
from jprep.dataset.indexed.split import CODES, MAGIC
from jprep.dataset.manifest import SENTENCE_START, VALIDATION, refuse_other_tokenizer
from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path
from jprep.tokenizer.card import TokenizerCard, read_card
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, special_tokens
from jprep.tokenizer.vocabulary import SPACE_PIECE

_HEADER = struct.Struct("<9sQBQ")  # magic, version, dtype code (these two as in Megatron), sequences
_MIN_LENGTH = 3  # parts of a longer sequence are then longer than a blank line

WORD_PREFIX = SPACE_PIECE
"""What fairseq's encoder `sentencepiece` puts before a word."""

Sequences = tuple[Tokens, Offsets]
"""Tokens, and the lengths of the sequences that they form."""


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write `dict.txt` and both splits; see `ExportFormat.write`."""
    from jprep.tokenizer.export import write_format

    job.begin()
    dictionary = write_format(job.tokenizer, "fairseq", job.out)
    return [_split(job, rows, job.options.unit or "document") for rows in job.splits()], dictionary


def check(job: ExportJob) -> None:
    """Refuse datasets that fairseq would misread; see `ExportFormat.check`.

    Raises:
        ConfigError: not this dataset's tokenizer, special tokens that differ from fairseq's, or paragraphs that cannot
            be told apart.
    """
    card, roberta = read_card(job.tokenizer), SPECIAL_TOKEN_SETS["roberta"]
    refuse_other_tokenizer(job.dataset, card.fingerprint, where=job.tokenizer, fix=TOKENIZER_FIX)
    _check_special(job.tokenizer, card)
    if (job.options.unit or "document") != "document" and job.dataset.newline < len(
        roberta.head
    ):  # newlines are spaces or the unknown token
        fix = 'remove --unit, or train a tokenizer with newline = "token"'
        raise ConfigError("this dataset has no token at the end of paragraphs", where=str(job.folder), fix=fix)
    if (job.options.length or _MIN_LENGTH) < _MIN_LENGTH:
        fix = "use fairseq's --tokens-per-sample minus 1"
        raise ConfigError(f"sequences must hold at least {_MIN_LENGTH} tokens", where="length", fix=fix)


def symbols(tokenizer: Path) -> list[str]:
    """Return the symbols of fairseq's dictionary in the order of its ids, which are the tokenizer's.

    Raises:
        ConfigError: no finished tokenizer, or special tokens that differ from fairseq's.
    """
    from jprep.tokenizer.export import fairseq_pieces

    _check_special(tokenizer, read_card(tokenizer))
    roberta = SPECIAL_TOKEN_SETS["roberta"]
    return [*roberta.head, *fairseq_pieces(tokenizer), *roberta.tail]


def spell_words(tokenizer: Path, names: Sequence[str]) -> tuple[list[str], bytes] | None:
    """Spell the symbols of a tokenizer of whole words as fairseq's encoder `sentencepiece` spells words.

    Args:
        tokenizer: the tokenizer directory.
        names: the symbols by id; see `symbols`.

    Returns:
        The symbols with U+2581 before each word, and the sentencepiece model that divides text at spaces; None for
        tokenizers of pieces.
    """
    from jprep.tokenizer.formats.sentencepiece_model import word_model_proto

    config = read_card(tokenizer).config
    if config.model != "words":
        return None
    special = special_tokens(config)
    spelt = [name if name in special.tokens else f"{WORD_PREFIX}{name}" for name in names]
    return spelt, word_model_proto(spelt, special.tokens, special.unk)


def _check_special(tokenizer: Path, card: TokenizerCard) -> None:
    special, roberta = special_tokens(card.config), SPECIAL_TOKEN_SETS["roberta"]
    if (special.head, special.tail[-1:]) != (roberta.head, roberta.tail):
        fix = 'train a tokenizer with special = ["roberta"], or export as tfrecord or arrow'
        what = "fairseq requires ids that begin with <s> <pad> </s> <unk> and end with <mask>"
        raise ConfigError(what, where=str(tokenizer), fix=fix)


def _split(job: ExportJob, rows: RowReader, unit: SequenceUnit) -> ExportedSplit:
    stem = job.out / ("valid" if rows.split.name == VALIDATION else rows.split.name)
    data, index = stem.with_suffix(".bin"), stem.with_suffix(".idx")
    sequences = tokens = 0
    with (
        atomic_path(data) as data_path,
        atomic_path(index) as index_path,
        data_path.open("wb") as data_file,
        index_path.open("w+b") as index_file,
    ):
        index_file.write(bytes(_HEADER.size))
        for block in rows.blocks():
            ids, sizes = _cut(job, rows, block, unit)
            ids.tofile(data_file)
            sizes.astype("<i4").tofile(index_file)
            sequences, tokens = sequences + len(sizes), tokens + len(ids)
            job.done(block)
        _finish(index_file, job.dataset.dtype, sequences)
    files = [job.output(path, sequences) for path in (data, index)]
    return ExportedSplit(rows.split.name, sequences, tokens, 0, files)


def _finish(file: BinaryIO, dtype: str, sequences: int) -> None:
    """Write the pointers, computed from the lengths, and the header with the number of sequences."""
    start, item = 0, np.dtype(dtype).itemsize
    for first in range(0, sequences, BLOCK):
        file.seek(_HEADER.size + 4 * first)
        ends = start + np.cumsum(np.fromfile(file, "<i4", min(BLOCK, sequences - first)), dtype=np.int64) * item
        file.seek(_HEADER.size + 4 * sequences + 8 * first)
        np.concatenate(([start], ends[:-1])).astype("<i8").tofile(file)
        start = int(ends[-1])
    file.seek(0)
    file.write(_HEADER.pack(MAGIC, 1, CODES[dtype], sequences))


def _cut(job: ExportJob, rows: RowReader, block: Block, unit: SequenceUnit) -> Sequences:
    tokens, sizes = block.tokens, np.diff(block.edges)
    if unit != "document":
        starts = (rows.marks(block) & SENTENCE_START) > 0 if unit == "sentence" else None
        tokens, sizes = lines(block, job.dataset.end, job.dataset.newline, starts)
    return tokens, split_long(sizes, job.options.length) if job.options.length else sizes


def split_long(sizes: Offsets, longest: int) -> Offsets:
    """Divide longer sequences into as few and as equal parts as possible, so that none is as short as a blank line.

    Args:
        sizes: lengths of the sequences.
        longest: maximum length, 3 or more.
    """
    counts = -(-sizes // longest)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of each part within its sequence
    return np.repeat(sizes // counts, counts) + (number < np.repeat(sizes % counts, counts))


def lines(block: Block, end: int, newline: int, starts: npt.NDArray[np.bool_] | None = None) -> Sequences:
    """Divide documents into sequences as fairseq's preprocessing of lines would.

    A sequence is a paragraph or a sentence and ends with `end`. A lone `end`, fairseq's blank line, follows each
    document. A paragraph without tokens is left out, because it would look like the end of its document.

    Args:
        block: whole documents.
        end: id that ends a document, and here each sequence.
        newline: id between two paragraphs.
        starts: which tokens begin a sentence, for sequences of sentences; shape (tokens,).
    """
    tokens = np.where(block.tokens == newline, np.asarray(end, block.tokens.dtype), block.tokens)
    closes = tokens == end
    after_close = np.concatenate(([True], closes[:-1]))
    blanks = block.edges[1:]
    inner = np.zeros(0, np.int64) if starts is None else np.flatnonzero(starts & ~after_close)
    insertions = np.concatenate((inner, blanks))
    kept = np.insert(~(closes & after_close), insertions, True)
    tokens = np.insert(tokens, insertions, end)[kept]
    ends = np.flatnonzero(tokens == end) + 1
    return tokens, np.diff(ends, prepend=0)


FORMAT = ExportFormat(write, ("unit", "length"), check)
