"""Parts of a mixture: which documents they take, and how a dataset is packed in them."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep import Corpus
from jprep.corpus.document import Document
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.lineage import find_origin, locate_document
from jprep.dataset.manifest import DatasetManifest, read_dataset
from jprep.dataset.mix import MixConfig, check_sources, packed_parts
from jprep.dataset.mix_parts import MixPart, SizeLimits
from jprep.dataset.preprocessing.part_assignment import NO_PART, PartAssignment
from jprep.dataset.preprocessing.split_assignment import split_of_key
from jprep.dataset.sampling.sources import check_packed_parts, source_ranges
from jprep.errors import ConfigError, MismatchError
from jprep.pipeline.early_checks import check_steps
from jprep.pipeline.recipe import check_recipe, decode_recipe
from jprep.tokenizer import load_tokenizer
from tests.conftest import Run, digests
from tests.fakes.config_sections import dataset_config
from tests.fakes.parts_dataset import MIX, build_corpus, pack_parts, small_tokenizer

SHARES = dict.fromkeys(["a", "b"], 1.0)
VALUES = st.sampled_from([0.0, 0.1, 0.3, 0.30000001, 0.5, 0.7, 1.0, math.nan, -math.inf])
LIMITS = st.fixed_dictionaries(
    {"signal": st.sampled_from(["x", "y"]), "min": st.sampled_from([0.1, 0.3, 0.5])},
    optional={"below": st.sampled_from([0.5, 0.7])},
)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("p"), "where": st.lists(LIMITS, max_size=2)},
        optional={"source": st.sampled_from(["a", "b"]), "cluster_size": st.sampled_from([{"min": 2}, {"max": 3}])},
    ),
    max_size=4,
)
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b"]), VALUES, VALUES, st.integers(1, 5)), min_size=1, max_size=12)


def expected(row: tuple[str, float, float, int], parts: list[dict[str, Any]]) -> int:
    """Return the number of the first part that takes a document, by a slow reference implementation."""
    source, x, y, size = row
    for number, part in enumerate(parts):
        limits = part.get("cluster_size", {})
        takes = part.get("source", source) == source
        takes = takes and limits.get("min", 1) <= size <= limits.get("max", 5)
        for rule in part["where"]:
            value, low = np.float32({"x": x, "y": y}[rule["signal"]]), np.float32(rule["min"])
            inside = value >= low and ("below" not in rule or value < np.float32(rule["below"]))
            takes = takes and (math.isnan(value) or bool(inside))
        if takes:
            return number
    return NO_PART


@settings(max_examples=150, deadline=None)
@given(ROWS, PARTS)
def test_the_first_part_that_matches_takes_a_document(
    rows: list[tuple[str, float, float, int]], parts: list[dict[str, Any]]
) -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.string())])
    meta = [[{"key": "page", "value": "2"}, *([{"key": "near_size", "value": str(n)}] if n > 1 else [])]
            for *_, n in rows]  # fmt: skip
    signals = pa.struct([("x", pa.float32()), ("y", pa.float32())])
    batch = pa.record_batch({
        "source": pa.array([row[0] for row in rows]), "meta": pa.array(meta, pa.list_(pair)),
        "signals": pa.array([{"x": x, "y": y} for _, x, y, _ in rows], signals),
    })  # fmt: skip
    mix = dataset_config(
        {"mix": {"weights": SHARES, "parts": [p | {"name": f"p{n}"} for n, p in enumerate(parts)]}}, ""
    )
    found = PartAssignment(mix.mix.parts if mix.mix else []).parts_of(batch)
    assert found.tolist() == [expected(row, parts) for row in rows]
    assert PartAssignment(mix.mix.parts if mix.mix else []).parts_of(batch.slice(1)).tolist() == found[1:].tolist()


def test_a_field_of_the_reader_is_no_size() -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.string())])
    values = ["4", "many", "", "9" * 30, "-7"]
    meta = pa.array([[{"key": "near_size", "value": value}] for value in values], pa.list_(pair))
    batch = pa.record_batch({"source": pa.array(["a"] * len(values)), "meta": meta})
    parts = [MixPart(name="p", cluster_size=SizeLimits(min=2))]
    assert PartAssignment(parts).parts_of(batch).tolist() == [0, *[NO_PART] * 4]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return build_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_tokenizer(tmp_path_factory.mktemp("t") / "tokenizer")


@pytest.fixture(scope="module")
def dataset(corpus: Corpus, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "dataset"
    pack_parts(corpus, tokenizer, folder)
    return folder


def part_of(doc: Document) -> str:
    """Return the part of a document by the words of `MIX`; "" for none."""
    if int(doc.meta.get("near_size", "1")) >= 2:
        return "twins"
    if doc.source == "code":
        return "code"
    return "long" if len(doc.text) >= 60 else "short" if 30 < len(doc.text) < 60 else ""


def by_part(corpus: Corpus, split: str = "train") -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = {"twins": [], "long": [], "short": [], "code": [], "": []}
    for doc in corpus:
        if split_of_key(doc.id, 0.2) == split:
            found[part_of(doc)].append(doc)
    assert all(found.values())
    return found


def test_parts_are_packed_one_after_the_other(corpus: Corpus, tokenizer: Path, dataset: Path) -> None:
    manifest, expected = read_dataset(dataset), by_part(corpus)
    loaded, split = load_tokenizer(tokenizer), IndexedSplit(dataset / "train", manifest.dtype)
    shown = [loaded.decode(split[number][:-1].tolist()) for number in range(len(split))]
    names = ["twins", "long", "short", "code"]
    assert shown == [doc.text for name in names for doc in expected[name]]
    assert [(part.name, part.documents) for part in manifest.mix_parts] == [(n, len(expected[n])) for n in names]
    assert [(one.name, one.stop - one.start) for one in source_ranges(manifest, "train")] == [
        (part.name, part.tokens) for part in manifest.mix_parts
    ]
    assert sum(part.tokens for part in manifest.mix_parts) == len(split.tokens)


def test_no_document_is_lost_silently(corpus: Corpus, dataset: Path) -> None:
    manifest, out = read_dataset(dataset), by_part(corpus)[""]
    assert [(each.source, each.documents, each.bytes) for each in manifest.left_out] == [
        ("web", len(out), sum(len(doc.text.encode()) for doc in out))
    ]
    assert sum(split.documents for split in manifest.splits) + len(out) == len(corpus)
    twins = {part.path for part in manifest.parts if part.mix_part == "twins"}
    assert len(twins) == 2  # of both sources
    ranges = Counter((part.mix_part, split) for part in manifest.parts for split in part.documents)
    assert ranges["long", "train"] == 1 and ranges["", "validation"] == 2


def test_a_shard_of_which_nothing_is_taken(corpus: Corpus, tokenizer: Path, tmp_path: Path) -> None:
    parts = [{"name": "long", "where": [{"signal": "characters", "min": 100}]}, {"name": "empty", "source": "code",
             "where": [{"signal": "characters", "below": 0}]}]  # fmt: skip
    mix = {"weights": {"long": 1, "empty": 0}, "parts": parts}
    found = pack_parts(corpus, tokenizer, tmp_path / "d", mix, validation=0)
    taken = [doc for doc in corpus if len(doc.text) >= 100]
    assert [(part.name, part.documents) for part in found.mix_parts] == [("long", len(taken)), ("empty", 0)]
    left = Counter(doc.source for doc in corpus) - Counter(doc.source for doc in taken)
    assert {each.source: each.documents for each in found.left_out} == left
    assert len(IndexedSplit(tmp_path / "d" / "train", found.dtype)) == len(taken)


def test_the_validation_split_does_not_depend_on_parts(corpus: Corpus, tokenizer: Path, dataset: Path) -> None:
    whole = dataset.parent / "whole"
    plain = pack_parts(corpus, tokenizer, whole, {"weights": {"web": 1, "code": 1}})
    assert plain == pack_parts(corpus, tokenizer, whole, None)
    assert "mix" not in plain.made_from and "mix_parts" not in (whole / "dataset.json").read_text()
    for suffix in (".bin", ".idx", ".marks"):
        names = [f"validation{suffix}", f"train{suffix}"]
        same = [(whole / name).read_bytes() == (dataset / name).read_bytes() for name in names]
        assert same == [True, False]


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_writes_the_same_bytes(
    workers: int, corpus: Corpus, tokenizer: Path, dataset: Path, tmp_path: Path
) -> None:
    pack_parts(corpus, tokenizer, tmp_path / "again", workers=workers)
    assert digests(tmp_path / "again") == digests(dataset)


def test_documents_are_traced_through_their_part(corpus: Corpus, dataset: Path) -> None:
    manifest, docs = read_dataset(dataset), by_part(corpus)
    train = [doc for name in ("twins", "long", "short", "code") for doc in docs[name]]
    for number in range(0, len(train), 7):
        place = locate_document(dataset, "train", document=number)
        assert place.mix_part == part_of(train[number])
        assert find_origin(manifest, place, corpus.folder).id == train[number].id
    place = locate_document(dataset, "validation", document=3)
    held = [doc.id for doc in corpus if split_of_key(doc.id, 0.2) == "validation"]
    assert place.mix_part == "" and find_origin(manifest, place, corpus.folder).id == held[3]


def changed(**mix: Any) -> MixConfig:
    found = dataset_config({"mix": MIX | mix}, "here").mix
    assert found
    return found


def test_shares_change_without_packing_and_parts_do_not(corpus: Corpus, tokenizer: Path, dataset: Path) -> None:
    manifest, other = read_dataset(dataset), MIX | {"repeats": {}, "weights": dict.fromkeys(MIX["repeats"], 2)}
    assert pack_parts(corpus, tokenizer, dataset, other) == manifest
    check_packed_parts(changed(repeats={}, weights=dict.fromkeys(MIX["repeats"], 2)), manifest, dataset)
    longer = MIX["parts"][1] | {"where": [{"signal": "characters", "min": 61}]}
    for mix, said in (
        ({"parts": [MIX["parts"][0], MIX["parts"][2], MIX["parts"][1]]}, "twins, short, long, code"),
        ({"repeats": MIX["repeats"] | {"web": 1}}, "parts: was twins, long, short, code, is twins, long, short, web"),
        ({"parts": [MIX["parts"][0], longer, MIX["parts"][2]]}, r"mix\.parts\.long\.where: was .*60"),
    ):
        with pytest.raises(ConfigError, match=f"packed in different parts than dataset.mix has now .*{said}"):
            check_packed_parts(changed(**mix), manifest, dataset)
        with pytest.raises(MismatchError, match=said):
            pack_parts(corpus, tokenizer, dataset, MIX | mix)
    with pytest.raises(ConfigError, match="is none"):
        check_packed_parts(MixConfig(repeats={"web": 1, "code": 1}), manifest, dataset)


def test_a_named_source_has_its_other_documents() -> None:
    mix = changed(repeats=MIX["repeats"] | {"web": 0})
    assert [(part.name, part.source) for part in packed_parts(mix, ["web", "code"])][-2:] == [
        ("web", "web"), ("code", "code")
    ]  # fmt: skip
    assert packed_parts(MixConfig(weights={"web": 1}), ["web"]) == [] == packed_parts(None, ["web"])


def test_a_source_that_no_part_divides_is_named() -> None:
    parts = MIX["parts"][1:]
    check_sources(changed(parts=parts, repeats={"long": 1, "short": 1, "code": 0}), ["web", "code"], "here")
    with pytest.raises(ConfigError, match="how much of code"):
        check_sources(changed(parts=parts, repeats={"long": 1, "short": 1}), ["web", "code"], "here")
    with pytest.raises(ConfigError, match="how much of short"):
        check_sources(changed(parts=parts, repeats={"long": 1, "code": 1}), ["web", "code"], "here")
    stages = [{"until_step": 5, "weights": {"long": 1, "short": 1, "code": 1, "web": 1}}]
    with pytest.raises(ConfigError, match="how much of web"):  # named in one table, so it is packed
        mix = changed(parts=parts, stages=stages, repeats={"long": 1, "short": 1, "code": 1})
        check_sources(mix, ["web", "code"], "here")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"source": "wbe"}, "'wbe', which does not exist"),
        ({"source": "held"}, "which no training reads"),
        ({"name": "web"}, "both called 'web'"),
        ({"name": "a b"}, "cannot be called 'a b'"),
        ({"name": "short"}, "are called 'short'"),
        ({"where": [{"signal": "characters"}]}, "needs a lower limit"),
        ({"where": [{"signal": "characters", "min": 1, "above": 2}]}, "one of each"),
        ({"where": [{"signal": "characters", "min": 1, "reason": "x"}]}, "reason"),
        ({"cluster_size": {"min": 3, "max": 2}}, "clusters of 3 to 2"),
        ({"whree": []}, "whree"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(part: dict[str, Any], said: str) -> None:
    first = {"name": "first"} | part
    shares = {"short": 1, first["name"]: 1}
    with pytest.raises(ConfigError, match=said):
        mix = changed(parts=[first, MIX["parts"][2]], repeats=shares)
        check_sources(mix, ["web", "held"], "here", held_out=["held"])


def test_what_the_corpus_does_not_keep_is_named(corpus: Corpus, tokenizer: Path, tmp_path: Path, jprep: Run) -> None:
    """The command that the error suggests makes a corpus with which the same packing works."""
    bare = build_corpus(tmp_path, signals=["urls"], dedup={"documents": False})
    mix = MIX | {"parts": MIX["parts"][1:], "repeats": {"long": 3, "short": 1, "code": 0.5}}
    with pytest.raises(ConfigError) as caught:
        pack_parts(bare, tokenizer, tmp_path / "dataset", mix)
    assert "the part 'long' compares characters" in caught.value.what
    assert "it keeps url_share, urls_per_1000" in caught.value.what
    command = shlex.split(caught.value.fix.split("`")[1])
    assert command[:4] == ["jprep", "corpus", "filter", str(bare.folder)]
    jprep(*command[1:])
    found = pack_parts(Corpus(Path(command[-1])), tokenizer, tmp_path / "dataset", mix)
    assert [part.name for part in found.mix_parts] == ["long", "short", "code"]
    with pytest.raises(ConfigError, match="clusters of near-duplicates, and the corpus has none"):
        pack_parts(bare, tokenizer, tmp_path / "other", MIX)
    for column, fix in (
        ("charcters", "did you mean 'characters'?"),
        ("quality_score", """--signal '{ use = "quality", model = "DIR" }' -o"""),
    ):
        part = {"name": "long", "where": [{"signal": column, "min": 1}]}
        with pytest.raises(ConfigError) as caught:
            pack_parts(corpus, tokenizer, tmp_path / "third", {"parts": [part], "repeats": {"long": 1}})
        assert fix in caught.value.fix


def test_a_run_is_refused_before_its_first_step(tmp_path: Path) -> None:
    sources = [{"name": "web", "paths": [str(tmp_path / "in.jsonl")], "reader": "jsonl"}]
    part = {"name": "long", "where": [{"signal": "characters", "min": 9}]}
    raw = {"name": "r", "corpus": {"sources": sources, "segmenter": "none"}, "tokenizer": {"boundaries": "none"},
           "dataset": {"mix": {"weights": {"long": 1}, "parts": [part]}}}  # fmt: skip
    (tmp_path / "in.jsonl").touch()
    with pytest.raises(ConfigError, match="the part 'long' compares characters") as caught:
        check_steps(decode_recipe(raw), ["corpus", "tokenizer", "dataset"], "torch")
    assert '[corpus] signals = ["characters"]' in caught.value.fix
    kept = decode_recipe(raw, ['corpus.signals=["characters"]'])
    check_recipe(kept, "here")
    check_steps(kept, ["corpus", "tokenizer", "dataset"], "torch")
    sized = decode_recipe(raw, ['dataset.mix.parts=[{name="long",cluster_size={min=2}}]'])
    with pytest.raises(ConfigError, match="the corpus has none"):
        check_steps(sized, ["corpus", "dataset"], "torch")


def test_a_training_split_without_documents_is_refused(corpus: Corpus, tokenizer: Path, tmp_path: Path) -> None:
    parts = [{"name": "none", "where": [{"signal": "characters", "min": 9e9}]}]
    with pytest.raises(ConfigError, match="no document belongs to a part"):
        pack_parts(corpus, tokenizer, tmp_path / "d", {"weights": {"none": 1}, "parts": parts})


def test_commands_show_the_parts(corpus: Corpus, tokenizer: Path, dataset: Path, jprep: Run, tmp_path: Path) -> None:
    manifest: DatasetManifest = read_dataset(dataset)
    shown = jprep("dataset", "inspect", dataset).stdout
    for part in manifest.mix_parts:
        assert shown.count(f"  {part.name}") == 2 and f"{part.tokens:,}" in shown
    assert "documents in no part, left out" in shown
    traced = jprep("dataset", "inspect", dataset, "--document", 0, "--corpus", corpus.folder).stdout
    assert "mixture   twins" in traced
    table = '{repeats={all=1},parts=[{name="all",where=[{signal="characters",min=30.5}]}]}'
    options = ("--set", f"dataset.mix={table}", "--set", "dataset.validation=0", "-o", tmp_path / "d")
    plan = jprep("dataset", "pack", corpus.folder, "--tokenizer", tokenizer, *options, "--dry-run").stdout
    count = sum(len(doc.text) > 30 for doc in corpus)
    out = Counter(doc.source for doc in corpus if len(doc.text) <= 30)
    assert f"documents: {count:,} in all" in plan and f"{out['web']:,} of web, {out['code']:,} of code" in plan
    assert not (tmp_path / "d").exists()
