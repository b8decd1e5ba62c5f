"""Near-duplicates: memory by number of documents, which pairs are found by their similarity, and pace.

Memory is that of `jprep corpus build` with `dedup.near`, for 1, 4 and 16 times `JPREP_BENCH_DOCUMENTS` documents
(10,000, unless it is set), a third of which are edited copies. Similarity is the share of common n-grams (Jaccard).
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jprep.corpus.config import NearConfig
from jprep.corpus.dedup.near.ngrams import comparable, ngram_hashes
from jprep.corpus.dedup.near.signatures import BandKeyWriter, band_keys, signatures
from jprep.corpus.document import Document
from tests.benchmarks.bench_filters import SHARED, load
from tests.benchmarks.measure import JPREP, MIB, Run, run

DOCUMENTS = int(os.environ.get("JPREP_BENCH_DOCUMENTS", "10000"))
TIMES = (1, 4, 16)
PAIRS = 2000
BINS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SIMILAR = 0.7

KANA = [chr(code) for code in range(ord("ぁ"), ord("ん") + 1)]
KANJI = [chr(code) for code in range(0x4E00, 0x4E00 + 2000)]
Sentences = list[str]
Edit = Callable[[random.Random, Sentences, float], str]


class Pair(NamedTuple):
    """The similarity of a document and its edited copy, and whether they have a band in common."""

    similarity: float
    is_found: bool


def sentences(rng: random.Random, count: int) -> Sentences:
    """Return sentences of random kana and kanji: two of them have no n-gram in common."""
    return ["".join(rng.choices(KANA, k=20) + rng.choices(KANJI, k=10)) + "。" for _ in range(count)]


def replaced(rng: random.Random, text: Sentences, share: float) -> str:
    """Replace characters one by one; each changes five n-grams."""
    return "".join(rng.choice(KANA) if rng.random() < share / 5 else each for each in "".join(text))


def rewritten(rng: random.Random, text: Sentences, share: float) -> str:
    """Replace sentences."""
    return "".join(sentences(rng, 1)[0] if rng.random() < share else each for each in text)


def dropped(rng: random.Random, text: Sentences, share: float) -> str:
    """Drop sentences."""
    return "".join(each for each in text if rng.random() >= share) or text[0]


def extended(rng: random.Random, text: Sentences, share: float) -> str:
    """Add sentences at the end."""
    return "".join(text + sentences(rng, round(2 * share * len(text))))


EDITS: dict[str, Edit] = {
    "characters replaced": replaced,
    "sentences replaced": rewritten,
    "sentences dropped": dropped,
    "sentences added": extended,
}


def compare(one: str, other: str, config: NearConfig) -> Pair:
    codes = [comparable(one), comparable(other)]
    hashes, starts = ngram_hashes(codes, config.ngram)
    first, second = set(hashes[: starts[1]].tolist()), set(hashes[starts[1] :].tolist())
    high, low = band_keys(signatures(codes, config), config)
    is_found = bool(np.any((high[0] == high[1]) & (low[0] == low[1])))
    return Pair(len(first & second) / len(first | second), is_found)


def edited_pairs(edit: Edit, config: NearConfig) -> list[Pair]:
    rng, found = random.Random(1), list[Pair]()
    for _ in range(PAIRS):
        text = sentences(rng, rng.randrange(5, 40))
        found.append(compare("".join(text), edit(rng, text, rng.uniform(0, 0.6)), config))
    return found


def print_found(config: NearConfig) -> None:
    """Print the share of the pairs that are found by similarity and kind of edit, and how many of them are similar."""
    pairs = {name: edited_pairs(edit, config) for name, edit in EDITS.items()}
    print(f"\n{'similarity':22}{'expected':>10}" + "".join(f"{name:>22}" for name in pairs))
    for low, high in pairwise(BINS):
        inside = [
            [each for each in own if low <= each.similarity < high or each.similarity == high == 1]
            for own in pairs.values()
        ]
        every = [each.similarity for own in inside for each in own]
        expected = np.mean([1 - (1 - each**config.rows) ** config.bands for each in every]) if every else 0
        print(f"{f'{low:.0%} to {high:.0%}':22}{expected:>10.1%}" + "".join(map(share_found, inside)))
    print(f"{f'recall, {SIMILAR:.0%} or more':32}" + "".join(map(recall, pairs.values())))
    print(f"{f'precision, {SIMILAR:.0%} or more':32}" + "".join(map(precision, pairs.values())))


def share_found(pairs: list[Pair]) -> str:
    if not pairs:
        return " " * 22
    share = f"{sum(each.is_found for each in pairs) / len(pairs):.1%}"
    return f"{f'{share} of {len(pairs):,}':>22}"


def recall(pairs: list[Pair]) -> str:
    """Return the share of the similar pairs that are found."""
    return share_found([each for each in pairs if each.similarity >= SIMILAR])


def precision(pairs: list[Pair]) -> str:
    """Return the share of the found pairs that are similar."""
    found = [each.similarity >= SIMILAR for each in pairs if each.is_found]
    return f"{f'{sum(found) / max(1, len(found)):.1%} of {len(found):,}':>22}"


def documents(count: int) -> Iterator[str]:
    """Yield lines of JSON; every third document is an edited copy of the one before it."""
    rng, text = random.Random(2), Sentences()
    for number in range(count):
        is_copy = number % 3 == 2
        text = text if is_copy else sentences(rng, 6)
        yield json.dumps({"text": replaced(rng, text, 0.1) if is_copy else "".join(text)}) + "\n"


def build(folder: Path, count: int, near: bool) -> Run:
    """Build a corpus of synthetic documents in one process."""
    path = folder / f"{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(documents(count))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [JPREP, "corpus", "build", "--jsonl", str(path), "--segmenter", "none", "-o", f"{out}/corpus"]
        done = run([*command, "--workers", "1", *(["--set", "corpus.dedup.near={}"] if near else [])])
    path.unlink()
    if done.code:
        raise SystemExit(f"{count:,} documents: exit code {done.code}\n{done.err}")
    return done


def print_memory() -> None:
    """Print peaks without and with near-duplicates, and by how much each grows for a further document."""
    print(f"{'documents':>10}{'without MB':>14}{'bytes a document':>20}{'with near MB':>14}{'bytes a document':>20}")
    first = list[int]()
    with tempfile.TemporaryDirectory() as folder:
        for times in TIMES:
            count = times * DOCUMENTS
            peaks = [build(Path(folder), count, near).peak for near in (False, True)]
            first = first or peaks
            more = count - DOCUMENTS
            growth = [f"{(peak - least) / more:+.0f}" if more else "" for peak, least in zip(peaks, first, strict=True)]
            shown = (f"{peak / MIB:>14.0f}{each:>20}" for peak, each in zip(peaks, growth, strict=True))
            print(f"{count:>10,}{''.join(shown)}", flush=True)


def jprep_keys(docs: list[Document], config: NearConfig) -> None:
    writer = BandKeyWriter(config)
    for doc in docs:
        writer.add(doc)
    writer.flush()


def rensa_index(docs: list[Document], config: NearConfig) -> None:
    import rensa

    values = config.bands * config.rows
    index = rensa.RMinHashLSH(threshold=SIMILAR, num_perm=values, num_bands=config.bands)
    for number, doc in enumerate(docs):
        signature = rensa.RMinHash(num_perm=values, seed=1)
        signature.update(list(ngrams(doc.text, config.ngram)))
        index.insert(number, signature)


def datasketch_index(docs: list[Document], config: NearConfig) -> None:
    import datasketch

    values = config.bands * config.rows
    index = datasketch.MinHashLSH(params=(config.bands, config.rows), num_perm=values)
    for number, doc in enumerate(docs):
        signature = datasketch.MinHash(num_perm=values)
        signature.update_batch([each.encode() for each in ngrams(doc.text, config.ngram)])
        index.insert(str(number), signature)


def ngrams(text: str, size: int) -> set[str]:
    return {text[start : start + size] for start in range(len(text) - size + 1)}


def print_pace() -> None:
    """Print MB of text a CPU-second from texts to the keys of their bands, over real documents."""
    libraries = {"jprep": (jprep_keys, 20), "rensa": (rensa_index, 2), "datasketch": (datasketch_index, 0.3)}
    docs = [doc for path in sorted((SHARED / "data/web").glob("*.jsonl.gz")) for doc in load(path)]
    random.Random(3).shuffle(docs)
    print(f"\n{'bands × rows':14}" + "".join(f"{name:>24}" for name in libraries))
    for bands, rows in ((14, 8), (20, 10), (40, 20)):
        config = NearConfig(bands=bands, rows=rows)
        row = ""
        for name, (work, megabytes) in libraries.items():
            if not importlib.util.find_spec("rensa" if name == "jprep" else name):
                row += f"{'not installed':>24}"
                continue
            some = first_megabytes(docs, megabytes)
            work(some[:1], config)
            begun = time.process_time()
            work(some, config)
            size = sum(len(doc.text.encode()) for doc in some) / 1e6
            row += f"{size / (time.process_time() - begun):>15.1f} MB/CPU-s"
        print(f"{f'{bands} × {rows}':14}{row}", flush=True)


def first_megabytes(docs: list[Document], megabytes: float) -> list[Document]:
    sizes = np.cumsum([len(doc.text.encode()) for doc in docs])
    return docs[: int(np.searchsorted(sizes, megabytes * 1e6)) + 1]


def main() -> None:
    """Print the tables."""
    print_memory()
    print_found(NearConfig())
    print_pace()


if __name__ == "__main__":
    main()
