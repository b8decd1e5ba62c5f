"""The text of an evaluation: a sample of a corpus, a file or standard input."""

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
    """Paragraphs and their origin. They can be iterated once.

    Attributes:
        name: display name of the corpus or file.
        identity: shortened fingerprint of the corpus; "" for a file.
        normalized: whether normalizers were applied; not for text of a file.
        has_words: whether U+001F separates words.
        paragraphs: non-empty paragraphs.
        stride: every `stride`-th paragraph is in the sample.
        digest: hash of the paragraphs that were iterated.
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


def open_text(source: str, limit_mb: float) -> EvaluationText:
    """Open a corpus directory, a text file with one paragraph per line, or "-" for standard input.

    Args:
        source: path to read.
        limit_mb: maximum MB of UTF-8 of the sample; 0 uses all text.

    Raises:
        ConfigError: there is nothing to read. Iterating raises InputError if the text is not UTF-8.
    """
    if source != STDIN and Path(source).is_dir():
        corpus = Corpus(source)
        manifest = corpus.manifest
        words = bool(manifest.totals.get("words"))
        text = EvaluationText(manifest.name, manifest.fingerprint[:12], True, words, _of_corpus(corpus))
    elif _is_table(source):
        fix = "build a corpus of it with `jprep corpus build`"
        raise ConfigError("tokenizers are evaluated on a corpus or on plain text", where=source, fix=fix)
    else:
        text = EvaluationText(short_names([source])[source], "", False, False, _of_file(source))
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
    """Return every n-th paragraph, where n is the smallest power of two that keeps the limit; at least one.

    Args:
        paragraphs: read once; only the sample is kept in memory.
        limit: maximum UTF-8 bytes, without word marks.

    Returns:
        The sample, and n.
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
