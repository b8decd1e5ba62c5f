"""`jprep text`: the steps of a corpus as filters from standard input to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from jprep.cli.common.output import content_stream
from jprep.cli.completion.candidates import NORMALIZER, SEGMENTER, SPLITTER

_BATCH = 1 << 20  # bytes read at a time


@click.group()
def text() -> None:
    """Normalize, split or segment standard input, one paragraph per line, to standard output."""


def _options(command: Callable[..., None]) -> Callable[..., None]:
    option = click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set an option of the step.")
    return option(command)


@text.command()
@click.option("--using", type=NORMALIZER, default="neologdn", show_default=True, metavar="NAME")
@_options
def normalize(using: str, overrides: tuple[str, ...]) -> None:
    """Normalize each line.

    \b
    Example:
      echo 'ｱﾊﾞｰﾄ ２０２０' | jprep text normalize --using nfkc
    """
    step = _step("normalizer", using, overrides)
    _pipe(step.apply)


@text.command()
@click.option("--using", type=SPLITTER, default="rules", show_default=True, metavar="NAME")
@_options
def split(using: str, overrides: tuple[str, ...]) -> None:
    """Split each line into sentences, one per line; blank lines are kept.

    \b
    Example:
      jprep text split < lines.txt
    """
    from jprep.corpus.document import SENTENCE

    step = _step("splitter", using, overrides)
    _pipe(lambda lines: step.mark(lines).replace(SENTENCE, "\n"))


@text.command()
@click.option("--using", type=SEGMENTER, default="pointwise", show_default=True, metavar="NAME")
@click.option("--separator", default=" ", help="Text between words; white space of the text is kept.")
@_options
def segment(using: str, separator: str, overrides: tuple[str, ...]) -> None:
    """Split each line into words.

    \b
    Example:
      echo 吾輩は猫である。 | jprep text segment
    """
    from jprep.corpus.document import SENTENCE, WORD, Document
    from jprep.corpus.processing import segment_documents

    splitter, step = _step("splitter", "rules", ()), _step("segmenter", using, overrides)

    def words(lines: str) -> str:
        doc = Document("", "", "", "", lines, splitter.mark(lines))
        segment_documents([doc], step)
        return doc.words.replace(SENTENCE, WORD).replace(WORD, separator)

    try:
        _pipe(words)
    finally:
        step.close()


def _step(kind: str, name: str, overrides: tuple[str, ...]) -> Any:
    from jprep.corpus.config import make_named_step

    return make_named_step(kind, name, overrides)


def _pipe(change: Callable[[str], str]) -> None:
    write = content_stream().write
    for lines in read_stdin_lines():
        write(change(lines))
    sys.stdout.flush()


def read_stdin_lines() -> Iterator[str]:
    """Yield standard input in blocks that end at line ends; newlines are kept.

    Raises:
        InputError: invalid UTF-8, with its offset.
    """
    done = 0
    for lines in read_stdin_blocks():
        yield _decoded(lines, done)
        done += len(lines)


def read_stdin_blocks() -> Iterator[bytes]:
    """Yield the bytes of standard input in blocks that end at line ends."""
    held = b""
    # Unbuffered: a line that is typed on a terminal is processed at once.
    pipe = os.fdopen(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    while block := pipe.read(_BATCH):
        whole, newline, rest = (held + block).rpartition(b"\n")
        if newline:
            yield whole + newline
        held = rest
    if held:
        yield held


def _decoded(data: bytes, offset: int) -> str:
    from jprep.corpus.document import UNMARK
    from jprep.errors import InputError

    try:
        return data.decode().translate(UNMARK)  # as every reader does
    except UnicodeDecodeError as error:
        where, fix = f"standard input, byte {offset + error.start:,}", "convert it, e.g. with `iconv -f cp932 -t utf-8`"
        raise InputError("this is not UTF-8", where=where, fix=fix) from error
