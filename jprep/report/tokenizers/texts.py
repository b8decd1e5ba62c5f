"""The texts that a report about tokenizers measures: own samples by kind, files, and the corpus of the training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jprep.corpus.api import Corpus
from jprep.corpus.document import SENTENCE, UNMARK, WORD, Document
from jprep.corpus.store import MANIFEST, read_rows
from jprep.dataset.lineage import find_nearby
from jprep.report.tokenizers.sample_texts import SAMPLES
from jprep.tokenizer.card import CARD_JSON, read_card
from jprep.tokenizer.evaluation.input_text import EvaluationText, open_text

SAMPLE_MB = 1.0
"""Text of a corpus or a file that is measured, at most."""

_SHARDS = 8
_LONGEST = 5_000  # characters of a paragraph: the rest of a longer one is left out


class KindOfText(NamedTuple):
    """Paragraphs of one kind.

    Attributes:
        kind: a name for it.
        origin: where the text is from.
        text: the paragraphs, which can be iterated again.
    """

    kind: str
    origin: str
    text: EvaluationText


def sample_kinds(files: Sequence[Path] = ()) -> list[KindOfText]:
    """Return the texts that come with jprep, by kind, and those of some files.

    Raises:
        ConfigError: a file cannot be read.
        InputError: a file is not UTF-8.
    """
    own = [_kind(kind, "a sample of jprep", lines_of(texts)) for kind, texts in SAMPLES.items()]
    return own + [_of_file(path) for path in files]


def lines_of(texts: Sequence[str]) -> list[str]:
    """Return the lines of texts: tokenizers are measured by paragraphs."""
    return [line for text in texts for line in text.split("\n")]


def corpus_of(tokenizers: Sequence[Path], given: Sequence[Path] = ()) -> Path | None:
    """Return the corpus that one of some tokenizers was trained on, if it is still near it; else the first given one.

    Args:
        tokenizers: the tokenizers.
        given: corpora of the same report.
    """
    for path in tokenizers:
        if (path / CARD_JSON).is_file():
            wanted = read_card(path).made_from.get("material", {}).get("corpus", "")
            found = find_nearby(path, "corpus", MANIFEST, lambda each: _fingerprint(each) == wanted)  # noqa: B023
            if found:
                return found
    return next(iter(given), None)


def corpus_kinds(corpus: Corpus) -> list[KindOfText]:
    """Return a sample of each source of a corpus: the beginnings of some of its shards, at most `SAMPLE_MB`."""
    found: dict[str, list[str]] = {}
    for source, paragraph in _sampled(corpus):
        found.setdefault(source, []).append(paragraph)
    words = bool(corpus.manifest.totals.get("words"))
    name, identity = corpus.manifest.name, corpus.manifest.fingerprint[:12]
    return [
        KindOfText(source, f"the corpus {name}", EvaluationText(name, identity, True, words, paragraphs))
        for source, paragraphs in sorted(found.items())
    ]


def _fingerprint(folder: Path) -> str:
    return Corpus(folder).manifest.fingerprint


def _kind(kind: str, origin: str, paragraphs: list[str]) -> KindOfText:
    return KindOfText(kind, origin, EvaluationText(kind, "", False, False, paragraphs))


def _of_file(path: Path) -> KindOfText:
    text = open_text(str(path), SAMPLE_MB)
    return _kind(path.name, "a given file", [paragraph[:_LONGEST].translate(UNMARK) for paragraph in text])


def _sampled(corpus: Corpus) -> Iterator[tuple[str, str]]:
    """Yield the source and the marked text of paragraphs, the same number of bytes from each of some shards."""
    parts = corpus.manifest.parts
    chosen = [parts[number * len(parts) // _SHARDS] for number in range(_SHARDS)] if len(parts) > _SHARDS else parts
    budget = int(SAMPLE_MB * 1e6 / max(len(chosen), 1))
    for part in chosen:
        left = budget
        for document in read_rows(corpus.folder, part, Document, ["source", "words"]):
            for paragraph in filter(None, document.words.replace(SENTENCE, WORD).split("\n")):
                kept = paragraph[:_LONGEST]
                left -= len(kept.encode())
                yield document.source, kept
            if left <= 0:
                break
