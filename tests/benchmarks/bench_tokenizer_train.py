"""Time and memory of training, counting included, beside the same library called plainly on the same words.

Then the memory for a corpus and for one ten times as large, with a cap on distinct words that binds in both.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.measure import JPREP, MIB, Run, run
from tests.benchmarks.tokenizers import SIZE, corpus

SPM = f"""
import sys, sentencepiece
sentencepiece.SentencePieceTrainer.train(
    input=sys.argv[1], model_prefix=sys.argv[2], model_type=sys.argv[3], vocab_size={SIZE}, byte_fallback=True,
    normalization_rule_name="identity", character_coverage=0.9995, max_sentence_length=1 << 20, num_threads=8,
    minloglevel=2)
"""
HF = f"""
import sys, tokenizers
from tokenizers import models, pre_tokenizers, trainers
kind = sys.argv[3]
if kind == "byte-bpe":
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size={SIZE}, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
else:
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(vocab_size={SIZE}, limit_alphabet=4000, show_progress=False)
tokenizer.train([sys.argv[1]], trainer)
tokenizer.save(sys.argv[2] + ".json")
"""
PLAIN = {"bpe": SPM, "unigram": SPM, "byte-bpe": HF, "wordpiece": HF}
CAP = 30_000


def timed(command: list[str]) -> tuple[float, Run]:
    """Run a program; its wall time in seconds, and what it did."""
    begun = time.perf_counter()
    done = run(command)
    if done.code:
        raise SystemExit(done.err)
    return time.perf_counter() - begun, done


def row(name: str, wall: float, done: Run) -> None:
    print(f"{name:34}{wall:>10.1f}{done.cpu_s:>10.1f}{done.peak / MIB:>10.0f}", flush=True)


def beside_the_plain_library(source: Path, folder: Path) -> None:
    words = folder / "words.txt"
    run([JPREP, "corpus", "export", str(source), "--format", "words", "-o", str(words)])
    print(f"{f'{words.stat().st_size / 1e6:.0f} MB of words':34}{'wall s':>10}{'CPU s':>10}{'peak MiB':>10}")
    for model, program in PLAIN.items():
        row(f"{model}, plainly", *timed([sys.executable, "-c", program, str(words), str(folder / model), model]))
        command = [JPREP, "tokenizer", "train", str(source), "--model", model, "--vocab-size", str(SIZE)]
        for workers in ("1", "2"):
            out = str(folder / f"{model}-{workers}")
            row(f"{model}, jprep, {workers} workers", *timed([*command, "--workers", workers, "-o", out]))


def ten_times(source: Path, folder: Path) -> None:
    """Text of which each copy has words of its own, so that distinct words grow as in life."""
    from jprep import Corpus

    print(f"\n{f'at most {CAP:,} distinct words':34}{'wall s':>10}{'CPU s':>10}{'peak MiB':>10}")
    texts = [document.text for document in Corpus(source).documents(["text"])]
    for copies in (1, 10):
        text = folder / f"{copies}.txt"
        with text.open("w", encoding="utf-8") as out:
            for copy in range(copies):
                out.writelines(f"{line}第{copy}-{n}節\n" for n, each in enumerate(texts) for line in each.split("\n"))
        large = folder / f"corpus{copies}"
        run([JPREP, "corpus", "build", "--text", str(text), "--set", "corpus.dedup.documents=false", "-o", str(large)])
        command = [JPREP, "tokenizer", "train", str(large), "--set", f"tokenizer.max_words={CAP}", "--workers", "1"]
        for model in ("bpe", "unigram"):
            size = ["--vocab-size", "16000", "--model", model, "-o", str(folder / f"{model}x{copies}")]
            row(f"{model}, {text.stat().st_size / 1e6:.0f} MB of text", *timed([*command, *size]))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = corpus(folder)
        beside_the_plain_library(source, folder)
        ten_times(source, folder)


if __name__ == "__main__":
    main()
