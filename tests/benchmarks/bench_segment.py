"""Segmenters beside the bare analysers they drive, word F1 on gold: `python -m tests.benchmarks.bench_segment [MB]`.

Real text and gold come from the shared data folder (`JPREP_SHARED`, else `../shared`). The real Juman++ is measured
where `jumanpp` is on PATH, or `JPREP_JUMANPP` and `JPREP_JUMANPP_MODEL` name it; never a fake. `JPREP_POINTWISE_MODEL`
names a model of `pointwise`.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import fugashi
import jumandic

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.jumanpp import JumanppSegmenter
from jprep.corpus.segmenters.mecab import JumandicSegmenter, UnidicSegmenter
from jprep.corpus.segmenters.pointwise import Pointwise
from jprep.corpus.segmenters.sudachi import SudachiSegmenter
from jprep.corpus.step import Segmenter
from jprep.errors import MachineError
from jprep.testing.conformance.segmenter import word_f1

SHARED = Path(os.environ.get("JPREP_SHARED") or Path(__file__).parents[2].parent / "shared")
SOURCES = ("jawikinews_detok", "jsquad_contexts", "quasi_reviews", "real_persona_chat", "cpprefjp")
BATCH = 4_000
HALF_WIDTH = {ord("！") + n: ord("!") + n for n in range(94)}
"""JUMAN's gold is full-width and a normalized corpus half-width: the second F1 is on gold mapped to the latter."""

Run = Callable[[], tuple[float, float]]


def sentences(megabytes: float) -> list[str]:
    """Distinct sentences of real text, some from each source."""
    found: dict[str, None] = {}
    for source in SOURCES:
        size = 0.0
        with gzip.open(SHARED / "data" / "web" / f"{source}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                for sentence in re.findall(r"[^。\r\n]+。?", json.loads(line)["text"]):
                    found[sentence] = None
                    size += len(sentence.encode())
                if size > megabytes * 1e6 / len(SOURCES):
                    break
    return list(found)


def clock(call: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds, those of children that ended included, and wall seconds of one call."""
    begun, spent = time.perf_counter(), cpu()
    call()
    return cpu() - spent, time.perf_counter() - begun


def cpu() -> float:
    """CPU seconds of this process and its ended children."""
    ours, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return ours.ru_utime + ours.ru_stime + theirs.ru_utime + theirs.ru_stime


def race(runs: dict[str, Run], size: int, against: str, rounds: int = 7) -> None:
    """Run each in turn, several times, and print medians and the median of each round's ratio to one of them."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(run())
    for name, each in times.items():
        seconds, wall = (statistics.median(values) for values in zip(*each, strict=True))
        pairs = list(zip(times[against], each, strict=True))
        ratios = [statistics.median(peer[n] / own[n] for peer, own in pairs) for n in (0, 1)]
        print(f"{name:34} {size / seconds / 1e6:8.2f} {size / wall / 1e6:8.2f} {ratios[0]:8.3f} {ratios[1]:8.3f}")


def in_batches(segmenter: Segmenter, texts: Sequence[str]) -> list[str]:
    """All the texts, as the pipeline gives them: some thousands at a time."""
    return [words for at in range(0, len(texts), BATCH) for words in segmenter.segment(texts[at : at + BATCH])]


def libraries(texts: list[str]) -> None:
    """The analysers that are libraries."""
    folder = jumandic.DICDIR
    wakati = fugashi.GenericTagger(f"-Owakati -r {folder}/mecabrc -d {folder}")
    full = fugashi.GenericTagger(f"-r {folder}/mecabrc -d {folder}")
    runs: dict[str, Run] = {
        "fugashi wakati, bare": lambda: clock(lambda: [wakati.parse(text) for text in texts]),
        "fugashi, words of nodes": lambda: clock(lambda: [[node.surface for node in full(text)] for text in texts]),
    }
    for kind in (pointwise, JumandicSegmenter, UnidicSegmenter, SudachiSegmenter):
        try:
            made: Segmenter = kind()
        except MachineError as missing:
            print(missing.what)
            continue
        runs[f"jprep {made.name}"] = lambda made=made: clock(lambda: in_batches(made, texts))  # type: ignore[misc]
    if importlib.util.find_spec("numba"):
        kernel = pointwise("on")
        kernel.segment(texts[:1])  # loads the compiled code
        runs["jprep pointwise, compiled"] = lambda: clock(lambda: in_batches(kernel, texts))
    size = sum(len(text.encode()) for text in texts)
    race(runs, size, "fugashi wakati, bare")


def pointwise(compiled: Literal["on", "off"] = "off") -> Pointwise:
    """The segmenter with the model that is named, else with an installed one."""
    return Pointwise(Pointwise.Config(model=os.environ.get("JPREP_POINTWISE_MODEL", ""), compiled=compiled))


def real() -> JumanppSegmenter | None:
    """A driver of the real Juman++, or None."""
    program = os.environ.get("JPREP_JUMANPP") or shutil.which("jumanpp")
    return program and JumanppSegmenter(
        JumanppSegmenter.Config(program=program, model=os.environ.get("JPREP_JUMANPP_MODEL", ""))
    )


def program(texts: list[str]) -> None:
    """Juman++ through the driver, and bare: the same lines from a file to a file in one go."""
    if real() is None:
        print("jumanpp: not measured, there is no real one here")
        return
    # The bare program loses long lines and comments, so both get what both can take.
    texts = [text for text in texts if len(text) <= 128 and not text.startswith("# ")]
    with tempfile.TemporaryDirectory() as folder:
        lines, words = Path(folder) / "lines", Path(folder) / "words"
        lines.write_bytes("".join(f"{text}\n" for text in texts).encode())
        command = [real()._program(), *real()._options(), "--segment", f"--segment-separator={WORD}"]

        def bare() -> None:
            with lines.open("rb") as source, words.open("wb") as sink:
                subprocess.run(command, stdin=source, stdout=sink, check=True)

        def driven() -> None:
            driver = real()
            marked[:] = in_batches(driver, texts)
            driver.close()

        marked: list[str] = []
        runs: dict[str, Run] = {"jumanpp, bare": lambda: clock(bare), "jprep jumanpp": lambda: clock(driven)}
        race(runs, lines.stat().st_size, "jumanpp, bare")
        same = "".join(f"{line}\n" for line in marked).encode() == words.read_bytes()
        print(f"{'':34} the same words as the bare program's: {same}")


def gold(corpus: str, table: dict[int, int]) -> list[list[str]]:
    """The words of each sentence of a dev set."""
    path = SHARED / "data" / "gold" / corpus / "dev.seg.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").translate(table).split(" ") for line in file]


def accuracy() -> None:
    """Word F1 of what cuts words by JUMAN's standard."""
    measured: list[Segmenter] = [JumandicSegmenter(), *filter(None, [real()])]
    with contextlib.suppress(MachineError):
        measured.append(pointwise())
    for segmenter in measured:
        for corpus in ("kwdlc", "wac"):
            scores = []
            for table in ({}, HALF_WIDTH):
                right = gold(corpus, table)
                marked = segmenter.segment(["".join(words) for words in right])
                scores.append(100 * word_f1(right, [words.split(WORD) for words in marked]))
            as_is, mapped = scores
            print(f"{segmenter.name:10} {corpus:6} {len(right):5} sentences  F1 {as_is:.2f}  half-width {mapped:.2f}")
        segmenter.close()


def main() -> None:
    """Print all three tables."""
    if not SHARED.exists():
        sys.exit(f"{SHARED} is not here: set JPREP_SHARED")
    texts = sentences(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0)
    print(f"{len(texts)} sentences, {sum(len(text.encode()) for text in texts) / 1e6:.2f} MB")
    print(f"{'':34} {'MB/CPU-s':>8} {'MB/s':>8} {'cpu':>8} {'wall':>8}  (ratio to the first)")
    libraries(texts)
    program(texts)
    accuracy()


if __name__ == "__main__":
    main()
