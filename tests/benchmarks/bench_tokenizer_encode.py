"""MB of UTF-8 text per CPU-second when encoding, beside the bare libraries; one thread.

Best of several passes over the same lines; `first` is a tokenizer's first pass, before it has kept anything.
"""

from __future__ import annotations

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sentencepiece
import tokenizers

from jprep import load_tokenizer
from tests.benchmarks.tokenizers import corpus, paragraphs, train

BATCH = 1_000
ROUNDS = 3
Encode = Callable[[list[str]], object]


def pace(encode: Encode, lines: list[str], rounds: int = ROUNDS) -> float:
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        for start in range(0, len(lines), BATCH):
            encode(lines[start : start + BATCH])
        best = min(best, time.process_time() - begun)
    return sum(len(line.encode()) for line in lines) / 1e6 / best


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        source = corpus(Path(name))
        lines = list(paragraphs(source, stride=10))
        columns = ("first", "jprep", "from raw", "sentencepiece", "tokenizers")
        print(f"{'MB/s':12}", *(f"{column:>15}" for column in columns), sep="")
        for model in ("bpe", "unigram", "byte-bpe", "wordpiece"):
            folder = train(source, Path(name) / model, "--model", model)
            ours, exported = load_tokenizer(folder), tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            rounds = (1, ROUNDS)
            paces = [pace(lambda batch, ours=ours: ours.encode_batch(batch, normalized=True), lines, n) for n in rounds]
            paces.append(pace(ours.encode_batch, lines))
            if (folder / "spm.model").exists():
                spm = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
                paces.append(pace(lambda batch, spm=spm: spm.encode(batch, num_threads=1), lines))
            else:
                paces.append(float("nan"))
            paces.append(pace(exported.encode_batch, lines[::10]))
            print(f"{model:12}", *(f"{figure:15.1f}" for figure in paces), sep="", flush=True)


if __name__ == "__main__":
    main()
