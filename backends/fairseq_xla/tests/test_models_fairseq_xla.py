"""fairseq's models have the weights and outputs of transformers, and convert back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jprep.errors import InputError
from jprep.random.counter_bits import key
from jprep.train.exporting import export, weights
from jprep.train.inference.protocol import Classify, FillMask, Generate
from jprep.train.models import parameters
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import read_job
from jprep_fairseq_xla.models.weights import tensor_locations, to_fairseq_weights, to_transformers_tensor
from jprep_fairseq_xla.planning.fairseq_options import TASKS
from jprep_fairseq_xla.worker.inference import load_model, logits, predict
from tests.fakes.trained_run import model_of, trained_run

KINDS = tuple(TASKS)
IDS = [9, 30, 31, 32, 8, 70, 71]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export in this process."""
    monkeypatch.setattr(
        weights, "_run_worker", lambda name, run, checkpoint, folder: CheckpointReader(checkpoint).export(folder)
    )


def exported(folder: Path, kind: str, **config: Any) -> Path:
    return export(trained_run(folder, TASKS[kind], kind, model={"config": model_of(kind)["config"] | config}))


def numbers(name: str, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(key(1, name)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_survive_a_round_trip(kind: str, tmp_path: Path) -> None:
    config, task = read_job(trained_run(tmp_path, TASKS[kind], kind)).model, TASKS[kind]
    ours = {name: numbers(name, tensor.shape) for name, tensor in parameters(config, task).items()}
    theirs = to_fairseq_weights(config, task, ours.__getitem__)
    assert sum(array.size for array in theirs.values()) >= sum(array.size for array in ours.values())
    for name, spot in tensor_locations(config, task).items():
        assert np.array_equal(to_transformers_tensor(spot, theirs.__getitem__), ours[name]), name


@pytest.mark.parametrize("activation", ["", "gelu_new", "relu"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_transformers(kind: str, activation: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    key = "activation_function" if kind == "gpt2" else "hidden_act"
    folder = exported(tmp_path, kind, **({key: activation} if activation else {}))
    loader = transformers.AutoModelForMaskedLM if TASKS[kind] == "mlm" else transformers.AutoModelForCausalLM
    rows = torch.tensor([IDS, IDS[::-1]])
    with torch.inference_mode():
        wanted = loader.from_pretrained(folder).eval()(input_ids=rows).logits
        found = logits(*load_model(folder), rows)
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_fill_mask_gives_the_result_of_fairseq_itself(tmp_path: Path) -> None:
    model, config = load_model(exported(tmp_path, "roberta"))
    from fairseq.models.roberta.hub_interface import RobertaHubInterface

    from jprep_fairseq_xla.models.task import IdDictionary

    class AsIds:
        """A text is a list of ids."""

        def encode(self, text: str) -> str:
            return text.strip()

        def decode(self, text: str) -> str:
            return text

    words = IdDictionary(config["vocab_size"], config["pad_token_id"])
    mask = config["vocab_size"] - 1
    words.indices |= {"<s>": config["bos_token_id"], "</s>": config["eos_token_id"], "<mask>": mask}

    class Task:
        source_dictionary, mask_idx = words, mask

    hub = RobertaHubInterface.__new__(RobertaHubInterface)
    torch.nn.Module.__init__(hub)
    hub.model, hub.bpe, hub.task = model, AsIds(), Task()
    hub.register_buffer("_float_tensor", torch.tensor([0.0]))
    theirs = hub.fill_mask("9 30 <mask> 8 70", topk=4)
    ids = [config["bos_token_id"], 9, 30, mask, 8, 70, config["eos_token_id"]]
    [ours] = predict(model, config, FillMask(ids=ids, mask=mask, top=4)).masks
    assert [str(guess.id) for guess in ours] == [word.strip() for _, _, word in theirs]
    assert [guess.probability for guess in ours] == pytest.approx([share for _, share, _ in theirs], rel=1e-5)


def test_generation_appends_the_most_probable_token(tmp_path: Path) -> None:
    model, config = load_model(exported(tmp_path, "gpt2"))
    found = predict(model, config, Generate(ids=IDS, tokens=5)).ids
    row = list(IDS)
    for token in found:
        with torch.inference_mode():
            assert token == int(logits(model, config, torch.tensor([row]))[0, -1].argmax())
        row.append(token)
    assert len(found) == 5
    ended = predict(model, config, Generate(ids=IDS, tokens=5, end=[found[2]])).ids
    assert ended == found[: found.index(found[2])]


def test_unsupported_requests_and_models_are_refused(tmp_path: Path) -> None:
    folder = exported(tmp_path, "bert")
    model, config = load_model(folder)
    for request in (Generate(ids=IDS, tokens=1), Classify(ids=IDS)):
        with pytest.raises(InputError, match="does not support"):
            predict(model, config, request)
    with pytest.raises(InputError, match="numbers from 0 to"):
        predict(model, config, FillMask(ids=[99999], mask=4))
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    with pytest.raises(InputError, match="lacks the tensor"):
        load_model(folder)
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertForNextSentencePrediction"]}))
    with pytest.raises(InputError, match="does not support a BertForNextSentencePrediction"):
        load_model(folder)
