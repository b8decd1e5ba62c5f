"""A data-bin folder of fairseq: `dict.txt`, and `train`, `valid` as its memory-mapped indexed datasets.

The layout is Megatron's elder: `MMIDIDX`, version 1, the dtype's code, the number of sequences, lengths (int32) and
pointers (int64, bytes), and nothing of documents.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from jprep.dataset.exports.base import ExportedSplit, ExportFormat, ExportJob, SequenceUnit
from jprep.dataset.exports.row_reader import BLOCK, Block, Offsets, RowReader, Tokens
from jprep.dataset.indexed.split import CODES, MAGIC
from jprep.dataset.manifest import SENTENCE_START, TRAIN
from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path
from jprep.tokenizer.card import TokenizerCard, read_card
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, special_tokens

_HEAD = struct.Struct("<9sQBQ")  # magic, version, dtype's code (for these two as Megatron's), sequences
_SHORTEST = 3  # a part of a longer sequence is never a blank line then

Cut = tuple[Tokens, Offsets]
"""Tokens, and the lengths of the sequences that they are."""


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write `dict.txt` and both splits; see `ExportFormat.write`."""
    from jprep.tokenizer.export import write_format

    dictionary = write_format(job.tokenizer, "fairseq", job.out)
    return [_split(job, rows, job.options.unit or "document") for rows in job.splits()], dictionary


def check(job: ExportJob) -> None:
    """Refuse what fairseq would read as something else; see `ExportFormat.check`.

    Raises:
        ConfigError: not this dataset's tokenizer, other special tokens than fairseq's, or no paragraphs to tell apart.
    """
    card, roberta, where = read_card(job.tokenizer), SPECIAL_TOKEN_SETS["roberta"], str(job.tokenizer)
    if card.fingerprint != job.dataset.made_from["tokenizer"]["fingerprint"]:
        fix = "name the folder of the tokenizer that the dataset was packed with: --tokenizer DIR"
        raise ConfigError("the dataset was not made with this tokenizer", where=where, fix=fix)
    _check_special(job.tokenizer, card)
    if (job.options.unit or "document") != "document" and job.dataset.newline < len(
        roberta.head
    ):  # a space, or the unknown token
        fix = 'leave --unit out, or train a tokenizer with newline = "token"'
        raise ConfigError("this dataset does not tell where a paragraph ends", where=str(job.folder), fix=fix)
    if (job.options.length or _SHORTEST) < _SHORTEST:
        fix = "give what fairseq's --tokens-per-sample will be, less 1"
        raise ConfigError(f"sequences must have room for {_SHORTEST} tokens", where="length", fix=fix)


def symbols(tokenizer: Path) -> list[str]:
    """The symbols of fairseq's dictionary in the order of its ids, which are the tokenizer's.

    Raises:
        ConfigError: no finished tokenizer, or its special tokens are not fairseq's.
    """
    from jprep.tokenizer.export import fairseq_pieces

    _check_special(tokenizer, read_card(tokenizer))
    roberta = SPECIAL_TOKEN_SETS["roberta"]
    return [*roberta.head, *fairseq_pieces(tokenizer), *roberta.tail]


def _check_special(tokenizer: Path, card: TokenizerCard) -> None:
    special, roberta = special_tokens(card.config), SPECIAL_TOKEN_SETS["roberta"]
    if (special.head, special.tail[-1:]) != (roberta.head, roberta.tail):
        fix = 'train a tokenizer with special = ["roberta"], or export as tfrecord or arrow'
        what = "fairseq's ids begin with <s> <pad> </s> <unk> and end with <mask>"
        raise ConfigError(what, where=str(tokenizer), fix=fix)


def _split(job: ExportJob, rows: RowReader, unit: SequenceUnit) -> ExportedSplit:
    stem = job.out / ("train" if rows.split.name == TRAIN else "valid")
    data, index = stem.with_suffix(".bin"), stem.with_suffix(".idx")
    sequences = tokens = 0
    with (
        atomic_path(data) as data_path,
        atomic_path(index) as index_path,
        data_path.open("wb") as data_file,
        index_path.open("w+b") as index_file,
    ):
        index_file.write(bytes(_HEAD.size))
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
    """Add the pointers, which the lengths give, and the head, which needs their number."""
    start, item = 0, np.dtype(dtype).itemsize
    for first in range(0, sequences, BLOCK):
        file.seek(_HEAD.size + 4 * first)
        ends = start + np.cumsum(np.fromfile(file, "<i4", min(BLOCK, sequences - first)), dtype=np.int64) * item
        file.seek(_HEAD.size + 4 * sequences + 8 * first)
        np.concatenate(([start], ends[:-1])).astype("<i8").tofile(file)
        start = int(ends[-1])
    file.seek(0)
    file.write(_HEAD.pack(MAGIC, 1, CODES[dtype], sequences))


def _cut(job: ExportJob, rows: RowReader, block: Block, unit: SequenceUnit) -> Cut:
    tokens, sizes = block.tokens, np.diff(block.edges)
    if unit != "document":
        starts = (rows.marks(block) & SENTENCE_START) > 0 if unit == "sentence" else None
        tokens, sizes = lines(block, job.dataset.end, job.dataset.newline, starts)
    return tokens, shortened(sizes, job.options.length) if job.options.length else sizes


def shortened(sizes: Offsets, longest: int) -> Offsets:
    """Cut longer sequences into as few as will do, about equal ones: none is so short that it looks like a blank line.

    Args:
        sizes: the lengths of the sequences.
        longest: the largest length, 3 or more.
    """
    counts = -(-sizes // longest)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of each part in its sequence
    return np.repeat(sizes // counts, counts) + (number < np.repeat(sizes % counts, counts))


def lines(block: Block, end: int, newline: int, starts: npt.NDArray[np.bool_] | None = None) -> Cut:
    """Documents as the lines that fairseq's preprocessing would have made of them.

    A paragraph, or a sentence, is a sequence that ends with `end`; `end` alone, its blank line, is behind each
    document. A paragraph without tokens is no sequence, or it would look like the end of its document.

    Args:
        block: whole documents.
        end: the id that ends a document, and here each sequence.
        newline: the id between two paragraphs.
        starts: which tokens begin a sentence, if sentences are wanted; shape (tokens,).
    """
    tokens = np.where(block.tokens == newline, np.asarray(end, block.tokens.dtype), block.tokens)
    closes = tokens == end
    after_close = np.concatenate(([True], closes[:-1]))
    blanks = block.edges[1:]
    inner = np.zeros(0, np.int64) if starts is None else np.flatnonzero(starts & ~after_close)
    places = np.concatenate((inner, blanks))
    kept = np.insert(~(closes & after_close), places, True)
    tokens = np.insert(tokens, places, end)[kept]
    ends = np.flatnonzero(tokens == end) + 1
    return tokens, np.diff(ends, prepend=0)


FORM = ExportFormat(write, ("unit", "length"), check)
