"""The inference server answers as transformers does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from small_models import MODELS, inputs_of

from jprep.errors import InputError
from jprep.train.inference.protocol import Classify, FillMask, Generate, Response
from jprep_flax.worker.inference import InferenceModel
from tests.fakes.small_models import transformers_outputs

ROW = [9, 30, 31, 32, 8, 70, 71]
MASK = 4


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transformers_outputs(MODELS, tmp_path_factory.mktemp("answers"))


@pytest.mark.parametrize("kind", ["gpt2", "qwen3"])
def test_generated_text_is_that_of_transformers(kind: str, theirs: Path) -> None:
    folder = theirs / f"{kind}-clm"
    ids = inputs_of(MODELS.config(kind, "clm"), "clm").ids[0].tolist()
    expected = np.load(folder / "outputs.npz")["next"][0].tolist()
    model = InferenceModel(folder)
    assert model.predict(Generate(ids=ids, tokens=len(expected))).ids == expected
    ended = model.predict(Generate(ids=ids, tokens=len(expected), end=expected[2:3]))
    assert ended.ids == expected[: expected.index(expected[2])]


def test_the_cache_gives_the_result_of_a_whole_row(tmp_path: Path) -> None:
    model = InferenceModel(MODELS.export(tmp_path, "llama", "clm"))
    long = model.predict(Generate(ids=ROW, tokens=30)).ids
    again = model.predict(Generate(ids=ROW + long[:20], tokens=10)).ids
    assert long[20:] == again


def test_sampling_depends_on_the_seed_only(tmp_path: Path) -> None:
    model = InferenceModel(MODELS.export(tmp_path, "gpt2", "clm"))
    request = Generate(ids=ROW, tokens=20, temperature=1.0, top_k=50, top_p=0.9)
    first = model.predict(request)
    other = model.predict(msgspec.structs.replace(request, seed=2))
    assert model.predict(request) == first != other


def test_masks_are_filled_by_probability(theirs: Path) -> None:
    folder = theirs / "roberta-mlm"
    rows = inputs_of(MODELS.config("roberta", "mlm"), "mlm")
    ids, place = rows.ids[0].tolist(), 2
    answer = InferenceModel(folder).predict(FillMask(ids=ids, mask=ids[place], top=4))
    logits = np.load(folder / "outputs.npz")["logits"][0, place].astype(np.float64)
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    best = np.argsort(-shares)[:4]
    assert [guess.id for guess in answer.masks[0]] == best.tolist()
    assert [guess.probability for guess in answer.masks[0]] == pytest.approx(shares[best].tolist(), rel=1e-4)


def test_classes_and_scores_are_those_of_transformers(theirs: Path) -> None:
    rows = inputs_of(MODELS.config("bert", "classify"), "classify")
    length = int(rows.lengths[2])
    ids, types = rows.ids[2, :length].tolist(), rows.types[2, :length].tolist()
    logits = np.load(theirs / "bert-classify" / "outputs.npz")["logits"][2]
    shares = np.exp(logits) / np.exp(logits).sum()
    model = InferenceModel(theirs / "bert-classify")
    assert model.predict(Classify(ids=ids, token_types=types)).scores == pytest.approx(shares.tolist(), rel=1e-4)
    with pytest.raises(InputError, match="from 0 to 1"):
        model.predict(Classify(ids=ids, token_types=[2] * length))
    rows = inputs_of(MODELS.config("roberta", "regress"), "regress")
    score = np.load(theirs / "roberta-regress" / "outputs.npz")["logits"][0]
    answer = InferenceModel(theirs / "roberta-regress").predict(Classify(ids=rows.ids[0].tolist()))
    assert answer.scores == pytest.approx(score.tolist(), rel=1e-4)


def test_rows_are_padded_to_a_few_lengths(tmp_path: Path) -> None:
    model = InferenceModel(MODELS.export(tmp_path, "bert", "mlm"))
    found = {model.padded_row([5] * length)[0].shape[1] for length in range(1, 65)}
    assert found == {16, 32, 64}


def test_the_server_answers_line_by_line_and_survives_invalid_requests(tmp_path: Path) -> None:
    folder = MODELS.export(tmp_path, "bert", "mlm")
    good = msgspec.json.encode(FillMask(ids=[2, MASK, 3], mask=MASK, top=2))
    lines = [good, b"no json", b'{"task":"fill-mask","ids":[99999],"mask":4}', b'{"task":"judge","ids":[]}', good]
    lines.append(msgspec.json.encode(FillMask(ids=[MASK] * 65, mask=MASK)))
    command = [sys.executable, "-m", "jprep_flax.worker", "infer", str(folder)]
    done = subprocess.run(command, input=b"\n".join(lines) + b"\n", capture_output=True, timeout=600)
    answers = [msgspec.json.decode(line, type=Response) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [bool(answer.error) for answer in answers] == [False, True, True, True, False, True]
    assert answers[0] == answers[4] and len(answers[0].masks[0]) == 2
    assert "64 positions" in answers[5].error


def test_a_model_without_all_weights_is_refused(tmp_path: Path) -> None:
    folder = MODELS.export(tmp_path, "bert", "mlm")
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    with pytest.raises(InputError, match="lacks the tensor"):
        InferenceModel(folder)
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertForNextSentencePrediction"]}))
    with pytest.raises(InputError, match="is not supported"):
        InferenceModel(folder)
