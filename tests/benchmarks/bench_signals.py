"""Pace of signals: MB of UTF-8 text per CPU-second, each alone and all cheap ones together, as a build measures them.

Over documents of the shared data, and over JGLUE's sentences, which are short. The peers are HojiChar's six nearest
filters, over every tenth document, and for the costly signals the call of the library that defines them.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from jprep.corpus.config import StepRef, make_step
from jprep.corpus.document import Document
from jprep.corpus.filters.presets.preset import PresetFilter
from jprep.corpus.splitters.rules import RuleSplitter
from jprep.corpus.step import Signal
from jprep.engine.executors.worker import tune_memory
from tests.benchmarks.bench_filters import SHARED, batches, hojichar, load
from tests.benchmarks.measure import JPREP

CHEAP: list[StepRef] = ["characters", "sentences", "lines", "urls", "repetition", "ng_words", "language"]
COSTLY: list[StepRef] = ["prose", "deflate", "lz4"]
REPEATS = 3
MEGABYTES = 20.0

Documents = Sequence[Document]
Work = Callable[[Documents], object]


def pace(work: Work, docs: Documents) -> float:
    """MB per CPU-second, best of `REPEATS`."""
    work(docs[:1])
    best = float("inf")
    for _ in range(REPEATS):
        begun = time.process_time()
        work(docs)
        best = min(best, time.process_time() - begun)
    return sum(len(doc.text.encode()) for doc in docs) / 1e6 / best


def measuring(*signals: Signal) -> Work:
    """Return what measures some signals of documents, in the batches of a build."""

    def measure(docs: Iterable[Document]) -> None:
        for batch in batches(docs):
            for signal in signals:
                batch.measured(signal)

    return measure


def judging(preset: str) -> Work:
    step = PresetFilter(PresetFilter.Config(preset=preset))

    def judge(docs: Iterable[Document]) -> None:
        for batch in batches(docs):
            step.judge_all(batch)

    return judge


def compressed(docs: Iterable[Document]) -> None:
    for doc in docs:
        zlib.compress(doc.text.encode(), 9)


def compressed_by_lz4(docs: Iterable[Document]) -> None:
    import lz4.frame

    for doc in docs:
        lz4.frame.compress(doc.text.encode())


def every_tenth(work: Work) -> Work:
    return lambda docs: work(docs[::10])


def train(folder: Path, good: Documents, bad: Documents) -> Signal:
    """Return the signal of a classifier that is trained here."""
    for name, docs in (("good", good), ("bad", bad)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": doc.text}) + "\n" for doc in docs)
    inputs = ["--good", folder / "good.jsonl", "--bad", folder / "bad.jsonl"]
    subprocess.run([JPREP, "quality", "train", *inputs, "-o", folder / "model"], check=True, capture_output=True)
    signal: Signal = make_step("signal", {"use": "quality", "model": str(folder / "model")})
    return signal


def texts(paths: Iterable[Path]) -> list[Document]:
    """Return documents with marked sentences, at most `MEGABYTES` of each file."""
    splitter, found = RuleSplitter(), list[Document]()
    for path in paths:
        size = 0.0
        for doc in load(path):
            size += len(doc.text.encode()) / 1e6
            if size > MEGABYTES:
                break
            doc.words = splitter.mark(doc.text)
            found.append(doc)
    return found


def main() -> None:
    """Print the table."""
    tune_memory()
    paths = sorted((SHARED / "data/web").glob("*.jsonl.gz"))
    if not paths:
        print(f"no texts under {SHARED}/data: nothing to measure")
        return
    sets = {
        "documents": texts(paths),
        "sentences": texts(SHARED / "data/web" / f"{n}.jsonl.gz" for n in ("jglue_sentences",)),
    }
    print(f"{'MB per CPU-second':28}" + "".join(f"{name:>14}" for name in sets))

    def show(name: str, work: Work, share: int = 1) -> None:
        figures = (f"{pace(work, docs[::share]):14.1f}" for docs in sets.values())
        print(f"{name:28}" + "".join(figures), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        quality = train(Path(folder), sets["sentences"][:2000], sets["documents"][::20])
        cheap = [*(make_step("signal", name) for name in CHEAP), quality]
        for signal in cheap:
            show(signal.name, measuring(signal))
        show("all of these together", measuring(*cheap))
        for name in COSTLY:
            show(str(name), measuring(make_step("signal", name)))
        show("zlib at level 9", compressed, 10)
        if importlib.util.find_spec("lz4"):
            show("lz4", compressed_by_lz4)
        show("preset web-ja", judging("web-ja"))
        if importlib.util.find_spec("hojichar"):
            show("HojiChar, six filters", hojichar, 10)


if __name__ == "__main__":
    main()
