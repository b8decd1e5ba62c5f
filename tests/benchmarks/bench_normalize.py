"""Speed of the normalizers beside neologdn and bare NFKC. Run as `python -m tests.benchmarks.bench_normalize`.

Figures are MB of UTF-8 text per CPU-second, counts included, best of several: one document a call; in a build, which
joins documents (`ratio` is that pace in neologdn's); `joined`, a million characters a call. Real text comes from the
shared data folder (`JPREP_SHARED`, else `../shared`).
"""

from __future__ import annotations

import gzip
import json
import os
import time
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import neologdn

from jprep.corpus.document import Document
from jprep.corpus.normalizers.neologdn import NeologdnNormalizer
from jprep.corpus.normalizers.nfkc import NfkcNormalizer
from jprep.corpus.processing import DocumentProcessor
from jprep.corpus.splitters.unsplit import NoSplitter

DATA = Path(os.environ.get("JPREP_SHARED") or Path(__file__).parents[2].parent / "shared") / "data"
REPEATS = 3


def corpora() -> dict[str, list[str]]:
    """Documents by name of their source: web text, prose, and what another extractor made of two wiki dumps."""
    rows = sorted((DATA / "web").glob("*.jsonl.gz")) + sorted((DATA / "prose").glob("*.jsonl.gz"))
    found = {path.name.split(".")[0]: [json.loads(line)["text"] for line in _lines(path)] for path in rows}
    for path in sorted((DATA / "wikitext").glob("wp2txt-*.txt.gz")):
        articles = "".join(_lines(path)).split("\n[[")
        found[path.name.split("-output-")[1].split(".")[0]] = articles
    return found


def _lines(path: Path) -> Iterable[str]:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
        yield from lines


def megabytes(texts: Iterable[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def pace(work: Callable[[str], object], texts: list[str], repeats: int = REPEATS) -> float:
    """MB per CPU-second, best of several."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.process_time()
        for text in texts:
            work(text)
        best = min(best, time.process_time() - begun)
    return megabytes(texts) / best


def by_neologdn(text: str) -> str:
    return "\n".join([neologdn.normalize(line, tilde="ignore") for line in text.split("\n")])


def joined(texts: list[str]) -> list[str]:
    everything = "\n".join(texts)
    return [everything[start : start + 1_000_000] for start in range(0, len(everything), 1_000_000)]


def build_pace(texts: list[str]) -> float:
    """MB per CPU-second of the normalizer in a build, which joins documents, from documents to documents."""
    best = float("inf")
    processor = DocumentProcessor([NeologdnNormalizer()], NoSplitter(), [])
    for _ in range(REPEATS):
        docs = [Document("", "", "", "", text) for text in texts]
        begun = time.process_time()
        for _ in processor.process(docs):
            pass
        best = min(best, time.process_time() - begun)
    return megabytes(texts) / best


def main() -> None:
    texts = corpora()
    if not texts:
        print(f"no texts under {DATA}: nothing to measure")
        return
    ours, nfkc = NeologdnNormalizer(), NfkcNormalizer()
    columns = ("MB", "a call each", "in a build", "ratio", "joined", "neologdn", "nfkc", "bare NFKC", "same")
    print(f"{'MB/s':22}", *(f"{column:>12}" for column in columns), sep="")
    texts["all"] = [document for documents in texts.values() for document in documents]
    for name, documents in texts.items():
        fast, slow = pace(ours.apply, documents), pace(by_neologdn, documents, 1)
        whole, nfkc_pace = pace(ours.apply, joined(documents)), pace(nfkc.apply, documents)
        bare = pace(lambda text: unicodedata.normalize("NFKC", text), documents)
        same = all(ours.apply(document) == by_neologdn(document) for document in documents)
        built = build_pace(documents)
        figures = (megabytes(documents), fast, built, built / slow, whole, slow, nfkc_pace, bare)
        print(f"{name:22}", *(f"{figure:12.1f}" for figure in figures), f"{'yes' if same else 'NO':>10}", sep="")


if __name__ == "__main__":
    main()
