"""Tokenizers on real text: round trip, word boundaries, and the exported tokenizer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Exported

from jprep import load_tokenizer, normalize
from jprep.tokenizer.tokenizer import Tokenizer
from tests.conftest import Run

MODELS = ("bpe", "unigram", "byte-bpe")
TRAINED_ON = ("jglue_sentences", "jsquad_contexts", "ner_wikipedia", "quasi_reviews", "js_primer")
STRIDE = 19


@pytest.fixture(scope="module")
def corpus(shared_data: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    folder = tmp_path_factory.mktemp("web") / "corpus"
    inputs = [part for name in TRAINED_ON for part in ("--jsonl", shared_data / f"web/{name}.jsonl.gz")]
    jprep("corpus", "build", *inputs, "-o", folder)
    return folder


@pytest.fixture(scope="module")
def trained(corpus: Path, jprep: Run) -> dict[str, Tokenizer]:
    """Tokenizers of each kind, with the normalizer of the corpus and without one."""
    found = {}
    for model in MODELS:
        for off in (False, True):
            folder = corpus.parent / f"{model}-{off}"
            settings = ("--set", "tokenizer.normalizers=[]") if off else ()
            jprep("tokenizer", "train", corpus, "-o", folder, "--model", model, "--vocab-size", 12_000, *settings)
            found[folder.name] = load_tokenizer(folder)
    return found


@pytest.fixture(scope="module")
def lines(shared_data: Path) -> list[str]:
    """Lines of all of the web, most of which no tokenizer here was trained on."""
    return [line for number, line in enumerate(_lines(shared_data)) if number % STRIDE == 0]


def _lines(shared_data: Path) -> Iterator[str]:
    for path in sorted(shared_data.glob("web/*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as documents:
            for document in documents:
                yield from json.loads(document)["text"].split("\n")


@pytest.mark.parametrize("model", MODELS)
def test_real_text_round_trips(model: str, trained: dict[str, Tokenizer], lines: list[str]) -> None:
    plain, normalizing = trained[f"{model}-True"], trained[f"{model}-False"]
    assert plain.decode_batch(*plain.encode_batch(lines)) == lines
    assert normalizing.decode_batch(*normalizing.encode_batch(lines)) == normalize("\n".join(lines)).split("\n")


@pytest.mark.parametrize("model", MODELS)
def test_export_gives_the_same_ids_for_raw_text(model: str, trained: dict[str, Tokenizer], lines: list[str]) -> None:
    tokenizer = trained[f"{model}-False"]
    exported = Exported.from_file(str(tokenizer.folder / "tokenizer.json"))
    raw = [line for line in lines if not any(token in line for token in tokenizer.special.tokens)]
    theirs = [each.ids for each in exported.encode_batch_fast(raw, add_special_tokens=False)]
    ids, offsets = tokenizer.encode_batch(raw)
    differing = [line for n, line in enumerate(raw) if ids[offsets[n] : offsets[n + 1]].tolist() != theirs[n]]
    assert not differing


@pytest.mark.parametrize("model", MODELS)
def test_words_are_kept(model: str, trained: dict[str, Tokenizer]) -> None:
    assert trained[f"{model}-False"].card.figures["boundary_recall"] > 0.95
    assert trained[f"{model}-False"].card.figures["lossless_rate"] == 1
