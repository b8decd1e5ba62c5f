"""Near-duplicates: memory by number of documents, and which pairs are found by their similarity.

Memory is that of `jprep corpus build` with `dedup.near`, for 1, 4 and 16 times `JPREP_BENCH_DOCUMENTS` documents
(10,000, unless it is set), a third of which are edited copies. Similarity is the share of common n-grams (Jaccard).
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jprep.corpus.config import NearConfig
from jprep.corpus.dedup.near.ngrams import comparable, ngram_hashes
from jprep.corpus.dedup.near.signatures import band_keys, signatures
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


def main() -> None:
    """Print the tables."""
    print_memory()
    print_found(NearConfig())


if __name__ == "__main__":
    main()
