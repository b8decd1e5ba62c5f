"""Small vocabularies for tests, and tokenizer directories of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.tokenizer.card import TokenizerCard, write_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.export import write_tokenizer_files
from jprep.tokenizer.formats.byte_level import ALPHABET, BYTE_TO_CHARACTER
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.vocabulary import Vocabulary, VocabularyPiece

_LEARNT = (
    "すもも もも も の うち 日本 日本語 東京 東京都 する します です ます した Python ▁Python the ▁the ▁is def ▁▁▁▁ "
    "print 20 2020 年 年代 、 。 「 」 ( ) Hello ▁world を と は が ▁code ーム ゲーム"
)
WORDS = _LEARNT.split()
ALONE = sorted({c for word in WORDS for c in word} | set("▁abcdefghijklmnopqrstuvwxyzABCDEFG0123456789.,:='\"_-〜#"))


def small(model: str = "bpe", **options: Any) -> Vocabulary:
    """Return a vocabulary of a few hundred ids."""
    config = TokenizerConfig(model=model, **options)  # type: ignore[arg-type]
    special, merges = special_tokens(config), []
    longer = list(dict.fromkeys(word[:end] for word in WORDS for end in range(2, len(word) + 1)))
    if model == "wordpiece":
        spelt = ["␤", *ALONE, *longer]
        inner = [f"##{word}" for word in [*ALONE, *longer] if not word.startswith("▁")]
        prefixed = config.boundaries in ("hard", "bert")
        pieces = [VocabularyPiece(word) for word in (spelt + inner if prefixed else spelt)]
    elif model == "words":
        spelt = [word for word in (*WORDS, *longer, *ALONE) if "▁" not in word]
        pieces = [VocabularyPiece(word) for word in dict.fromkeys([*spelt, *(f"語{number}" for number in range(200))])]
    elif model == "byte-bpe":
        merges = _byte_merges()
        pieces = [VocabularyPiece(character, "byte") for character in ALPHABET] + [
            VocabularyPiece(a + b) for a, b in merges
        ]
    else:
        pieces = [VocabularyPiece(f"<0x{byte:02X}>", "byte") for byte in range(256)] + _scored(model, longer)
    made = {token: VocabularyPiece(token, "unknown" if token == special.unk else "special") for token in special.tokens}
    pieces = [*(made[token] for token in special.head), *pieces, *(made[token] for token in special.tail)]
    config = msgspec.structs.replace(config, vocab_size=len(pieces))
    return Vocabulary(config, special, pieces, merges, "".join(ALONE), {})


def _scored(model: str, longer: list[str]) -> list[VocabularyPiece]:
    spelt = [*longer, *ALONE]
    if model == "bpe":
        return [VocabularyPiece(word, "normal", -float(rank)) for rank, word in enumerate(spelt)]
    return [VocabularyPiece(word, "normal", -4.25 - rank / 64) for rank, word in enumerate(spelt)]  # exact in 32 bits


def _byte_merges() -> list[tuple[str, str]]:
    merges: dict[str, tuple[str, str]] = {}
    for word in WORDS:
        spelt = "".join(BYTE_TO_CHARACTER[byte] for byte in word.replace("▁", " ").encode())
        for end in range(2, len(spelt) + 1):
            merges.setdefault(spelt[:end], (spelt[: end - 1], spelt[end - 1]))
    return list(merges.values())


def finished(folder: Path, vocabulary: Vocabulary, normalizers: Any = (), segmenter: Any = None) -> Path:
    """Write a vocabulary's directory with a card."""
    write_tokenizer_files(vocabulary, normalizers, folder)
    card = TokenizerCard(
        jprep="0", format=1, name="small", signature="", fingerprint="", made_from={}, config=vocabulary.config,
        normalizers=list(normalizers), splitter=None, segmenter=segmenter, sources=[], counts={}, figures={}, files={},
    )  # fmt: skip
    write_card(folder, card)
    return folder
