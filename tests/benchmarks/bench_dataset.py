"""Packing's MB of UTF-8 text per CPU-second, what a dataset takes on disk, and how fast batches come from it."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from jprep import load_tokenizer
from jprep.dataset.manifest import read_dataset
from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import special_ids
from tests.benchmarks.measure import JPREP, MIB, run
from tests.benchmarks.tokenizers import corpus, train

MODELS = ("bpe", "unigram", "byte-bpe", "wordpiece")
PACKINGS = ("stream", "complete", "line")
KINDS = {"causal": None, "tokens": MaskingConfig(), "whole words": MaskingConfig(whole_word=True)}
SHAPES = ((64, 512), (256, 128))
ROUNDS, STEPS = 3, 40
FILES = (".bin", ".idx", ".marks")


def pack(source: Path, tokenizer: Path, folder: Path) -> None:
    """Pack, and print what it took and what it left."""
    options = ["--tokenizer", str(tokenizer), "-o", str(folder), "--workers", "1"]
    done = run([JPREP, "dataset", "pack", str(source), *options])
    if done.code:
        raise SystemExit(done.err)
    dataset = read_dataset(folder)
    text = sum(dataset.counts[f"{split.name}.bytes"] for split in dataset.splits)
    tokens = sum(split.tokens for split in dataset.splits)
    sizes = [sum((folder / f"{split.name}{kind}").stat().st_size for split in dataset.splits) for kind in FILES]
    shares = "".join(f"{size / text:10.4f}" for size in (*sizes, sum(sizes)))
    figures = f"{text / 1e6 / done.cpu_s:8.1f}{done.peak / MIB:10.0f}{tokens / text:10.4f}"
    print(f"{tokenizer.name:12}{figures}{shares}", flush=True)


def pace(sampler: Sampler, steps: Iterator[int]) -> float:
    """Tokens of a CPU-second, the best of several rounds, each of other steps."""
    best = 0.0
    for _ in range(ROUNDS):
        begun = time.process_time()
        tokens = sum(int(sampler.batch(step).lengths.sum()) for step in itertools.islice(steps, STEPS))
        best = max(best, tokens / (time.process_time() - begun))
    return best


def sample(folder: Path, tokenizer: Path) -> None:
    """Print how fast batches come."""
    special = special_ids(load_tokenizer(tokenizer))
    print(f"\n{'M tokens/s':24}", *(f"{kind:>14}" for kind in KINDS), sep="")
    for (batch, length), packing in itertools.product(SHAPES, PACKINGS):
        config, source = SamplerConfig(batch=batch, length=length, packing=packing), open_split_data(folder, "train")
        print(f"{f'{batch} x {length} {packing}':24}", end="")
        for masking in KINDS.values():
            hiding = Masking(masking, special, source.separators.newline) if masking else None
            paced = pace(Sampler(source, config, special, hiding), itertools.count())
            print(f"{paced / 1e6:14.1f}", end="", flush=True)
        print()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        source = corpus(Path(name))
        columns = ("MB/s", "peak MiB", "tokens", *FILES, "all")
        print(f"{'a byte':12}{columns[0]:>8}", *(f"{column:>10}" for column in columns[1:]), sep="")
        for model in MODELS:
            tokenizer = train(source, Path(name) / model, "--model", model)
            pack(source, tokenizer, Path(name) / f"{model}-dataset")
        sample(Path(name) / "bpe-dataset", Path(name) / "bpe")


if __name__ == "__main__":
    main()
