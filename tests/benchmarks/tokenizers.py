"""What the tokenizers' benchmarks share: a corpus of real text where `../shared` has some, and tokenizers of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jprep.samples import write_dump
from tests.benchmarks.measure import JPREP, SHARED, run

SIZE = 32_000


def sources(folder: Path) -> dict[str, list[str]]:
    """Return the options of `jprep corpus build` for wikitext, web text and prose; or for the sample."""
    data = SHARED / "data"
    wikitext = [("--wikipedia", path) for path in sorted(data.glob("wikitext/jawiki-*-A.xml.bz2"))]
    web, prose = ([("--jsonl", path) for path in sorted(data.glob(f"{kind}/*.jsonl.gz"))] for kind in ("web", "prose"))
    found = {"wikitext": wikitext, "web": web, "prose": prose}
    if not any(found.values()):
        return {"sample": ["--wikipedia", str(write_dump(folder))]}
    return {kind: [str(part) for pair in pairs for part in pair] for kind, pairs in found.items() if pairs}


def build(arguments: Sequence[str], folder: Path) -> Path:
    """Build a corpus."""
    done = run([JPREP, "corpus", "build", *arguments, "-o", str(folder)])
    if done.code:
        raise SystemExit(done.err)
    return folder


def corpus(folder: Path) -> Path:
    """Build a corpus of wikitext, web text and prose, or of the sample."""
    return build([part for arguments in sources(folder).values() for part in arguments], folder / "corpus")


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
