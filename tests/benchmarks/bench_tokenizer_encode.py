"""MB of UTF-8 text per CPU-second when encoding, beside the bare libraries; one thread.

Best of several passes over the same lines. Below each model that sentencepiece knows, a tokenizer's first pass over all
lines, before it has kept anything, in turns with sentencepiece, call by call.
"""

from __future__ import annotations

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import sentencepiece
import tokenizers

from jprep import load_tokenizer
from tests.benchmarks.tokenizers import corpus, paragraphs, train

BATCH, LARGE_BATCH = 1_000, 4_096  # lines of a call; packing a dataset encodes as many documents as the latter
ROUNDS = 3
Encode = Callable[[list[str]], object]


def pace(encode: Encode, lines: list[str], rounds: int = ROUNDS) -> float:
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        for start in range(0, len(lines), BATCH):
            encode(lines[start : start + BATCH])
        best = min(best, time.process_time() - begun)
    return megabytes(lines) / best


def in_turns(encoders: Sequence[Encode], lines: list[str], batch: int) -> list[float]:
    """The paces of encoders that take turns to be the first one of a call."""
    seconds = [0.0] * len(encoders)
    for turn, start in enumerate(range(0, len(lines), batch)):
        for place in range(len(encoders)):
            number = (turn + place) % len(encoders)
            begun = time.process_time()
            encoders[number](lines[start : start + batch])
            seconds[number] += time.process_time() - begun
    return [megabytes(lines) / each for each in seconds]


def megabytes(lines: list[str]) -> float:
    return sum(len(line.encode()) for line in lines) / 1e6


def print_first_pass(folder: Path, spm: sentencepiece.SentencePieceProcessor, lines: list[str]) -> None:
    """Print the paces of a tokenizer that has kept nothing yet, and of sentencepiece."""
    for batch in (BATCH, LARGE_BATCH):
        ours = load_tokenizer(folder)
        encoders = [partial(ours.encode_batch, normalized=True), partial(spm.encode, num_threads=1)]
        mine, other = in_turns(encoders, lines, batch)
        print(f"  first pass, {batch} lines a call: {mine:.1f} / {other:.1f} = {mine / other:.2f}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        source = corpus(Path(name))
        everything = list(paragraphs(source))
        lines = everything[::10]
        columns = ("jprep", "from raw", "sentencepiece", "tokenizers")
        print(f"{'MB/s':12}", *(f"{column:>15}" for column in columns), sep="")
        for model in ("bpe", "unigram", "byte-bpe", "wordpiece"):
            folder = train(source, Path(name) / model, "--model", model)
            ours, exported = load_tokenizer(folder), tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            paces = [pace(partial(ours.encode_batch, normalized=True), lines), pace(ours.encode_batch, lines)]
            spm = None
            if (folder / "spm.model").exists():
                spm = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
            paces.append(pace(partial(spm.encode, num_threads=1), lines) if spm else float("nan"))
            paces.append(pace(exported.encode_batch, lines[::10]))
            print(f"{model:12}", *(f"{figure:15.1f}" for figure in paces), sep="", flush=True)
            if spm:
                print_first_pass(folder, spm, everything)


if __name__ == "__main__":
    main()
