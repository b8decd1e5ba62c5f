"""`jprep dataset pack` and `inspect`, as a user runs them on the sample's corpus."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.conftest import Run, digests
from tests.fakes.mark_file import read

TRAINED = ("--model", "byte-bpe", "--vocab-size", 800, "--special", "roberta")
SHARE = ("--set", "dataset.validation=0.2")


@pytest.fixture(scope="session")
def work(corpus: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    """A folder as the work of a recipe: corpus, tokenizer, dataset; tests do not write there."""
    folder = tmp_path_factory.mktemp("work") / "quickstart"
    shutil.copytree(corpus, folder / "corpus")
    jprep("tokenizer", "train", corpus, "-o", folder / "tokenizer", *TRAINED)
    jprep("dataset", "pack", corpus, "--tokenizer", folder / "tokenizer", "-o", folder / "dataset", *SHARE)
    return folder


def by_hand(prefix: Path) -> list[list[int]]:
    """The documents of a split, read with `struct` as Megatron-core's source says."""
    index, data = prefix.with_suffix(".idx").read_bytes(), prefix.with_suffix(".bin").read_bytes()
    magic, version, code, sequences, documents = struct.unpack_from("<9sQBQQ", index)
    assert (magic, version, code, documents) == (b"MMIDIDX\x00\x00", 1, 8, sequences + 1)
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    pointers = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    assert struct.unpack_from(f"<{documents}q", index, 34 + 12 * sequences) == tuple(range(documents))
    assert len(index) == 34 + 20 * sequences + 8 and sum(lengths) * 2 == len(data)
    return [list(struct.unpack_from(f"<{n}H", data, at)) for n, at in zip(lengths, pointers, strict=True)]


def rows(corpus: Path) -> list[dict[str, str]]:
    """The corpus's documents in order."""
    parts = json.loads((corpus / "corpus.json").read_bytes())["parts"]
    return [row for part in parts for row in pq.read_table(corpus / part["path"]).to_pylist()]


def test_each_document_is_there_once_in_order_and_whole(work: Path) -> None:
    import jprep

    tokenizer = jprep.load_tokenizer(work / "tokenizer")
    split = {name: by_hand(work / "dataset" / name) for name in ("train", "validation")}
    texts = {name: [tokenizer.decode(document[:-1]) for document in held] for name, held in split.items()}
    assert all(document[-1] == tokenizer.eos for held in split.values() for document in held)
    originals = [row["text"] for row in rows(work / "corpus")]
    assert sorted(texts["train"] + texts["validation"]) == sorted(originals)
    assert all(held == [text for text in originals if text in held] for held in texts.values())
    assert 0 < len(texts["validation"]) < len(texts["train"])


def test_the_manifest_counts_match_the_files(work: Path) -> None:
    dataset, corpus = (
        json.loads((work / name).read_bytes()) for name in ("dataset/dataset.json", "corpus/corpus.json")
    )
    counts, totals = dataset["counts"], corpus["totals"]
    for split in dataset["splits"]:
        documents = by_hand(work / "dataset" / split["name"])
        assert (split["documents"], split["tokens"]) == (len(documents), sum(map(len, documents)))
        starts = read((work / "dataset" / f"{split['name']}.marks").read_bytes())
        assert len(starts) == split["tokens"]
        assert sum(mark & 1 for mark in starts) == counts[f"{split['name']}.words"]
        assert sum(mark >> 1 for mark in starts) == counts[f"{split['name']}.sentences"]
    for what in ("documents", "bytes"):
        assert counts[f"train.{what}"] + counts[f"validation.{what}"] == totals[what]
    assert dataset["sources"] == corpus["sources"] and str(work) not in json.dumps(dataset)


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_makes_the_same_bytes(workers: int, work: Path, tmp_path: Path, jprep: Run) -> None:
    options = ("--tokenizer", work / "tokenizer", *SHARE, "--workers", workers)
    jprep("dataset", "pack", work / "corpus", *options, "-o", tmp_path / "d")
    assert digests(tmp_path / "d") == digests(work / "dataset")
    jprep("dataset", "pack", work / "corpus", *options, "-o", tmp_path / "d")  # a finished one is seen to be whole
    assert digests(tmp_path / "d") == digests(work / "dataset")


def test_inspect_finds_every_token_s_document(work: Path, jprep: Run) -> None:
    dataset = json.loads((work / "dataset/dataset.json").read_bytes())
    originals = {row["id"]: row for row in rows(work / "corpus")}
    hashes = {file["sha256"] for source in dataset["sources"] for file in source["files"]}
    for split in ("train", "validation"):
        documents = by_hand(work / "dataset" / split)
        ends = np.cumsum([len(document) for document in documents]).tolist()
        for number in (0, len(documents) // 2, len(documents) - 1):
            command = ("dataset", "inspect", work / "dataset", "--split", split, "--token", ends[number] - 2, "--json")
            found = json.loads(jprep(*command).stdout)
            original = originals[found["origin"]["id"]]
            assert (found["document"], found["tokens"][1]) == (number, ends[number])
            assert (found["origin"]["title"], found["origin"]["source"]) == (original["title"], original["source"])
            assert original["text"].endswith(found["text"]["before"] + found["text"]["token"])
            assert {file["sha256"] for file in found["origin"]["about"]["files"]} <= hashes
            by_number = jprep(*command[:5], "--document", number, "--json")
            assert json.loads(by_number.stdout)["origin"] == found["origin"]
    said = jprep("dataset", "inspect", work / "dataset", "--token", 0).stdout
    assert "title" in said and "sha256" in said and "⟦" in said


def test_inspect_without_a_token_prints_totals(work: Path, jprep: Run) -> None:
    figures = json.loads(jprep("dataset", "inspect", work / "dataset", "--json").stdout)
    disk = sum(
        path.stat().st_size for path in (work / "dataset").glob("*.*") if path.is_file() and path.suffix != ".json"
    )
    assert figures["figures"]["disk_bytes"] == disk
    assert figures["figures"]["disk_bytes_per_text_byte"] == pytest.approx(disk / figures["figures"]["text_bytes"])
    assert "disk_bytes_per_text_byte" in jprep("dataset", "inspect", work / "dataset").stdout


def test_inspect_names_the_options_for_files_that_it_does_not_find(
    work: Path, corpus: Path, tmp_path: Path, jprep: Run
) -> None:
    shutil.copytree(work / "dataset", tmp_path / "a" / "d")
    said = jprep("dataset", "inspect", tmp_path / "a" / "d", "--token", 5).stdout
    assert "--corpus" in said and "--tokenizer" in said
    said = jprep("dataset", "inspect", tmp_path / "a" / "d", "--token", 5, "--corpus", corpus).stdout
    assert "title" in said and "--corpus" not in said
    refused = jprep("dataset", "inspect", tmp_path / "a" / "d", "--token", 10**9, code=2)
    assert "does not exist" in refused.stderr
    refused = jprep("dataset", "inspect", tmp_path / "a" / "d", "--token", 5, "--split", "test", code=2)
    assert "train, validation" in refused.stderr


def test_a_recipe_s_work_is_found(work: Path, sample: Path, jprep: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "quickstart.toml"
    recipe.write_text('name = "quickstart"\n[dataset]\nvalidation = 0.2\n')
    made = jprep("dataset", "pack", recipe, "--work", work.parent, "-o", tmp_path / "d", "--json")
    assert json.loads(made.stdout)["counts"]["train.documents"] > 0
    assert digests(tmp_path / "d") == digests(work / "dataset")
    plan = jprep("dataset", "pack", recipe, "--work", work.parent, "-o", tmp_path / "e", "--dry-run").stdout
    assert "uint16" in plan and not (tmp_path / "e").exists()
    missing = jprep("dataset", "pack", recipe, "--work", tmp_path, code=2)
    assert "the recipe's corpus does not exist yet" in missing.stderr


def test_other_work_is_refused_until_restarted(work: Path, tmp_path: Path, jprep: Run) -> None:
    shutil.copytree(work / "dataset", tmp_path / "d")
    command = ("dataset", "pack", work / "corpus", "--tokenizer", work / "tokenizer", "-o", tmp_path / "d")
    refused = jprep(*command, "--set", "dataset.validation=0", code=2)
    assert "validation: was 0.2, is 0.0" in refused.stderr and "--restart" in refused.stderr
    jprep(*command, "--set", "dataset.validation=0", "--restart")
    assert not (tmp_path / "d/validation.bin").exists()
    jprep(*command, *SHARE, "--restart")
    assert digests(tmp_path / "d") == digests(work / "dataset")
    (tmp_path / "d/train.marks").write_bytes(b"")
    assert "was changed or damaged" in jprep(*command, *SHARE, code=2).stderr
    (tmp_path / "e").mkdir()
    (tmp_path / "e/mine.txt").write_text("x")
    refused = jprep(*command[:-1], tmp_path / "e", code=2)
    assert "has not written: mine.txt" in refused.stderr


def test_empty_splits_are_refused(work: Path, tmp_path: Path, jprep: Run) -> None:
    command = ("dataset", "pack", work / "corpus", "--tokenizer", work / "tokenizer", "-o", tmp_path / "d")
    refused = jprep(*command, "--set", "dataset.validation=0.0000001", code=2)
    assert "would be in the validation split" in refused.stderr and "dataset.validation=0" in refused.stderr
    refused = jprep(*command, "--set", "dataset.validation=0.9999999", code=2)
    assert "would be in the train split" in refused.stderr and not (tmp_path / "d").exists()


def test_a_tokenizer_that_does_not_fit_is_refused(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "a.txt").write_text("吾輩は猫である。名前はまだ無い。\n" * 9, encoding="utf-8")
    plain = ("--segmenter", "none", "--set", "corpus.normalizers=[]")
    jprep("corpus", "build", "--text", tmp_path / "a.txt", *plain, "-o", tmp_path / "plain")
    jprep("corpus", "build", "--text", tmp_path / "a.txt", "--segmenter", "none", "-o", tmp_path / "wordless")
    train = ("tokenizer", "train", corpus, "--model", "byte-bpe", "--vocab-size", 400)
    jprep(*train, "-o", tmp_path / "t")
    jprep(*train, "-o", tmp_path / "endless", "--special", "none")
    jprep(*train, "-o", tmp_path / "hard", "--boundaries", "hard")
    whole = ("--set", "dataset.validation=0")

    def refused(packed: Path, tokenizer: str) -> str:
        command = ("dataset", "pack", packed, "--tokenizer", tmp_path / tokenizer, "-o", tmp_path / "d", *whole)
        return jprep(*command, code=2).stderr

    assert "normalized differently from this corpus (normalizers: was neologdn, is none)" in refused(
        tmp_path / "plain", "t"
    )
    assert "no end-of-document token" in refused(corpus, "endless")
    assert "no words" in refused(tmp_path / "wordless", "hard")
    assert "no finished tokenizer" in refused(corpus, "nowhere")
    with (tmp_path / "hard/tokenizer.json").open("a") as file:
        file.write(" ")
    assert "was changed or damaged" in refused(corpus, "hard")
    assert not (tmp_path / "d").exists()
    made = jprep("dataset", "pack", tmp_path / "wordless", "--tokenizer", tmp_path / "t", "-o", tmp_path / "d", *whole)
    assert "sentences" in made.stdout


def test_inspect_finds_its_own_corpus_among_others(work: Path, corpus: Path, tmp_path: Path, jprep: Run) -> None:
    """What lies at ../corpus may be another one."""
    place = tmp_path / "work" / "mine"
    shutil.copytree(work / "dataset", place / "dataset")
    other = (corpus / "corpus.json").read_text(encoding="utf-8")
    fingerprint = json.loads(other)["fingerprint"]
    (place / "corpus").mkdir()
    (place / "corpus" / "corpus.json").write_text(other.replace(fingerprint, "0" * 32), encoding="utf-8")
    ask = ("dataset", "inspect", place / "dataset", "--token", 0)
    said = jprep(*ask).stdout
    assert "id  " not in said and "add --corpus DIR: none nearby is the corpus 'quickstart'" in said
    assert f"with fingerprint {fingerprint}" in said
    assert "for its text, add --tokenizer DIR" in said
    shutil.copytree(corpus, place / "the right one")
    shutil.copytree(work / "tokenizer", tmp_path / "work" / "other" / "tokenizer")
    said = jprep(*ask).stdout
    assert "id  " in said and "text  " in said and "give --" not in said


def test_inspect_names_a_missing_file(work: Path, tmp_path: Path, jprep: Run) -> None:
    shutil.copytree(work / "dataset", tmp_path / "dataset")
    (tmp_path / "dataset" / "validation.bin").unlink()
    for more in ((), ("--split", "validation", "--token", 0)):
        said = jprep("dataset", "inspect", tmp_path / "dataset", *more, code=2).stderr
        assert "missing" in said and "validation.bin" in said and "--restart" in said
