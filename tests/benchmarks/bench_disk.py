"""Disk and memory per byte of text, from raw text to batches: what the published way with run_clm.py took 24 and 10 of.

The text is not segmented, as in that account. The disk is that of all output directories; the peak includes temporary
files. The memory of vocabulary training is the largest process's, for a text and for four times as much.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jprep.corpus.store import read_manifest
from tests.benchmarks.measure import JPREP, MIB, SHARED, Run, run

GROWTH = 4
STEPS = ("corpus", "tokenizer", "dataset")
VOCABULARIES = {
    "wordpiece, 25,000 ids": (
        "--model", "wordpiece", "--vocab-size", 25_000, "--boundaries", "bert", "--alphabet", 4_000
    ),
    "byte-bpe, 50,000 ids": ("--model", "byte-bpe", "--vocab-size", 50_000, "--boundaries", "none"),
    "byte-bpe, at most 100,000 words": (
        "--model", "byte-bpe", "--vocab-size", 50_000, "--boundaries", "none", "--set", "tokenizer.max_words=100000"
    ),
}  # fmt: skip


def jprep(*words: object) -> Run:
    """Run a command that must succeed."""
    done = run([JPREP, *map(str, words)])
    if done.code:
        raise SystemExit(done.err)
    return done


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder, also while they come and go."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # it is gone
            continue
    return total


def watched(folder: Path, work: Callable[[], Any]) -> int:
    """Do some work; return the most bytes that a folder had meanwhile."""
    ended, sizes = threading.Event(), [0]

    def watch() -> None:
        while not ended.wait(0.2):
            sizes.append(size(folder))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        work()
    finally:
        ended.set()
        thread.join()
    return max([*sizes, size(folder)])


def build(folder: Path, texts: list[Path]) -> Path:
    given = [part for path in texts for part in ("--jsonl", path)]
    jprep("corpus", "build", *given, "--segmenter", "none", "--workers", 2, "-o", folder)
    return folder


def disk(folder: Path, texts: list[Path]) -> Path:
    """Print the bytes on disk per byte of text, step by step; return the corpus."""
    corpus, tokenizer, dataset = (folder / step for step in STEPS)

    def make() -> None:
        build(corpus, texts)
        jprep("tokenizer", "train", corpus, *VOCABULARIES["byte-bpe, 50,000 ids"], "--workers", 2, "-o", tokenizer)
        jprep("dataset", "pack", corpus, "--tokenizer", tokenizer, "--workers", 2, "-o", dataset)

    peak, text = watched(folder, make), text_bytes(corpus)
    sizes = {step: size(folder / step) / text for step in STEPS}
    print(
        f"{'bytes on disk per byte of text':34}", *(f"{step:>12}" for step in sizes), f"{'all':>12}{'peak':>12}", sep=""
    )
    shares = "".join(f"{share:12.3f}" for share in (*sizes.values(), sum(sizes.values()), peak / text))
    print(f"{f'{text / 1e6:.0f} MB of text':34}{shares}", flush=True)
    return corpus


def text_bytes(corpus: Path) -> int:
    return int(read_manifest(corpus).totals["bytes"])


def memory(folder: Path, small: Path, large: Path) -> None:
    """Print the peak memory of vocabulary training, and how much of it each further byte of text takes."""
    columns = [*(f"{text_bytes(one) / 1e6:.0f} MB" for one in (small, large)), "per byte", "growth"]
    print(f"\n{'vocabulary training, peak MiB':34}", *(f"{column:>12}" for column in columns), sep="")
    for number, (name, options) in enumerate(VOCABULARIES.items()):
        peaks = [
            jprep("tokenizer", "train", one, *options, "--workers", 1, "-o", folder / f"{one.name}-{number}").peak
            for one in (small, large)
        ]
        per_byte = peaks[1] / text_bytes(large)
        growth = (peaks[1] - peaks[0]) / (text_bytes(large) - text_bytes(small))
        print(f"{name:34}", *(f"{peak / MIB:12.0f}" for peak in peaks), f"{per_byte:12.2f}{growth:12.2f}", sep="")


def main() -> None:
    texts = sorted([*SHARED.glob("data/web/*.jsonl.gz"), *SHARED.glob("data/prose/*.jsonl.gz")], key=_size)
    if not texts:
        raise SystemExit("no real data: JPREP_SHARED names no folder with it")
    with tempfile.TemporaryDirectory() as name:
        folder, total = Path(name), sum(map(_size, texts))
        large = disk(folder, texts)
        part = [path for number, path in enumerate(texts) if sum(map(_size, texts[: number + 1])) < total / GROWTH]
        memory(folder, build(folder / "small", part), large)


def _size(path: Path) -> int:
    return path.stat().st_size


if __name__ == "__main__":
    main()
