"""The data of the suite: texts from counter-based random bits with bytes as tokens, labelled rows, and conversations.

A token is a byte of UTF-8, so no tokenizer has to be trained, and the data does not depend on a library's version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from jprep.dataset.indexed.mark_file import MarkWriter
from jprep.dataset.indexed.split import BIN, IDX, MARKS, write_index
from jprep.dataset.manifest import SENTENCE_START, TRAIN, VALIDATION, WORD_START, DatasetManifest, Split, write_dataset
from jprep.engine.stage import Output
from jprep.io.atomic import file_sha256
from jprep.random.counter_bits import below, bits, key
from jprep.tokenizer.card import TokenizerCard, write_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.byte_level import CHARACTER_TO_BYTE
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS

Sentence = list[str]
Document = list[list[Sentence]]
"""A document: paragraphs of sentences of words."""

WORDS = (
    "は", "が", "を", "に", "ねこ", "いぬ", "とり", "さかな",
    "みる", "きく", "たべる", "あるく", "やま", "かわ", "うみ", "そら",
)  # fmt: skip
STOP = "。"

DOCUMENTS = {TRAIN: 70, VALIDATION: 6}
ROWS = {TRAIN: 160, VALIDATION: 36}
"""The number of labelled rows of each split."""
CONVERSATIONS = {TRAIN: 90, VALIDATION: 14}
"""The number of conversations of each split."""


def documents(split: str) -> list[Document]:
    """Return the documents of a split."""
    return [_document(_dice("document", split, number)) for number in range(DOCUMENTS[split])]


def write_suite_tokenizer(folder: Path, special: str) -> Path:
    """Write a byte-level tokenizer with a set of special tokens."""
    chosen = SPECIAL_TOKEN_SETS[special]
    spelt = {byte: character for character, byte in CHARACTER_TO_BYTE.items()}
    pieces = [*chosen.head, *(spelt[byte] for byte in range(256)), *chosen.tail]
    model = {"type": "BPE", "vocab": {piece: number for number, piece in enumerate(pieces)}, "merges": []}
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    served: dict[str, Any] = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": split, "post_processor": None,
        "decoder": split, "model": model,
    }  # fmt: skip
    folder.mkdir(parents=True)
    folder.joinpath(TOKENIZER_JSON).write_bytes(msgspec.json.encode(served))
    config = TokenizerConfig(model="byte-bpe", vocab_size=len(pieces), boundaries="none", special=[special])
    card = TokenizerCard(
        jprep="0", format=1, name="suite", signature="suite", fingerprint=f"suite-{special}", made_from={},
        config=config, normalizers=[], segmenter=None, sources=[], counts={}, figures={},
        files={TOKENIZER_JSON: file_sha256(folder / TOKENIZER_JSON)},
    )  # fmt: skip
    write_card(folder, card)
    return folder


def write_suite_dataset(folder: Path, special: str) -> Path:
    """Write the documents as a dataset, for the tokenizer with that set of special tokens."""
    chosen = SPECIAL_TOKEN_SETS[special]
    first, size = len(chosen.head), len(chosen.tokens) + 256
    ids = {token: number for number, token in enumerate(chosen.head)}
    ids |= {token: first + 256 + index for index, token in enumerate(chosen.tail)}
    end = ids[chosen.eos or chosen.sep]
    folder.mkdir(parents=True)
    dataset = DatasetManifest(
        jprep="0", format=1, name="suite", signature="suite", fingerprint=f"suite-{special}",
        made_from={"tokenizer": {"fingerprint": f"suite-{special}"}, "segmenter": "suite"}, dtype="uint16",
        vocab_size=size, end=end, newline=first + ord("\n"),
        splits=[_write_split(folder, split, first, end) for split in (TRAIN, VALIDATION)],
        parts=[], sources=[], counts={},
    )  # fmt: skip
    write_dataset(folder, dataset)
    return folder


def write_suite_rows(folder: Path, task: str) -> dict[str, list[str]]:
    """Write labelled rows or conversations, and return the keys `data` and `validation_data` of a job.

    A row's label depends on the number of words in both texts, its score on those in the first text. An answer has the
    words of the question in reverse order.
    """
    folder.mkdir(parents=True)
    kind, counts = ("conversation", CONVERSATIONS) if task == "sft" else ("row", ROWS)
    for split, count in counts.items():
        lines = [msgspec.json.encode(_row(_dice(kind, split, number), task)) for number in range(count)]
        folder.joinpath(f"{split}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return {"data": [str(folder / f"{TRAIN}.jsonl")], "validation_data": [str(folder / f"{VALIDATION}.jsonl")]}


Dice = Callable[[int], int]


def _dice(*parts: str | int) -> Dice:
    """Return a generator of random numbers from 0 to below a limit."""
    keys, counter = key("backend suite", *parts), iter(range(1 << 20))
    return lambda limit: int(below(limit, bits(keys, np.array([next(counter)], np.uint64)))[0])


def _sentence(dice: Dice) -> Sentence:
    """Return a sentence of random length in which each word depends on the previous one."""
    index, words = dice(len(WORDS)), []
    for _ in range(1 + dice(5)):
        words.append(WORDS[index])
        index = (5 * index + 3 + dice(3)) % len(WORDS)
    return [*words, STOP]


def _document(dice: Dice) -> Document:
    return [[_sentence(dice) for _ in range(1 + dice(4))] for _ in range(1 + dice(3))]


def _row(dice: Dice, task: str) -> dict[str, Any]:
    if task == "sft":
        return {"messages": _messages(dice)}
    one, two = _sentence(dice), _sentence(dice)
    words = len(one) + len(two)
    label = ("few", "some", "many")[(words > 6) + (words > 9)] if task == "classify" else len(one) / 4
    return {"text": "".join(one), "pair": "".join(two), "label": label}


def _messages(dice: Dice) -> list[dict[str, str]]:
    found = [] if dice(3) else [{"role": "system", "content": WORDS[dice(len(WORDS))]}]
    for _ in range(1 + dice(3)):
        words = _sentence(dice)
        found.append({"role": "user", "content": "".join(words)})
        found.append({"role": "assistant", "content": "".join([*reversed(words[:-1]), STOP])})
    return found


def _write_split(folder: Path, split: str, first: int, end: int) -> Split:
    """Write the three files of a split. Byte b is the token `first` + b."""
    texts = [list(_tokens(document, first, end)) for document in documents(split)]
    lengths = np.array([len(text) for text in texts], np.int64)
    tokens = np.array(list(chain.from_iterable(texts)), np.int64).reshape(-1, 2)
    folder.joinpath(split + BIN).write_bytes(tokens[:, 0].astype("<u2").tobytes())
    with folder.joinpath(split + IDX).open("wb") as file:
        write_index(file, "uint16", len(lengths), lambda: [lengths])
    with folder.joinpath(split + MARKS).open("wb") as file:
        marks = MarkWriter(file)
        marks.add(tokens[:, 1].astype(np.uint8))
        marks.end()
    files = [Output(split + suffix, 0, file_sha256(folder / (split + suffix))) for suffix in (BIN, IDX, MARKS)]
    return Split(split, len(texts), len(tokens), files)


def _tokens(document: Document, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the tokens of a document with their marks: newlines between paragraphs, and the end token."""
    for number, paragraph in enumerate(document):
        if number:
            yield first + ord("\n"), 0
        for sentence in paragraph:
            yield from _marked(sentence, first)
    yield end, 0


def _marked(sentence: Sequence[str], first: int) -> Iterator[tuple[int, int]]:
    for number, word in enumerate(sentence):
        mark = WORD_START | (0 if number else SENTENCE_START)
        for index, byte in enumerate(word.encode()):
            yield first + byte, 0 if index else mark
