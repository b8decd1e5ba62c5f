"""Peak memory of a process that takes batches in random order, from a dataset and from one ten times as large.

Anonymous memory is the process's own; the file's pages are the system's cache, which all processes share and which it
takes back when it wants to.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from jprep.dataset.indexed.mark_file import MarkWriter
from jprep.dataset.indexed.split import write_index
from jprep.dataset.manifest import DatasetManifest, Split, write_dataset
from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import SpecialIds

DOCUMENT, SMALL, GROWTH, STEPS = 1000, 20_000, 10, 400
SPECIAL = SpecialIds(before=(0,), after=(2,), pad=1, mask=31_999, special=(0, 1, 2, 3, 31_999), vocab_size=32_000)
NEWLINE, END = 14, 2


def lay_out(folder: Path, documents: int) -> Path:
    """A dataset of random tokens."""
    folder.mkdir()
    chance = np.random.default_rng(1)
    with (folder / "train.bin").open("wb") as tokens, (folder / "train.marks").open("wb") as file:
        marks = MarkWriter(file)
        for _ in range(documents):
            tokens.write(chance.integers(4, 31_999, DOCUMENT).astype("<u2").tobytes())
            marks.add((chance.integers(0, 4, DOCUMENT) % 3).astype(np.uint8))
        marks.end()
    with (folder / "train.idx").open("wb") as index:
        write_index(index, "uint16", documents, lambda: [np.full(documents, DOCUMENT)])
    split = Split("train", documents, documents * DOCUMENT, [])
    write_dataset(folder, DatasetManifest(
        jprep="0", format=1, name="random", signature="random", fingerprint="0" * 32, made_from={}, dtype="uint16",
        vocab_size=32_000, end=END, newline=NEWLINE, splits=[split], parts=[], sources=[], counts={},
    ))  # fmt: skip
    return folder


def take(folder: Path) -> None:
    """Take batches, and print the peak of all memory and the process's own, in MiB."""
    source = open_split_data(folder, "train")
    masking = Masking(MaskingConfig(whole_word=True), SPECIAL, NEWLINE)
    sampler = Sampler(source, SamplerConfig(batch=64, length=512, packing="complete"), SPECIAL, masking)
    own = 0
    for step in range(STEPS):
        sampler.batch(step)
        own = max(own, _status("RssAnon"))
    print(_status("VmHWM") // 1024, own // 1024)


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        print(f"{'tokens':>14}{'peak MiB':>12}{'its own':>12}")
        for times in (1, GROWTH):
            folder = lay_out(Path(name, str(times)), SMALL * times)
            command = [sys.executable, "-m", "tests.benchmarks.bench_loading", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peak, own = done.stdout.split()
            print(f"{SMALL * times * DOCUMENT:14,}{peak:>12}{own:>12}", flush=True)


if __name__ == "__main__":
    take(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
