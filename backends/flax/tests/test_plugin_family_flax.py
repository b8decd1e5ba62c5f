"""The model family of the guide for plugin authors, trained, resumed, exported and loaded by Flax."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from flax import nnx

from jprep.errors import ConfigError
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.exporting import export, weights
from jprep.train.inference.protocol import Generate
from jprep.train.launcher.import_probe import NotInstalledError
from jprep.train.models import TensorSpec
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep_flax.models import architectures
from jprep_flax.models import weights as flax_weights
from jprep_flax.models.layers import EmbeddingTable, Linear
from jprep_flax.worker.inference import InferenceModel
from tests.fakes.guide_family import CASE, DOCUMENTS, FAMILY, SMALL, installed_family, known_curve
from tests.fakes.trained_run import trained_run

ROW = [9, 30, 31, 32, 8, 70, 71]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRunner]:
    with installed_family(tmp_path_factory.mktemp("family")):
        yield SuiteRunner(tmp_path_factory.mktemp("runs"), "flax", {"device": "cpu"})


@pytest.mark.parametrize("case", [CASE, DOCUMENTS])
def test_losses_are_those_of_all_backends(case: str, bench: SuiteRunner) -> None:
    trained, known = bench.trained(case), known_curve(case)
    assert list(trained.losses().values()) == pytest.approx(known.train, rel=1e-4)
    assert trained.losses("validation") == pytest.approx(known.validation, rel=1e-4)


@pytest.mark.soak
def test_weights_are_sharded_and_layers_recomputed(bench: SuiteRunner) -> None:
    trained = bench.trained(CASE, {"devices": 2, "fsdp": 2, "gradient_checkpointing": True})
    assert list(trained.losses().values()) == pytest.approx(known_curve(CASE).train, rel=1e-4)


def test_numbers_behind_that_of_the_layer_are_places_in_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {f"model.layers.{layer}.mlp.{place}.weight": TensorSpec((2,)) for layer in (0, 1) for place in (0, 1)}
    monkeypatch.setattr(flax_weights, "parameters", lambda config, task: tensors)
    found = {name: (at.path, at.layer) for name, at in flax_weights.tensor_locations({}, "clm").items()}
    assert found == {
        f"model.layers.{layer}.mlp.{place}.weight": (("model", "layers", "mlp", place, "weight"), layer)
        for layer in (0, 1)
        for place in (0, 1)
    }


def test_a_killed_run_ends_with_the_same_bytes(bench: SuiteRunner) -> None:
    killed, whole = bench.train(bench.prepare(CASE), JPREP_FAILPOINT="run.committed@2"), bench.trained(CASE)
    assert [event.step for event in killed.events() if event.kind == "start"] == [0, 30]
    assert bench.exported(killed).read_bytes() == bench.exported(whole).read_bytes()


def test_a_run_of_torch_is_continued(bench: SuiteRunner) -> None:
    try:
        trained = bench.resumed_from(CASE, "torch", 30)
    except NotInstalledError:
        pytest.skip("the backend torch is not installed")
    assert [event.step for event in trained.events() if event.kind == "start"] == [0, 30]
    assert list(trained.losses().values()) == pytest.approx(known_curve(CASE).train, rel=1e-4)


def test_the_axis_tensor_needs_the_family_s_word(bench: SuiteRunner) -> None:
    with pytest.raises(ConfigError, match=f"the weights of the family '{FAMILY}' cannot be sharded"):
        bench.prepare(CASE, {"devices": 2, "tensor": 2})


@pytest.fixture
def exported(bench: SuiteRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an exported model of the family, without a worker."""
    monkeypatch.setattr(
        weights, "_run_worker", lambda name, run, checkpoint, folder: CheckpointReader(checkpoint).export(folder)
    )
    run = trained_run(tmp_path, "clm", FAMILY, special="gpt", model={"config": {"model_type": FAMILY, **SMALL}})
    return export(run)


def test_an_exported_model_continues_from_the_whole_row(exported: Path) -> None:
    model, ids = InferenceModel(exported), list(ROW)
    whole = nnx.merge(nnx.split(model._model)[0], model.weights)
    for _ in range(6):
        hidden = whole.base_model(jnp.array([ids]), jnp.array([len(ids)]), None, None)
        ids.append(int(whole.lm_logits(hidden[0, -1]).argmax()))
    assert model.predict(Generate(ids=ROW, tokens=6)).ids == ids[len(ROW) :]


class WrongShape(nnx.Module):
    """A model whose weights are not those of the family."""

    def __init__(self, config: Any, ids: int, make: Any, remat: bool) -> None:
        self.embedding = self.embed_tokens = EmbeddingTable(make, ids, config.hidden_size)
        self.extra = Linear(make, (2, None), (2, None))


def test_another_model_than_the_family_describes_is_refused(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "load_class", lambda reference: WrongShape)
    with pytest.raises(ConfigError, match=r"has no weight 'model\.layers\.norm\.weight'"):
        InferenceModel(exported)
