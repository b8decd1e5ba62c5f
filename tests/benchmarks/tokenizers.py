"""What the tokenizers' benchmarks share: a corpus of real text where `../shared` has some, and tokenizers of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jprep.samples import write_sample
from tests.benchmarks.measure import JPREP, SHARED, run

SIZE = 32_000


def corpus(folder: Path) -> Path:
    """Build a corpus of wikitext, web and prose, or of the sample."""
    data = SHARED / "data"
    inputs = [("--wikipedia", path) for path in sorted(data.glob("wikitext/jawiki-*-A.xml.bz2"))]
    inputs += [("--jsonl", path) for path in sorted([*data.glob("web/*.jsonl.gz"), *data.glob("prose/*.jsonl.gz")])]
    arguments, here = [str(part) for pair in inputs for part in pair], folder
    if not inputs:
        sample = write_sample(folder / "sample")
        arguments, here = [str(sample)], sample.parent
    done = run([JPREP, "corpus", "build", *arguments, "-o", str(folder / "corpus")], cwd=here)
    if done.code:
        raise SystemExit(done.err)
    return folder / "corpus"


def train(source: Path, folder: Path, *options: object) -> Path:
    """Train a tokenizer of the usual size."""
    given = [str(option) for option in ("--vocab-size", SIZE, "--workers", 1, *options)]
    done = run([JPREP, "tokenizer", "train", str(source), "-o", str(folder), *given])
    if done.code:
        raise SystemExit(done.err)
    return folder


def paragraphs(source: Path, stride: int = 1) -> Iterator[str]:
    """One paragraph in `stride`, in order, of a corpus."""
    from jprep import Corpus

    lines = (line for document in Corpus(source).documents(["text"]) for line in document.text.split("\n"))
    yield from (line for number, line in enumerate(lines) if number % stride == 0)
