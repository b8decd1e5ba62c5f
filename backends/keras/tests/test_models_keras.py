"""KerasHub's models have the outputs, losses and gradients of transformers, and answer requests as it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file
from small_models import MODELS, inputs_of

from jprep.errors import InputError, MachineError
from jprep.train.inference.protocol import Classify, FillMask, Generate
from jprep.train.models import parameters
from jprep_keras.models import variables
from jprep_keras.models.model_with_loss import ModelInputs, ModelWithLoss, _pair
from jprep_keras.worker.inference import InferenceModel
from tests.fakes.small_models import CASES, rows_of, transformers_outputs

ROW = [9, 30, 31, 32, 8, 70, 71]


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transformers_outputs(MODELS, tmp_path_factory.mktemp("models"))


def weights_of(folder: Path) -> dict[str, Any]:
    return {name: tf.constant(array) for name, array in load_file(folder / "model.safetensors").items()}


def tensors(inputs: ModelInputs) -> ModelInputs:
    return ModelInputs(*map(tf.constant, inputs))


@pytest.mark.parametrize(
    ("kind", "task", "padded"), [*((*case, 0) for case in CASES), ("llama", "clm", 1000), ("bert", "mlm", 1000)]
)
def test_losses_outputs_and_gradients_are_those_of_transformers(
    kind: str, task: str, padded: int, theirs: Path
) -> None:
    folder, config = theirs / f"{kind}-{task}", MODELS.config(kind, task)
    weights, expected = weights_of(folder), np.load(folder / "outputs.npz")
    model, inputs = ModelWithLoss(config, task, padded=padded), tensors(inputs_of(rows_of(config, task), task))

    @tf.function
    def measured() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss, outputs, _ = model(weights, inputs)
        return loss, outputs, tape.gradient(loss, weights, unconnected_gradients="zero")

    loss, outputs, gradient = measured()
    assert float(loss) == pytest.approx(float(expected["loss"]), rel=2e-6)
    if task in ("classify", "regress"):
        assert np.abs(outputs.numpy() - expected["logits"]).max() < 1e-5
    for name, spec in parameters(config, task).items():
        if spec.trained:
            given, ours = expected[f"gradient {name}"], tf.convert_to_tensor(gradient[name]).numpy()
            assert np.abs(ours - given).max() <= 1e-5 * max(1.0, float(np.abs(given).max())), name


def test_rows_without_tokens_do_not_train_the_vector_of_padding(theirs: Path) -> None:
    config, weights = MODELS.config("llama", "regress"), weights_of(theirs / "llama-regress")
    rows = rows_of(config, "regress")
    rows["lengths"][0], rows["ids"][0] = 0, config["pad_token_id"]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss, _, _ = ModelWithLoss(config, "regress")(weights, tensors(inputs_of(rows, "regress")))
    gradient = tf.convert_to_tensor(tape.gradient(loss, weights["model.embed_tokens.weight"])).numpy()
    assert not gradient[config["pad_token_id"]].any() and gradient.any()


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_generated_text_is_that_of_transformers(kind: str, theirs: Path) -> None:
    folder = theirs / f"{kind}-clm"
    ids = rows_of(MODELS.config(kind, "clm"), "clm")["ids"][0].tolist()
    expected = np.load(folder / "outputs.npz")["next"][0].tolist()
    model = InferenceModel(folder)
    assert model.predict(Generate(ids=ids, tokens=len(expected))).ids == expected
    again = model.predict(Generate(ids=ids + expected[:5], tokens=len(expected) - 5))
    assert again.ids == expected[5:]  # the cache gives the result of a whole row


def test_sampling_depends_on_the_seed_only(tmp_path: Path) -> None:
    model = InferenceModel(MODELS.export(tmp_path, "gpt2", "clm"))
    request = Generate(ids=ROW, tokens=20, temperature=1.0, top_k=50, top_p=0.9)
    first = model.predict(request)
    other = model.predict(msgspec.structs.replace(request, seed=2))
    assert model.predict(request) == first != other


def test_masks_are_filled_by_probability(theirs: Path) -> None:
    folder = theirs / "roberta-mlm"
    ids, place = rows_of(MODELS.config("roberta", "mlm"), "mlm")["ids"][0].tolist(), 2
    answer = InferenceModel(folder).predict(FillMask(ids=ids, mask=ids[place], top=4))
    logits = np.load(folder / "outputs.npz")["logits"][0, place].astype(np.float64)
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    best = np.argsort(-shares)[:4]
    assert [guess.id for guess in answer.masks[0]] == best.tolist()
    assert [guess.probability for guess in answer.masks[0]] == pytest.approx(shares[best].tolist(), rel=1e-4)


def test_classes_are_those_of_transformers(theirs: Path) -> None:
    rows = rows_of(MODELS.config("bert", "classify"), "classify")
    length = int(rows["lengths"][2])
    ids, types = rows["ids"][2, :length].tolist(), rows["types"][2, :length].tolist()
    logits = np.load(theirs / "bert-classify" / "outputs.npz")["logits"][2]
    shares = np.exp(logits) / np.exp(logits).sum()
    model = InferenceModel(theirs / "bert-classify")
    assert model.predict(Classify(ids=ids, token_types=types)).scores == pytest.approx(shares.tolist(), rel=1e-4)


def test_answers_do_not_depend_on_the_lengths_of_earlier_rows(tmp_path: Path) -> None:
    rows = [(ROW * 6)[:length] for length in (7, 36, 17, 5)]
    folder = MODELS.export(tmp_path, "bert", "classify")
    classifier = InferenceModel(folder)
    for row in rows:
        expected = InferenceModel(folder).predict(Classify(ids=row)).scores
        assert classifier.predict(Classify(ids=row)).scores == pytest.approx(expected, rel=1e-5)
    folder = MODELS.export(tmp_path, "roberta", "mlm")
    filler = InferenceModel(folder)
    for row in rows:
        [expected] = InferenceModel(folder).predict(FillMask(ids=row, mask=row[3], top=1)).masks[:1]
        [found] = filler.predict(FillMask(ids=row, mask=row[3], top=1)).masks[:1]
        assert found[0].id == expected[0].id
        assert found[0].probability == pytest.approx(expected[0].probability, rel=1e-5)


def test_a_model_without_all_weights_is_refused(tmp_path: Path) -> None:
    folder = MODELS.export(tmp_path, "bert", "mlm")
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    with pytest.raises(InputError, match="lacks the tensor"):
        InferenceModel(folder)


def test_a_model_of_another_version_of_keras_hub_is_refused() -> None:
    values = {"token_embedding/embeddings": variables._same("a")}
    with pytest.raises(MachineError, match="another model: token_embedding/embeddings"):
        _pair([], values)


def test_dropout_depends_on_the_seeds(tmp_path: Path) -> None:
    config = MODELS.config("bert", "mlm")
    weights, model = weights_of(MODELS.export(tmp_path, "bert", "mlm")), ModelWithLoss(config, "mlm")
    inputs = tensors(inputs_of(rows_of(config, "mlm"), "mlm"))
    assert model.seeds == 1 + 3 * config["num_hidden_layers"]
    one, two = (np.arange(2 * model.seeds).reshape(-1, 2) + start for start in (0, 100))
    losses = [float(model(weights, inputs, tf.constant(seeds))[0]) for seeds in (one, one, two)]
    assert losses[0] == losses[1] != losses[2]
