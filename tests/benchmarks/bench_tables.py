"""Time and peak memory of reading a whole corpus: as documents, as tables in memory and in a file, and in batches.

The process's own memory (`RssAnon`) does not count pages of a mapped file, which the system can take back.
"""

from __future__ import annotations

import importlib.util
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jprep import Corpus, samples
from jprep.corpus.document import Document
from tests.fakes.written_corpus import write_corpus

SHARDS, DOCUMENTS = 8, 12_500
WAYS: dict[str, tuple[str, Callable[[Corpus, Path], Any]]] = {
    "documents()": ("pyarrow", lambda corpus, _: sum(len(doc.text) for doc in corpus)),
    "batches(1000)": ("pyarrow", lambda corpus, _: sum(batch.num_rows for batch in corpus.batches())),
    "to_arrow()": ("pyarrow", lambda corpus, _: corpus.to_arrow()),
    "to_arrow(file=…)": ("pyarrow", lambda corpus, folder: corpus.to_arrow(file=folder / "corpus.arrow")),
    "to_pandas()": ("pandas", lambda corpus, _: corpus.to_pandas()),
    "to_polars()": ("polars", lambda corpus, _: corpus.to_polars()),
    "to_hugging_face()": ("datasets", lambda corpus, _: corpus.to_hugging_face()),
}


def write(folder: Path) -> None:
    """Write a corpus of documents that consist of lines of the sample in random order."""
    lines = [line for line in samples.crawl_bytes().decode().splitlines() if line]
    chance = random.Random(1)
    made = 0
    shards: list[list[Document]] = []
    for _ in range(SHARDS):
        texts = ["\n".join(chance.choices(lines, k=20)) for _ in range(DOCUMENTS)]
        shards.append([Document(f"web:{made + at}", "web", f"題{at}", "", text) for at, text in enumerate(texts)])
        made += DOCUMENTS
    write_corpus(folder, shards, group=1500)


def measure(way: str, folder: Path) -> None:
    """Read the corpus in one way, and print the seconds and the growth of the process's own memory in MiB."""
    library, read = WAYS[way]
    importlib.import_module(library)
    corpus, before, stop = Corpus(folder / "corpus"), _own(), threading.Event()
    peak = [before]

    def watch() -> None:
        while not stop.wait(0.01):
            peak[0] = max(peak[0], _own())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    kept = read(corpus, folder)
    seconds = time.perf_counter() - begun
    stop.set()
    watcher.join()
    del kept
    print(f"{seconds:8.2f} s {(peak[0] - before) // 1024:8,} MiB")


def _own() -> int:
    [found] = re.findall(r"^RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "corpus")
        size = sum(batch.nbytes for batch in Corpus(folder / "corpus").batches())
        print(f"{SHARDS * DOCUMENTS:,} documents, {size / 1e6:,.0f} MB decoded; time with the check of hashes")
        for way, (library, _) in WAYS.items():
            if importlib.util.find_spec(library):
                print(f"{way:20}", end="", flush=True)
                subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_tables", way, name], check=True)
            else:
                print(f"{way:20} {library} is not installed")


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else measure(sys.argv[1], Path(sys.argv[2]))
