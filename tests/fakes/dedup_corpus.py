"""Corpora of several input files, for tests of deduplication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe


def build_deduplicated(
    folder: Path, records: Sequence[Mapping[str, str]], per_file: int, workers: int = 1, **options: Any
) -> Corpus:
    """Build `FOLDER/corpus` from records with `text` and perhaps `score`; the id of a document is its number.

    Args:
        folder: where to write; it must not exist.
        records: the documents.
        per_file: documents of an input file.
        workers: processes.
        options: keys of the section `corpus`.
    """
    folder.mkdir(parents=True)
    paths = []
    for first in range(0, len(records), per_file):
        rows = [{"id": str(first + number)} | row for number, row in enumerate(records[first : first + per_file])]
        paths.append(str(folder / f"{first:04}.jsonl"))
        Path(paths[-1]).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    meta = ["score"] if any("score" in row for row in records) else []
    source = {"name": "s", "paths": paths, "reader": {"use": "jsonl", "id": "id", "meta": meta}}
    steps = {"normalizers": [], "splitter": "none", "segmenter": "none", **options}
    recipe = decode_recipe({"name": "near", "corpus": {"sources": [source], **steps}})
    return Corpus.build(recipe, folder / "corpus", workers=workers)
