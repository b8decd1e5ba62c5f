"""A corpus with signals and clusters, and datasets that are packed in parts of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from jprep import Corpus
from jprep.corpus.config import decode_recipe
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import DatasetManifest, PackedPart, read_dataset, write_dataset
from jprep.dataset.mix import MixConfig, packed_parts
from jprep.dataset.pack import pack
from jprep.engine.executors.local import Local
from jprep.engine.fingerprint import plain
from jprep.engine.runner import SilentProgress
from tests.fakes.config_sections import dataset_config
from tests.unit.dataset.test_mixtures import mixed_dataset
from tests.unit.tokenizer.vocabularies import finished, small

MIX: dict[str, Any] = {
    "repeats": {"twins": 2, "long": 3, "short": 1, "code": 0.5},
    "parts": [
        {"name": "twins", "cluster_size": {"min": 2}},
        {"name": "long", "source": "web", "where": [{"signal": "characters", "min": 60}]},
        {"name": "short", "source": "web", "where": [{"signal": "characters", "above": 30, "below": 60}]},
    ],
}
"""Clusters, two buckets of a signal, and what is left of a source; the rest of `web` is in no part."""

_SENTENCE = "山の上の小さな図書館では、毎週土曜日に詩を読む会が開かれている。"


def texts() -> dict[str, list[str]]:
    """Return the documents of each source: of several lengths, some of them nearly the same."""
    web = [f"{number}番の駅から" + "町" * (number % 90) + f"まで歩いた{number * 7919}。" for number in range(120)]
    twins = [f"{_SENTENCE * 4}参加者は{number}人。" for number in range(8)]
    code = [f"x{number} = {number}  # 値{number}" for number in range(30)]
    return {"web": [*web, *twins[:4]], "code": [*code, *twins[4:]]}


def build_corpus(folder: Path, **options: Any) -> Corpus:
    """Build `FOLDER/corpus` with the signal `characters` and clusters of near-duplicates."""
    sources = []
    for name, lines in texts().items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in lines), encoding="utf-8")
        sources.append({"name": name, "paths": [str(path)], "reader": "jsonl"})
    dedup = {"documents": False, "near": {"drop": False}}
    corpus = {"sources": sources, "normalizers": [], "segmenter": "none", "signals": ["characters"], "dedup": dedup}
    return Corpus.build(decode_recipe({"name": "small", "corpus": corpus | options}), folder / "corpus")


def small_tokenizer(folder: Path) -> Path:
    return finished(folder, small("byte-bpe", boundaries="none"))


def pack_parts(
    corpus: Corpus, tokenizer: Path, folder: Path, mix: dict[str, Any] | None = MIX, workers: int = 1, **section: Any
) -> DatasetManifest:
    config = dataset_config({"validation": 0.2, **({"mix": mix} if mix else {}), **section}, "here")
    executor = Local(workers)
    try:
        return pack(corpus, tokenizer, config, folder, executor, SilentProgress())
    finally:
        executor.close()


def mixed_parts_dataset(folder: Path, mix: MixConfig, sizes: dict[str, int], ids: int, **fields: Any) -> Path:
    """Write the dataset of `mixed_dataset` as one that has some numbers of documents in the parts of a mixture."""
    return divide(mixed_dataset(folder, ids, **fields), mix, sizes)


def divide(folder: Path, mix: MixConfig, sizes: dict[str, int], **fields: Any) -> Path:
    """Make the manifest of a dataset say that it was packed in parts with some numbers of documents."""
    found, split, parts, first = read_dataset(folder), IndexedSplit(folder / "train", "uint16"), [], 0
    for name, documents in sizes.items():
        stop = first + documents
        parts.append(PackedPart(name, documents, int(split.offsets[stop] - split.offsets[first])))
        first = stop
    assert first == len(split)
    listed = plain(packed_parts(mix, [source["name"] for source in found.sources]))
    made_from = found.made_from | {"mix": {"parts": listed}}
    write_dataset(folder, msgspec.structs.replace(found, mix_parts=parts, made_from=made_from, **fields))
    return folder
