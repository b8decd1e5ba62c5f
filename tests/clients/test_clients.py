"""Read jprep's output with the programs that it is written for.

`make soak` installs them: JPREP_CLIENTS names an environment with DuckDB, polars and datasets, node packages in `node`,
and Megatron in `megatron`, which runs with the torch backend's Python (JPREP_TORCH).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Exported

from jprep.corpus.normalizers.neologdn import NeologdnNormalizer
from jprep.corpus.step import describe_step
from jprep.corpus.store import read_manifest
from jprep.dataset.exports import export_dataset
from jprep.dataset.exports.base import ExportOptions
from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import read_dataset
from jprep.dataset.mix import MixConfig
from jprep.tokenizer.tokenizer import Tokenizer
from tests.conftest import ROOT, SHARED, Run
from tests.fakes.config_sections import dataset_config
from tests.fakes.parts_dataset import mixed_parts_dataset
from tests.fakes.small_dataset import SPLITS, VOCAB, flat, lay_out
from tests.unit.dataset.test_mixtures import mixed_dataset
from tests.unit.tokenizer.test_export_normalizers import DENSE
from tests.unit.tokenizer.vocabularies import finished, small

pytestmark = pytest.mark.soak

BYTE = re.compile("<0x..>")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@cache
def clients() -> Path:
    """Return the environment with the client programs."""
    if not (folder := os.environ.get("JPREP_CLIENTS")):
        pytest.skip("JPREP_CLIENTS names no environment with clients")
    return Path(folder)


def output(*command: object, cwd: Path | None = None, **variables: str) -> str:
    env = os.environ | {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1"} | variables
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env, cwd=cwd, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def blocks(page: str, heading: str) -> list[str]:
    """Return the Python blocks of a section of the documentation."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return BLOCK.findall(text.partition(f"## {heading}\n")[2].partition("\n## ")[0])


@pytest.mark.parametrize("name", ["polars", "duckdb", "datasets", "pyarrow"])
def test_documented_code_reads_a_corpus(name: str, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "work/jawiki/corpus")
    [code] = [block for block in blocks("corpus.md", "In other programs") if f"import {name}" in block
              or f"from {name}" in block]  # fmt: skip
    printed = output(clients() / "bin/python", "-c", code, cwd=tmp_path, HF_HOME=str(tmp_path / "hf"))
    manifest = read_manifest(corpus)
    expected = manifest.fingerprint if name == "pyarrow" else str(manifest.totals["documents"])
    assert expected in printed


NODE = """
import fs from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";
const [folders, texts] = process.argv.slice(2).map((path) => JSON.parse(fs.readFileSync(path, "utf-8")));
const read = (path) => JSON.parse(fs.readFileSync(path, "utf-8"));
const ids = {};
for (const folder of folders) {
  const tokenizer = new Tokenizer(read(folder + "/tokenizer.json"), read(folder + "/tokenizer_config.json"));
  ids[folder] = texts.map((text) => tokenizer.encode(text, { add_special_tokens: false }).ids);
}
console.log(JSON.stringify(ids));
"""


def lines(shared: Path) -> list[str]:
    """Return real lines, if available, and lines of the characters that normalizers change."""
    draw = random.Random(1)
    made = ["".join(draw.choices(DENSE, k=draw.randint(1, 40))) for _ in range(500)]
    for path in sorted([*shared.glob("data/web/*.jsonl.gz"), *shared.glob("data/prose/*.jsonl.gz")]):
        with gzip.open(path, "rt", encoding="utf-8") as rows:
            made += [line for n, row in enumerate(rows) if n % 200 == 0 for line in json.loads(row)["text"].split("\n")]
    return made


def test_javascript_gives_the_same_ids(tmp_path: Path) -> None:
    if not shutil.which("node"):
        pytest.skip("there is no node")
    normalizer, texts = describe_step(NeologdnNormalizer(NeologdnNormalizer.Config(tilde="ignore"))), lines(SHARED)
    kinds = {
        "bpe": small(), "byte-bpe": small("byte-bpe"), "wordpiece": small("wordpiece"), "unigram": small("unigram"),
        "byte-bpe none": small("byte-bpe", boundaries="none"), "digits": small(digits="split", newline="space"),
    }  # fmt: skip
    folders = {name: str(finished(tmp_path / name, vocabulary, [normalizer])) for name, vocabulary in kinds.items()}
    script, arguments = clients() / "node/ids.mjs", (tmp_path / "folders.json", tmp_path / "texts.json")
    script.write_text(NODE)
    for path, content in zip(arguments, (list(folders.values()), texts), strict=True):
        path.write_text(json.dumps(content), encoding="utf-8")
    theirs: dict[str, list[list[int]]] = json.loads(output("node", script, *arguments))
    for name, folder in folders.items():
        rows = Exported.from_file(f"{folder}/tokenizer.json").encode_batch(texts, add_special_tokens=False)
        pairs = zip(rows, theirs[folder], strict=True)
        differing = [row.tokens for row, their in pairs if row.ids != their]
        if name == "unigram":  # that client has no byte fallback
            differing = [tokens for tokens in differing if not any(BYTE.fullmatch(token) for token in tokens)]
        assert differing == [], name


MEGATRON = """
import json, sys
from megatron.core.datasets.indexed_dataset import IndexedDataset
print(json.dumps([row.tolist() for row in IndexedDataset(sys.argv[1], mmap=True)]))
"""


def test_megatron_reads_a_dataset(tmp_path: Path) -> None:
    if not (python := os.environ.get("JPREP_TORCH")):
        pytest.skip("JPREP_TORCH names no Python that has PyTorch")
    dataset = lay_out(tmp_path / "dataset", SPLITS)
    megatron = str(clients() / "megatron")
    for split, documents in SPLITS.items():
        read = output(python, "-W", "ignore", "-c", MEGATRON, dataset / split, PYTHONPATH=megatron).splitlines()[-1]
        assert json.loads(read) == [flat(document) for document in documents]


BLEND = """
import json, sys
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.datasets.utils import get_blend_from_list
by_split = json.load(open("splits.json"))
blends = [get_blend_from_list(open("blend.txt").read().split()),
          *(get_blend_from_list(by_split[name]) for name in ("train", "valid", "test"))]
names = sorted({name for blend in blends if blend for name in blend[0]})
print(json.dumps([blends, {name: [row.tolist() for row in IndexedDataset(name, mmap=True)] for name in names}]))
"""


def test_megatron_reads_a_blend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (python := os.environ.get("JPREP_TORCH")):
        pytest.skip("JPREP_TORCH names no Python that has PyTorch")
    megatron, dataset = str(clients() / "megatron"), mixed_dataset(tmp_path / "dataset")
    mix = MixConfig(weights={"wiki": 3, "web": 1, "books": 0.5})
    export_dataset(dataset, None, "megatron-blend", tmp_path / "blend", ExportOptions(mix=mix))
    monkeypatch.chdir(tmp_path / "blend")
    read = output(python, "-W", "ignore", "-c", BLEND, PYTHONPATH=megatron).splitlines()[-1]
    (whole, train, valid, test), rows = json.loads(read)
    assert whole == train == [["train-0000-wiki", "train-0002-web", "train-0003-books"], [3.0, 1.0, 0.5]]
    assert valid is None and test is None
    split = IndexedSplit(dataset / "train", "uint16")
    assert [row for name in whole[0] for row in rows[name]] == [document.tolist() for document in split]


def test_megatron_reads_a_blend_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (python := os.environ.get("JPREP_TORCH")):
        pytest.skip("JPREP_TORCH names no Python that has PyTorch")
    section = {"repeats": {"top": 3, "rest": 1}, "parts": [{"name": "top", "source": "wiki"}, {"name": "rest"}]}
    mix, sizes = dataset_config({"mix": section}, "here").mix, {"top": 40, "rest": 30}
    assert mix
    dataset = mixed_parts_dataset(tmp_path / "dataset", mix, sizes, VOCAB)
    export_dataset(dataset, None, "megatron-blend", tmp_path / "blend", ExportOptions(mix=mix))
    monkeypatch.chdir(tmp_path / "blend")
    read = output(python, "-W", "ignore", "-c", BLEND, PYTHONPATH=str(clients() / "megatron")).splitlines()[-1]
    (whole, train, valid, test), rows = json.loads(read)
    tokens = [part.tokens for part in read_dataset(dataset).mix_parts]
    assert whole == train == [["train-0000-top", "train-0001-rest"], [3.0 * tokens[0], tokens[1]]]
    assert valid is None and test is None
    assert [len(rows[name]) for name in whole[0]] == list(sizes.values())
    split = IndexedSplit(dataset / "train", "uint16")
    assert [row for name in whole[0] for row in rows[name]] == [document.tolist() for document in split]


SENTENCEPIECE = """
import json, sys
from sentencepiece import SentencePieceProcessor
print(json.dumps(SentencePieceProcessor(model_file=sys.argv[1]).encode(json.loads(sys.argv[2]))))
"""


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sentencepiece_gives_the_same_ids_for_normalized_text(kind: str, tmp_path: Path, jprep: Run) -> None:
    ours = Tokenizer(finished(tmp_path / "ours", small(kind)))
    jprep("tokenizer", "export", ours.folder, "--format", "sentencepiece", "-o", tmp_path / "out")
    texts = ["東京都の日本語 the world is", "すもももももも 龘", "2020年、ゲーム"]
    arguments: tuple[Any, ...] = (tmp_path / "out/spm.model", json.dumps(texts))
    read = json.loads(output(clients() / "bin/python", "-c", SENTENCEPIECE, *arguments))
    assert read == [ours.encode(text, normalized=True) for text in texts]
