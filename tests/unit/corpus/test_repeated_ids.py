"""Repeated ids are counted and reported, and handled by splits, lineage and `why`."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.dedup import hashes as hash_files
from jprep.corpus.dedup.repeated_ids import FindRepeatedIds, HashIds, RepeatedIds, repeated_ids
from jprep.corpus.document import Document
from jprep.corpus.readers.lines import Cc100Reader, JsonlReader, TextReader
from jprep.corpus.readers.wikipedia import WikipediaReader
from jprep.corpus.store import read_rows, row_writer
from jprep.dataset.lineage import find_origin, locate_document, text_around
from jprep.dataset.manifest import read_dataset
from jprep.dataset.preprocessing.split_assignment import SplitAssignment, split_of_key
from jprep.engine.stage import Output, Receipt, Stage
from tests.conftest import Run

Ids = list[list[list[str]]]
"""Ids by source and part."""


def run(stage: Stage, root: Path) -> list[Receipt]:
    results = [(task, stage.run(task, root)) for task in stage.tasks()]
    return [Receipt(task.id, task.digest, "", result.outputs, {}, {}) for task, result in results]


def counted(root: Path, ids: Ids) -> dict[int, RepeatedIds]:
    """Return what the two stages find in parts with these ids."""
    parts: list[tuple[int, Output]] = []
    for source, of_source in enumerate(ids):
        for number, names in enumerate(of_source):
            with row_writer(root, f"documents/{source:04}-s-{number:06}.parquet", Document, {}) as part:
                part.add([Document(name, f"s{source}", "", "", "本文") for name in names])
            if part.output:
                parts.append((source, part.output))
    hashed = run(HashIds(parts, "ids/"), root)
    files = [output for receipt in hashed for output in receipt.outputs]
    found = run(FindRepeatedIds(files, "ids/"), root)
    return repeated_ids(root, [part for _, part in parts], found)


def naive(ids: Ids) -> dict[int, tuple[int, int, int]]:
    """Per source: repeated ids, documents that have one, and how often the most frequent occurs."""
    found = {}
    for source, of_source in enumerate(ids):
        often = [times for times in Counter(name for part in of_source for name in part).values() if times > 1]
        if often:
            found[source] = (len(often), sum(often), max(often))
    return found


NAMES = st.lists(st.lists(st.lists(st.integers(0, 12).map(str), max_size=12), max_size=4), max_size=3)


@settings(deadline=None, max_examples=60)
@given(names=NAMES, bucket=st.sampled_from([3, 20, 1000]))
def test_repeated_ids_equal_a_simple_count(names: Ids, bucket: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    ids = [[[f"s{source}:{name}" for name in part] for part in parts] for source, parts in enumerate(names)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_files, "_BUCKET", bucket)
        found = counted(tmp_path_factory.mktemp("ids"), ids)
    assert {source: (each.ids, each.documents, each.times) for source, each in found.items()} == naive(ids)
    for source, each in found.items():
        assert [name for part in ids[source] for name in part].count(each.example) == each.times


def test_only_readers_whose_ids_come_from_the_input_are_checked() -> None:
    assert Cc100Reader().ids_are_positions and TextReader().ids_are_positions and JsonlReader().ids_are_positions
    assert not JsonlReader(JsonlReader.Config(id="id")).ids_are_positions
    assert not WikipediaReader().ids_are_positions


SENTENCES = [
    "東京は首都である。",
    "京都は古い都である。",
    "大阪は水の都である。",
    "札幌は雪が深い。",
    "福岡は港がある。",
]


def write(path: Path, ids: list[str]) -> Path:
    rows = [{"id": name, "text": f"{SENTENCES[n % 4]}第{n}の文である。"} for n, name in enumerate(ids)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def built(folder: Path, ids: list[str], **more: object) -> Corpus:
    folder.mkdir(exist_ok=True)
    reader = {"use": "jsonl", "id": "id", "shard_mb": 0.01}
    source = {"name": "web", "paths": [str(write(folder / "in.jsonl", ids))], "reader": reader}
    recipe = {"name": "r", "corpus": {"sources": [source], "segmenter": "none"} | more}
    return Corpus.build(decode_recipe(recipe), folder / "corpus")


@pytest.mark.parametrize("documents", [True, False])
def test_manifest_lists_repeated_ids(documents: bool, tmp_path: Path) -> None:
    corpus = built(tmp_path, ["a", "b", "a", "c", "b", "a", "d"], dedup={"documents": documents})
    [source] = corpus.manifest.sources
    assert source["repeated_ids"] == {"ids": 2, "documents": 5, "example": "web:a", "times": 3}
    assert list(corpus.verify()) == []
    again = Corpus.build(
        decode_recipe(
            {
                "name": "r",
                "corpus": {
                    "sources": [{"name": "web", "paths": [str(tmp_path / "in.jsonl")], "reader": {"use": "jsonl"}}],
                    "segmenter": "none",
                    "dedup": {"documents": documents},
                },
            }
        ),
        tmp_path / "numbered",
    )
    assert "repeated_ids" not in again.manifest.sources[0]


def test_dropped_duplicates_do_not_count(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "同じ文である。"},
        {"id": "a", "text": "同じ文である。"},
        {"id": "b", "text": "別の文である。"},
    ]
    (tmp_path / "in.jsonl").write_text("".join(map("{}\n".format, map(json.dumps, rows))), encoding="utf-8")
    source = {"name": "web", "paths": [str(tmp_path / "in.jsonl")], "reader": {"use": "jsonl", "id": "id"}}
    recipe = {"name": "r", "corpus": {"sources": [source], "segmenter": "none", "dedup": {"documents": True}}}
    corpus = Corpus.build(decode_recipe(recipe), tmp_path / "corpus")
    assert len(corpus) == 2 and "repeated_ids" not in corpus.manifest.sources[0]


def test_build_warns_and_why_lists_every_document(tmp_path: Path, jprep: Run) -> None:
    corpus = built(tmp_path, [f"q{n % 3}" for n in range(300)] + ["only"])
    shown = jprep("corpus", "stats", corpus.folder).stdout
    assert "warning: source web: 300 documents share 3 ids (web:q0 occurs 100 times)" in shown
    assert "leave `id` out" in shown
    assert "300 documents" in json.loads(jprep("corpus", "stats", corpus.folder, "--json").stdout)["warnings"][0]
    found = json.loads(jprep("corpus", "why", corpus.folder, "web:q1", "--json").stdout)
    assert len({(each["part"], each["row"]) for each in found}) == len(found) == 100
    printed = jprep("corpus", "why", corpus.folder, "web:q1").stdout.splitlines()
    assert len(set(printed)) == 100 and all("row" in line for line in printed)
    [one] = corpus.find("web:only")
    assert one.part == corpus.manifest.parts[-1].path and one.row == corpus.manifest.parts[-1].rows - 1


def test_split_depends_on_unique_ids_only() -> None:
    splitting = SplitAssignment(0.3, by_text=["other"])
    for number in range(1000):
        doc = Document(f"web:{number}", "web", "", "", f"{number}")
        assert splitting.split_of(doc) == split_of_key(doc.id, 0.3) == SplitAssignment(0.3).split_of(doc)
    assert SplitAssignment(0.3).columns == ["id"]


@settings(deadline=None)
@given(st.floats(0.05, 0.5), st.integers(0, 1 << 30))
def test_documents_with_equal_ids_are_split_by_text(share: float, seed: int) -> None:
    splitting, drawn = SplitAssignment(share, by_text=["web"]), random.Random(seed)
    docs = [Document("web:a", "web", "", "", f"文{drawn.random()}") for _ in range(2000)]
    validation = [splitting.split_of(doc) == "validation" for doc in docs]
    assert abs(sum(validation) / len(docs) - share) < 0.08
    assert [splitting.split_of(msgspec.structs.replace(doc)) == "validation" for doc in docs] == validation


KIND = ("--model", "byte-bpe", "--vocab-size", 400, "--boundaries", "none")


def test_lineage_identifies_the_document(tmp_path: Path, jprep: Run) -> None:
    corpus = built(tmp_path, [f"q{n % 2}" for n in range(400)])
    tokenizer, dataset = tmp_path / "tokenizer", tmp_path / "dataset"
    jprep("tokenizer", "train", corpus.folder, "-o", tokenizer, *KIND)
    setting = ("--set", "dataset.validation=0.25")
    jprep("dataset", "pack", corpus.folder, "--tokenizer", tokenizer, "-o", dataset, *setting)
    manifest = read_dataset(dataset)
    assert manifest.made_from["split_by_text"] == ["web"]
    assert 60 < next(split.documents for split in manifest.splits if split.name == "validation") < 140
    texts = {part.path: [doc.text for doc in documents_of(corpus, part)] for part in corpus.manifest.parts}
    seen = []
    for split in manifest.splits:
        for number in range(0, split.documents, 40):
            origin = find_origin(
                manifest, place := locate_document(dataset, split.name, document=number), corpus.folder
            )
            _, token, after = text_around(dataset, manifest, place, place.tokens[0], tokenizer)
            shown = (token + after).removesuffix("<|endoftext|>")
            assert shown and texts[place.part][origin.row].startswith(shown)
            seen.append((place.part, origin.row))
    assert len(set(seen)) == len(seen) > 5


def documents_of(corpus: Corpus, part: Output) -> list[Document]:
    return list(read_rows(corpus.folder, part, Document))
