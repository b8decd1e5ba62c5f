"""A small dataset and its tokenizer, written independently of jprep, and the shards of fairseq for such documents."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np

from jprep.dataset.manifest import DatasetManifest, Split, write_dataset
from jprep.engine.stage import Output
from jprep.io.atomic import file_sha256
from jprep.tokenizer.card import TokenizerCard, write_card
from jprep.tokenizer.config import TokenizerConfig
from tests.fakes.mark_file import written

Document = list[list[list[int]]]
"""Ids of a document's paragraphs' sentences."""

END, NEWLINE, VOCAB = 2, 14, 40_000


def flat(document: Document) -> list[int]:
    """Return a document as the dataset stores it: newlines between paragraphs, and the end token."""
    paragraphs = [list(chain.from_iterable(paragraph)) for paragraph in document]
    return [*list(chain.from_iterable([*paragraph, NEWLINE] for paragraph in paragraphs))[:-1], END]


def marks_of(document: Document) -> list[int]:
    sentences = [[[3] + [0] * (len(sentence) - 1) for sentence in paragraph] for paragraph in document]
    return [mark for paragraph in sentences for mark in [*chain.from_iterable(paragraph), 0]]


def lay_out(folder: Path, splits: dict[str, list[Document]], **changes: Any) -> Path:
    """Write a dataset of given documents."""
    folder.mkdir(parents=True, exist_ok=True)
    about, dtype = [], changes.get("dtype", "uint16")
    for name, documents in splits.items():
        ids = [flat(document) for document in documents]
        starts = [0, *accumulate(map(len, ids))]
        letter, size, code = {"uint16": ("H", 2, 8), "int32": ("i", 4, 4)}[dtype]
        tokens = list(chain.from_iterable(ids))
        folder.joinpath(f"{name}.bin").write_bytes(struct.pack(f"<{len(tokens)}{letter}", *tokens))
        head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(ids), len(ids) + 1)
        lengths = struct.pack(f"<{len(ids)}i", *map(len, ids))
        pointers = struct.pack(f"<{len(ids)}q", *(size * start for start in starts[:-1]))
        numbers = struct.pack(f"<{len(ids) + 1}q", *range(len(ids) + 1))
        folder.joinpath(f"{name}.idx").write_bytes(head + lengths + pointers + numbers)
        marks = list(chain.from_iterable(map(marks_of, documents)))
        folder.joinpath(f"{name}.marks").write_bytes(written(marks))
        files = [
            Output(f"{name}.{kind}", 0, file_sha256(folder / f"{name}.{kind}")) for kind in ("bin", "idx", "marks")
        ]
        about.append(Split(name, len(ids), len(tokens), files))
    fields: dict[str, Any] = {
        "jprep": "0", "format": 1, "name": "small", "signature": "small", "fingerprint": "0" * 32,
        "made_from": {"tokenizer": {"fingerprint": "tokens"}}, "dtype": "uint16", "vocab_size": VOCAB, "end": END,
        "newline": NEWLINE, "splits": about, "parts": [], "sources": [], "counts": {},
    }  # fmt: skip
    write_dataset(folder, DatasetManifest(**fields | changes))
    return folder


def tokenizer(folder: Path, special: str = "roberta", fingerprint: str = "tokens") -> Path:
    head, tail = (["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"]) if special == "roberta" else (["[PAD]"], [])
    pieces = [*head, *(f"piece{number}" for number in range(len(head), VOCAB - len(tail))), *tail]
    folder.mkdir(parents=True, exist_ok=True)
    vocab = {piece: number for number, piece in enumerate(pieces)}
    folder.joinpath("tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}}))
    config = TokenizerConfig(vocab_size=VOCAB, special=[special])
    card = TokenizerCard(
        jprep="0", format=1, name="small", signature="small", fingerprint=fingerprint, made_from={}, config=config,
        normalizers=[], segmenter=None, sources=[], counts={}, figures={}, files={},
    )  # fmt: skip
    write_card(folder, card)
    return folder


def some(count: int, seed: int) -> list[Document]:
    chance = np.random.default_rng(seed)

    def sentence() -> list[int]:
        return [int(number) for number in chance.integers(260, VOCAB - 1, chance.integers(1, 30))]

    def several(make: Any, most: int) -> list[Any]:
        return [make() for _ in range(chance.integers(1, most))]

    return [several(lambda: several(sentence, 6), 5) for _ in range(count)]


SPLITS = {"train": some(60, 1), "validation": some(7, 2)}


def as_lines(documents: Sequence[Document], unit: str) -> list[list[int]]:
    """Return the result of fairseq's preprocessing for a text with one unit per line, blank lines between."""
    lines = []
    for document in documents:
        for paragraph in document:
            units = paragraph if unit == "sentence" else [list(chain.from_iterable(paragraph))]
            lines += [[*line, END] for line in units if line]
        lines.append([END])
    return lines


def shards(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    assert all(f"-of-{len(found):05d}." in path.name for path in found)
    return found
