"""The text that tokenizers are held against: a sample of a corpus, of a file or of standard input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import xxhash

from jprep.corpus.api import Corpus
from jprep.corpus.document import SENTENCE, UNMARK, WORD
from jprep.corpus.readers.encoding import undecodable
from jprep.errors import ConfigError
from jprep.io.inputs.paths import STDIN, short_names
from jprep.io.inputs.streams import open_input

MB = 1_000_000


class EvaluationText(msgspec.Struct):
    """Paragraphs and where they come from. They can be gone through once.

    Attributes:
        name: the corpus's or the file's, for people.
        identity: the corpus's fingerprint, shortened; "" for a file.
        normalized: they went through normalisers; text of a file did not.
        has_words: U+001F stands between words.
        paragraphs: none of them empty.
        stride: one in so many is in the sample.
        digest: hash of the paragraphs that were gone through.
    """

    name: str
    identity: str
    normalized: bool
    has_words: bool
    paragraphs: Iterable[str]
    stride: int = 1
    digest: str = ""

    def __iter__(self) -> Iterator[str]:
        hashed = xxhash.xxh3_128()
        for paragraph in self.paragraphs:
            hashed.update(paragraph.encode())
            hashed.update(b"\n")
            yield paragraph
        self.digest = hashed.hexdigest()[:12]


def open_text(place: str, limit_mb: float) -> EvaluationText:
    """A corpus's folder, a text file with a paragraph a line, or "-" for standard input.

    Args:
        place: what to read.
        limit_mb: MB of UTF-8 that the sample may have; 0 takes all.

    Raises:
        ConfigError: there is nothing to read. Going through the paragraphs raises InputError where they are not UTF-8.
    """
    if place != STDIN and Path(place).is_dir():
        corpus = Corpus(place)
        manifest = corpus.manifest
        words = bool(manifest.totals.get("words"))
        text = EvaluationText(manifest.name, manifest.fingerprint[:12], True, words, _of_corpus(corpus))
    elif _is_table(place):
        fix = "`jprep corpus build` makes a corpus of it"
        raise ConfigError("a tokenizer is measured on a corpus or on plain text", where=place, fix=fix)
    else:
        text = EvaluationText(short_names([place])[place], "", False, False, _of_file(place))
    if limit_mb:
        text.paragraphs, text.stride = sample(text.paragraphs, int(limit_mb * MB))
    return text


def _is_table(path: str) -> bool:
    return any(suffix in (".jsonl", ".parquet") for suffix in Path(path).suffixes)


def _of_corpus(corpus: Corpus) -> Iterator[str]:
    for document in corpus.documents(["words"]):
        yield from filter(None, document.words.replace(SENTENCE, WORD).split("\n"))


def _of_file(path: str) -> Iterator[str]:
    with open_input(path) as lines:
        offset = 0
        for line in lines:
            try:
                decoded = line.decode()
            except UnicodeDecodeError as error:
                raise undecodable(f"{path}, byte {offset + error.start:,}", error, option=False) from error
            text = (decoded if offset else decoded.removeprefix("\ufeff")).rstrip("\r\n").translate(UNMARK)
            offset += len(line)
            if text and not text.isspace():
                yield text


def sample(paragraphs: Iterable[str], limit: int) -> tuple[list[str], int]:
    """Every n-th paragraph, n the least power of two with which they are no larger than asked for; one at least.

    Args:
        paragraphs: read once; no more than the sample is kept.
        limit: bytes of UTF-8, word marks not counted.

    Returns:
        the sample, and n.
    """
    kept: list[tuple[str, int]] = []
    stride, size = 1, 0
    for number, paragraph in enumerate(paragraphs):
        if number % stride:
            continue
        kept.append((paragraph, len(paragraph.replace(WORD, "").encode())))
        size += kept[-1][1]
        while size > limit and len(kept) > 1:
            kept, stride = kept[::2], stride * 2
            size = sum(length for _, length in kept)
    return [paragraph for paragraph, _ in kept], stride
