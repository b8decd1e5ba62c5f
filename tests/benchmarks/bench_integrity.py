"""What checking files against their hashes costs: its share of the CPU time of each command.

Everything runs in this process with one worker, and the functions that check are timed in the same run: a busy machine
slows both alike. A time counts as a whole, with the reading that would have been done in any case, so the figures are
upper bounds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jprep import Corpus, samples
from jprep.corpus.build import build
from jprep.corpus.config import decode_recipe
from jprep.corpus.stages import read
from jprep.dataset.exports import export_dataset
from jprep.dataset.manifest import DatasetConfig
from jprep.dataset.pack import pack
from jprep.engine import manifest, runner
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.io import failpoints, hashing, verified_files
from jprep.io.inputs import content_check
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import CorpusTrainingData
from tests.benchmarks.measure import SHARED

CHECKS: list[tuple[Any, str]] = [
    (hashing, "cached_sha256"),
    (verified_files, "read_verified"),
    (verified_files, "copy_verified"),
    (content_check._ComparedFile, "read"),
    (hashing.xxhash, "xxh3_128_digest"),
    (read, "refuse_changed"),
    (runner, "encode_checksummed"),
    (runner, "decode_checksummed"),
    (manifest, "encode_checksummed"),
    (manifest, "decode_checksummed"),
]
"""All that was added to writing, reading and resuming for the sake of integrity."""


class Clock:
    """Adds up the CPU time of functions, without counting one that another of them calls twice."""

    def __init__(self) -> None:
        self.spent, self._inside = 0.0, False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def call(*args: Any, **options: Any) -> Any:
            if self._inside:
                return function(*args, **options)
            self._inside, begun = True, time.thread_time()
            try:
                return function(*args, **options)
            finally:
                self._inside = False
                self.spent += time.thread_time() - begun

        return call


@contextmanager
def timed() -> Iterator[Clock]:
    """Time all checks for the length of the block."""
    clock = Clock()
    patches = [patch.object(place, name, clock.timed(getattr(place, name))) for place, name in CHECKS]
    for each in patches:
        each.start()
    try:
        yield clock
    finally:
        for each in patches:
            each.stop()


def report(name: str, work: Callable[[], object]) -> None:
    """Do some work and print the share of its checks."""
    with timed() as clock:
        begun = time.process_time()
        work()
        total = time.process_time() - begun
    print(f"{name:34}{total:10.2f} s{1000 * clock.spent:10.1f} ms{100 * clock.spent / total:8.2f} %", flush=True)


def recipe(dumps: list[str], segmenter: str) -> Any:
    """A corpus of some dumps, with deduplication by lines."""
    source = {"name": "wiki", "reader": "wikipedia", "paths": dumps}
    corpus = {"sources": [source], "segmenter": segmenter, "dedup": {"lines": True}}
    return decode_recipe({"name": "bench", "corpus": corpus}, (), where="the benchmark")


def stopped_at_the_end(folder: Path, plan: Any) -> None:
    """Build a corpus but for its manifest."""
    with patch.object(failpoints, "_ARMED", "corpus.sealing=raise"), closing(Local(1)) as executor:
        try:
            build(plan, folder, executor, SilentProgress())
        except RuntimeError:
            return


def main() -> None:
    real = sorted((SHARED / "data" / "wikitext").glob("jawiki-20220720-head-*.bz2"))
    real += sorted((SHARED / "data" / "wikitext").glob("jawiki-shinto-*.bz2"))
    with tempfile.TemporaryDirectory() as name, closing(Local(1)) as executor:
        folder, progress = Path(name), SilentProgress()
        dumps = [str(path) for path in real or [samples.write_dump(folder)]]
        print(f"{'':34}{'CPU':>12}{'checks':>13}{'share':>10}")
        plain, segmented = recipe(dumps, "none"), recipe(dumps, "pointwise")
        report("corpus build, no words", lambda: build(plain, folder / "plain", executor, progress))
        report("corpus build, jumandic", lambda: build(segmented, folder / "corpus", executor, progress))
        stopped_at_the_end(folder / "stopped", plain)
        report("corpus build, resumed at its end", lambda: build(plain, folder / "stopped", executor, progress))
        corpus, config = Corpus(folder / "corpus"), TokenizerConfig(model="bpe", vocab_size=8000)
        tokenizer, dataset = folder / "tokenizer", folder / "dataset"
        report(
            "tokenizer train, bpe 8,000",
            lambda: train(CorpusTrainingData(corpus), config, tokenizer, executor, progress),
        )
        report("dataset pack", lambda: pack(corpus, tokenizer, DatasetConfig(), dataset, executor, progress))
        report("read a corpus", lambda: sum(1 for _ in corpus.documents()))
        for form in ("fairseq", "tfrecord", "arrow"):
            out = folder / form
            report(f"dataset export, {form}", lambda out=out, form=form: export_dataset(dataset, tokenizer, form, out))


if __name__ == "__main__":
    main()
