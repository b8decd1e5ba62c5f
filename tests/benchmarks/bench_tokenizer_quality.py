"""Word boundaries kept and characters a token, beside a byte BPE learnt on raw text with GPT-2's regular expression."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from tests.benchmarks.measure import JPREP, run
from tests.benchmarks.tokenizers import SIZE, corpus, paragraphs, train


def gpt2(source: Path, path: Path) -> Path:
    """The peer, as tokenizers' documentation makes it."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(paragraphs(source), trainer)
    tokenizer.save(str(path))
    return path


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = corpus(folder)
        ours = [
            train(source, folder / model, "--model", model) for model in ("bpe", "unigram", "byte-bpe", "wordpiece")
        ]
        ours.append(train(source, folder / "super", "--boundaries", "super"))
        others = [*ours[1:], gpt2(source, folder / "gpt2.json")]
        against = [part for other in others for part in ("--against", str(other))]
        print(run([JPREP, "tokenizer", "evaluate", str(ours[0]), *against, str(source)]).out)


if __name__ == "__main__":
    main()
