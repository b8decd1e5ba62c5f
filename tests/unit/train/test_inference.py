"""The inference pipeline, its client and server, and the selection of the next token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.step import describe_step
from jprep.dataset.sampling.special_ids import special_ids
from jprep.errors import ConfigError, InputError, JprepError, MachineError, MismatchError
from jprep.tokenizer import load_tokenizer
from jprep.train.exporting import export, weights
from jprep.train.exporting.manifest import read_config, read_export
from jprep.train.inference import client, pipeline
from jprep.train.inference.client import InferenceClient
from jprep.train.inference.decoding import next_token
from jprep.train.inference.masked_text import filled_text, masked_request
from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline
from jprep.train.inference.protocol import Classify, FillMask, Generate, Response, TokenProbability
from jprep.train.launcher import environments
from tests.conftest import Distribution
from tests.fakes.hugging_face import write_metaspace, write_wordpiece
from tests.fakes.oracle import Oracle, main, offer
from tests.fakes.trained_run import trained_run
from tests.unit.tokenizer.vocabularies import finished, small

TEXTS = ["日本語の<mask>です。", "  東京 <mask> , <mask>", "<mask>", "すもも\u3000<mask>2020年<mask><mask> は"]


@pytest.fixture
def oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in offer(Distribution(tmp_path / "distributions")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(client, "load_backend", lambda name: Oracle())
    monkeypatch.setattr(weights, "_run_worker", lambda name, *paths: main("export", *paths))
    monkeypatch.setattr(environments, "worker_python", lambda backend, options=None: Path(sys.executable))


@pytest.fixture
def exported(tmp_path: Path, oracle: None) -> Any:
    def make(task: str, kind: str, **section: Any) -> Path:
        return export(trained_run(tmp_path / f"{task}-{kind}", task, kind, **section))

    return make


def test_requests_are_answered_in_order(tmp_path: Path, oracle: None) -> None:
    with InferenceClient(tmp_path, "oracle") as client:
        for number in range(20):
            assert client.send(Generate(ids=[number, 5], tokens=2)).ids == [5, number]
            assert client.send(Classify(ids=[1] * 26)).error == "that is too deep"


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [("refuse", MachineError, "the oracle is closed"), ("die", MachineError, "the tripod fell over"),
     ("babble", JprepError, "invalid answer: b'hm")],
)  # fmt: skip
def test_the_error_of_a_failed_worker_has_its_stderr(
    fault: str, kind: type[JprepError], said: str, tmp_path: Path, oracle: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORACLE", fault)
    with InferenceClient(tmp_path, "oracle") as client, pytest.raises(kind) as caught:
        client.send(FillMask(ids=[1], mask=1))
    assert said in caught.value.what


def test_masks_are_filled(exported: Any) -> None:
    folder = exported("mlm", "bert")
    with InferencePipeline(folder, "oracle") as model:
        reply = model.predict("東京は [MASK]と<mask>", GenerationConfig(top=3))
        none = model.predict("東京", GenerationConfig())
        long = model.predict("東" * 70 + "[MASK]", GenerationConfig())
    tokens = [token.token for token in reply.masks[0]]
    assert [token.id for token in reply.masks[1]] == [5, 6, 7] and len(reply.masks) == 2
    assert reply.filled == f"東京は{tokens[0]}と{tokens[0]}"
    assert none.error == "the text contains no [MASK]"
    assert "but the model has 64 positions" in long.error


def test_rows_of_a_model_that_no_token_has_are_no_candidates(exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = exported("mlm", "bert")
    ids = load_tokenizer(folder).vocab_size
    monkeypatch.setattr(pipeline, "read_config", lambda path: {**read_config(path), "vocab_size": ids + 2})
    asked: list[Any] = []

    def send(request: Any) -> Response:
        asked.append(request)
        return Response(masks=[[TokenProbability(number, 0.1) for number in (ids + 1, 6, ids, 7)]])

    with InferencePipeline(folder, "oracle") as model:
        monkeypatch.setattr(model._client, "send", send)
        reply = model.predict("東京[MASK]", GenerationConfig(top=2))
    assert [token.id for token in reply.masks[0]] == [6, 7] and asked[0].top == 4


def test_a_text_is_continued_from_its_end(exported: Any) -> None:
    folder = exported("clm", "gpt2")
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode("東京都は日本")
    with InferencePipeline(folder, "oracle") as model:
        short = model.predict("東京都は日本", GenerationConfig(tokens=2))
        long = model.predict("東京" * 40 + "日本", GenerationConfig(tokens=60))
        empty = model.predict("", GenerationConfig(tokens=4))
        never = model.predict("日本", GenerationConfig(tokens=64))
    assert short.continuation == tokenizer.decode(ids[:-3:-1]) and not short.note
    assert long.note.startswith("truncated to its last 4 of ") and long.continuation
    assert empty.continuation == "<|endoftext|>"  # the oracle gives back that a document begins here
    assert "no room for 64" in never.error


def test_special_tokens_are_never_generated(exported: Any) -> None:
    folder = exported("clm", "llama")
    with InferencePipeline(folder, "oracle") as model:
        request, _ = model._generate_request("日本", GenerationConfig())
    special = read_export(folder).special
    assert request.tokens == 32  # half of its positions
    assert request.ids[: len(special.before)] == list(special.before) and request.end == [2]
    assert set(request.never) == set(special.special) - {2}


def test_classes_scores_and_pairs(exported: Any) -> None:
    with InferencePipeline(exported("classify", "bert", labelled={"length": 32, "pair": "other"}), "oracle") as model:
        reply = model.predict("日本", GenerationConfig(), "東京")
        cut = model.predict("日" * 99, GenerationConfig(), "京" * 99)
        [first, second] = [model._tokenizer.encode(text) for text in ("日本", "東京")]
        request, _ = model._classify_request("日本", "東京")
    assert (reply.label, reply.probabilities) == ("b", {"a": 0.25, "b": 0.5, "c": 0.25})
    special = model.exported.special
    assert request.ids == [*special.before, *first, *special.between, *second, *special.pair_after]
    assert request.token_types == [0] * (2 + len(first)) + [1] * (1 + len(second))
    assert cut.note == "truncated from 201 to 32 tokens, as in training" and cut.error == "that is too deep"
    with InferencePipeline(exported("regress", "roberta"), "oracle") as model:
        assert model.predict("日本", GenerationConfig()).score == 0.25
        assert model._classify_request("日本", None)[0].token_types == []


def test_a_changed_export_is_refused(exported: Any, tmp_path: Path) -> None:
    folder = exported("mlm", "roberta")
    (folder / "README.md").write_text("mine")  # its users may say more
    InferencePipeline(folder, "oracle").__exit__(None, None, None)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    with pytest.raises(MismatchError, match="was changed or damaged"):
        InferencePipeline(folder, "oracle")
    with pytest.raises(ConfigError, match="no finished exported model"):
        InferencePipeline(tmp_path, "oracle")


IDS = """
import json, sys
from transformers import AutoConfig, AutoTokenizer
found = []
for folder, texts in json.load(open(sys.argv[1], encoding="utf-8")):
    tokenizer, config = AutoTokenizer.from_pretrained(folder), AutoConfig.from_pretrained(folder)
    assert config.vocab_size == len(tokenizer) and str(config.dtype).endswith("float32")
    found.append([tokenizer(text)["input_ids"] for text in texts])
print(json.dumps(found))
"""


@pytest.mark.backends
@pytest.mark.parametrize("version", ["4", "5"])
def test_a_row_with_masks_has_the_ids_of_transformers(version: str, exported: Any, tmp_path: Path) -> None:
    python = os.environ.get(f"JPREP_TRANSFORMERS{version}")
    if not python:
        pytest.skip(f"no transformers {version}: JPREP_TRANSFORMERS{version} names no Python that has it")
    given, ours = [], []
    for kind in ("roberta", "bert"):
        folder = exported("mlm", kind)
        tokenizer, about = load_tokenizer(folder), read_export(folder)
        given.append((str(folder), [text.replace("<mask>", tokenizer.special.mask) for text in TEXTS]))
        ours.append([masked_request(text, tokenizer, about, 5, 64).ids for text in TEXTS])
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps(given), encoding="utf-8")
    done = subprocess.run([python, "-c", IDS, str(asked)], capture_output=True, check=True, timeout=600)
    assert json.loads(done.stdout) == ours


@pytest.mark.parametrize(("kind", "special"), [("bpe", "roberta"), ("unigram", "roberta"), ("wordpiece", "bert")])
@pytest.mark.parametrize("text", [*TEXTS, "hello <mask> world", "hello<mask>  world", "<mask>\u3000the <mask>\n東京"])
def test_white_space_behind_a_mask_has_the_ids_of_the_tokenizers_file(
    kind: str, special: str, text: str, tmp_path: Path
) -> None:
    normalizers = [describe_step(make_step("normalizer", "neologdn"))]
    folder = finished(tmp_path, small(kind, special=[special]), normalizers)
    tokenizer = load_tokenizer(folder)
    about: Any = SimpleNamespace(special=special_ids(tokenizer))
    served = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    wanted = served.encode(text.replace("<mask>", tokenizer.special.mask)).ids
    assert masked_request(text, tokenizer, about, 5, 64).ids == wanted


@pytest.mark.parametrize("write", [write_wordpiece, write_metaspace])
def test_a_row_with_masks_has_the_ids_of_a_tokenizer_from_elsewhere(write: Any, tmp_path: Path) -> None:
    plain = tokenizers.Tokenizer.from_file(str(write(tmp_path / "t") / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path / "t")
    about: Any = SimpleNamespace(special=special_ids(tokenizer))
    mask = tokenizer.special.mask
    for text in ("吾輩は<mask>。", "the <mask> run", "<mask>", "[MASK] cats  <mask>は <mask> 猫", "<mask><mask>吾輩"):
        asked = text.replace("<mask>", mask).replace("[MASK]", mask)
        assert masked_request(text, tokenizer, about, 5, 64).ids == plain.encode(asked).ids
        assert tokenizer.id_of(mask) not in tokenizer.encode(asked)
    with pytest.raises(InputError, match=r"contains no (<mask>|\[MASK\])"):
        masked_request("the cats", tokenizer, about, 5, 64)


def test_masks_are_filled_with_the_white_space_of_words(tmp_path: Path) -> None:
    def fill(folder: Path, text: str, piece: str) -> str:
        tokenizer = load_tokenizer(folder)
        number = tokenizer.id_of(piece)
        return filled_text(text, tokenizer, [(number, tokenizer.decode([number]))])

    bert, metaspace = write_wordpiece(tmp_path / "bert"), write_metaspace(tmp_path / "metaspace")
    assert fill(bert, "the [MASK] run", "cat") == fill(metaspace, "the <mask> run", "▁cat") == "the cat run"
    assert fill(metaspace, "the cat <mask> run", "s") == "the cats run"
    assert fill(bert, "吾輩は[MASK]。", "猫") == fill(metaspace, "吾輩は<mask>。", "猫") == "吾輩は猫。"


LOGITS = st.lists(st.floats(-5, 5), min_size=4, max_size=12).map(np.array)


@given(LOGITS, st.integers(0, 99), st.floats(0.1, 2), st.integers(0, 5), st.floats(0.05, 1))
def test_a_sampled_token_is_among_those_it_is_sampled_from(
    logits: Any, position: int, temperature: float, top_k: int, top_p: float
) -> None:
    request = Generate([1], temperature=temperature, top_k=top_k, top_p=top_p, never=[2])
    token = next_token(logits, request, position)
    assert token == next_token(logits, request, position) != 2
    order = [number for number in np.argsort(-logits, kind="stable") if number != 2][: top_k or None]
    weights = np.exp((logits[order] - logits[order[0]]) / temperature)
    before = np.cumsum(weights / weights.sum()) - weights / weights.sum()
    assert token in [number for number, share in zip(order, before, strict=True) if share <= top_p + 1e-9]
    assert next_token(logits, Generate([1], never=[2]), position) == order[0]


def test_sampled_frequencies_match_the_probabilities() -> None:
    shares = np.array([0.5, 0.2, 0.2, 0.1])
    request = Generate([1], temperature=1.0)
    counts = np.bincount([next_token(np.log(shares), request, position) for position in range(4000)], minlength=4)
    assert np.abs(counts - 4000 * shares).max() < 4 * np.sqrt(4000 * 0.25)
    other = Generate([1], temperature=1.0, seed=2)
    assert [next_token(np.log(shares), other, n) for n in range(50)] != [
        next_token(np.log(shares), request, n) for n in range(50)
    ]


def test_sequences_are_independent_and_the_first_is_that_of_one(exported: Any) -> None:
    folder = exported("clm", "gpt2")
    with InferencePipeline(folder, "oracle") as model:
        request, _ = model._generate_request("日本", GenerationConfig(temperature=0.9))
        several = pipeline._sequences(request, GenerationConfig(temperature=0.9, num_return_sequences=3))
        found = model.predict("東京都は日本", GenerationConfig(tokens=2, temperature=0.9, num_return_sequences=3))
        with pytest.raises(ConfigError, match="needs sampling"):
            model.predict("日本", GenerationConfig(num_return_sequences=2))
    assert several[0] == request
    assert len(found.continuations) == 3 and found.continuation == found.continuations[0]
    logits = np.zeros(50)
    drawn = [[next_token(logits, one, position) for position in range(20)] for one in several]
    assert drawn[0] == [next_token(logits, request, position) for position in range(20)]
    assert len(set(map(tuple, drawn))) == 3
    more = pipeline._sequences(request, GenerationConfig(temperature=0.9, num_return_sequences=9))
    assert more[:3] == several


@given(st.integers(0, 5), st.integers(0, 5))
def test_draws_of_two_sequences_are_uncorrelated(first: int, second: int) -> None:
    logits, requests = np.zeros(2), [Generate([1], temperature=1.0, sequence=number) for number in (first, second)]
    drawn = [[next_token(logits, one, position) for position in range(400)] for one in requests]
    equal = sum(a == b for a, b in zip(*drawn, strict=True))
    assert equal == 400 if first == second else 140 < equal < 260
