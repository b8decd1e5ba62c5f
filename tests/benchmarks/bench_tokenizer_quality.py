"""Tokenizers of 32,000 ids on held-out wikitext, web text and prose, each beside peers that learn from the raw text.

One document in 40 is held out, by the hash of its text. The peers are tokenizers' byte BPE with GPT-2's regular
expression, as its documentation makes it, and sentencepiece's Unigram with its own defaults.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import sentencepiece
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from tests.benchmarks.measure import JPREP, run
from tests.benchmarks.tokenizers import SIZE, build, paragraphs, sources, train

HELD_OUT = 40
OURS = {
    "bpe": ("--model", "bpe"),
    "unigram": ("--model", "unigram"),
    "byte-bpe": ("--model", "byte-bpe"),
    "wordpiece": ("--model", "wordpiece"),
    "bpe, super": ("--model", "bpe", "--boundaries", "super"),
    "bpe, none": ("--model", "bpe", "--boundaries", "none"),
}
FIGURES = ("characters_per_token", "boundary_recall", "boundary_precision", "word_cut_rate", "lossless_rate")
_LONGEST = 4_192  # bytes of a line, sentencepiece's default


def split(source: Path, learnt: Path, heldout: Path) -> None:
    """Write the documents of a corpus to two files, as lines of JSON."""
    from jprep import Corpus

    with learnt.open("a", encoding="utf-8") as most, heldout.open("w", encoding="utf-8") as few:
        for document in Corpus(source).documents(["text"]):
            file = most if zlib.crc32(document.text.encode()) % HELD_OUT else few
            file.write(json.dumps({"text": document.text}) + "\n")


def gpt2(source: Path, path: Path) -> Path:
    """Train a byte BPE with GPT-2's regular expression."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(paragraphs(source), trainer)
    tokenizer.save(str(path))
    return path


def unigram(source: Path, path: Path) -> Path:
    """Train sentencepiece's Unigram on lines that are not longer than its default allows."""
    lines: Iterator[str] = (line for line in paragraphs(source) if line and len(line.encode()) <= _LONGEST)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_prefix=str(path.with_suffix("")), model_type="unigram", vocab_size=SIZE,
        byte_fallback=True, minloglevel=2,
    )  # fmt: skip
    return path


def figures(names: Sequence[str], paths: Sequence[Path], heldout: Path) -> Iterator[str]:
    """Yield a line of figures for each tokenizer on a corpus."""
    against = [part for path in paths[1:] for part in ("--against", str(path))]
    done = run([JPREP, "tokenizer", "evaluate", "--json", "--limit-mb", "0", str(paths[0]), *against, str(heldout)])
    if done.code:
        raise SystemExit(done.err)
    for name, found in zip(names, json.loads(done.out), strict=True):
        yield f"{name:28}" + "".join(f"{found['figures'].get(figure, float('nan')):22.4f}" for figure in FIGURES)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, heldout = Path(name), dict[str, Path]()
        learnt = folder / "learnt.jsonl"
        for kind, arguments in sources(folder).items():
            split(build([*arguments, "--segmenter", "none"], folder / kind), learnt, folder / f"{kind}.jsonl")
            heldout[kind] = build(["--jsonl", str(folder / f"{kind}.jsonl")], folder / f"{kind}-heldout")
        source = build(["--jsonl", str(learnt)], folder / "corpus")
        paths = [train(source, folder / own.replace(", ", "-"), *options) for own, options in OURS.items()]
        paths += [gpt2(source, folder / "gpt2.json"), unigram(source, folder / "raw.model")]
        names = [*OURS, "byte BPE of raw text", "sentencepiece of raw text"]
        for kind, corpus in heldout.items():
            print(f"{kind:28}" + "".join(f"{figure:>22}" for figure in FIGURES), flush=True)
            print(*figures(names, paths, corpus), sep="\n", flush=True)


if __name__ == "__main__":
    main()
