"""The model family of the guide for plugin authors: trained, resumed, sharded, exported and loaded by torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch
import transformers
from torch import nn

from jprep.errors import ConfigError
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.exporting import export, weights
from jprep.train.inference.protocol import Classify, Generate, Score
from jprep.train.job.config import ModelConfig, TrainConfig
from jprep.train.models import TokenizerInfo, model_config, parameters
from jprep.train.models.registry import VERSION
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import read_job
from jprep_torch.backend import Torch
from jprep_torch.models import plugin_model
from jprep_torch.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_torch.models.transformers_models import build_model, load_weights, weight_names
from jprep_torch.options import Options
from jprep_torch.worker.inference import load_model, predict
from tests.fakes.guide_family import CASE, CLASSES, FAMILY, SMALL, installed_family, known_curve
from tests.fakes.row_documents import IDS, LENGTH, PAD, rows_of_documents
from tests.fakes.trained_run import trained_run

HOOKS = Path(__file__).parent / "hooks" / "suite_hooks.py"
ROW = [9, 30, 31, 32, 8, 70, 71]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRunner]:
    with installed_family(tmp_path_factory.mktemp("family")):
        yield SuiteRunner(tmp_path_factory.mktemp("runs"), "torch", {"device": "cpu", "threads": 1})


def small_model(task: Any = "clm", **more: Any) -> nn.Module:
    """Return a model with random weights."""
    about = TokenizerInfo(IDS, LENGTH, 0, 2, PAD, labels=("a", "b", "c"))
    config = model_config(ModelConfig(config={"model_type": FAMILY, **SMALL, **more}), task, about)
    model, random = build_model(config, task), np.random.default_rng(1)
    shapes = {name: tensor.shape for name, tensor in parameters(config, task).items()}
    values = {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    load_weights(model, weight_names(model, config, task), values, lambda tensor, _: tensor)
    return model


def exported(folder: Path, task: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, nn.Module]:
    """Return an export, and the checkpoint's model as the trainer builds it."""
    run = trained_run(folder, task, FAMILY, special="gpt", model={"config": {"model_type": FAMILY, **SMALL}})
    monkeypatch.setattr(
        weights, "_run_worker", lambda name, run, checkpoint, folder: CheckpointReader(checkpoint).export(folder)
    )
    job, model = read_job(run), build_model(read_job(run).model, task)
    tensors = CheckpointReader(run / "checkpoints" / "step-00000010").weights
    load_weights(model, weight_names(model, job.model, task), tensors, lambda tensor, _: tensor)
    return export(run), model.eval()


def test_losses_are_those_of_all_backends(bench: SuiteRunner) -> None:
    trained, known = bench.trained(CASE), known_curve(CASE)
    assert list(trained.losses().values()) == pytest.approx(known.train, rel=1e-4)
    assert trained.losses("validation") == pytest.approx(known.validation, rel=1e-4)


def test_a_killed_run_ends_with_the_same_bytes(bench: SuiteRunner) -> None:
    killed, whole = bench.train(bench.prepare(CASE), JPREP_FAILPOINT="run.committed@2"), bench.trained(CASE)
    assert [event.step for event in killed.events() if event.kind == "start"] == [0, 30]
    assert killed.losses() == whole.losses()
    assert bench.exported(killed).read_bytes() == bench.exported(whole).read_bytes()


@pytest.mark.soak
@pytest.mark.parametrize("shard", ["yes", "no"])
def test_layers_are_sharded_and_recomputed(shard: str, bench: SuiteRunner) -> None:
    trained = bench.trained(CASE, {"processes": 2, "shard": shard, "gradient_checkpointing": True})
    assert list(trained.losses().values())[:20] == pytest.approx(known_curve(CASE).train[:20], rel=1e-5)


@pytest.mark.soak
def test_classes_are_learnt_by_its_head_and_by_a_hook_s(bench: SuiteRunner) -> None:
    for hooks in ({}, {"hooks": {"head": f"{HOOKS}:MeanPoolingHead"}}):
        losses = list(bench.trained(CLASSES, **hooks).losses().values())
        assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])


def test_an_export_is_the_model_of_another_run(bench: SuiteRunner) -> None:
    trained = bench.trained(CASE)
    weights_file = bench.exported(trained)
    model = {"config": read_config(trained.run), "init": str(weights_file)}
    still = {"lr": 1e-30, "weight_decay": 0.0}
    again = bench.trained(CASE, model=model, optimizer=still, steps=1, schedule={}, validation={"every_steps": 1})
    assert again.losses("validation")[1] == pytest.approx(trained.losses("validation")[50], rel=1e-6)


def read_config(run: Path) -> dict[str, Any]:
    config = read_job(run).model
    return {key: config[key] for key in ("model_type", *SMALL)}


def test_an_export_says_what_loads_it(bench: SuiteRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = exported(tmp_path, "clm", monkeypatch)
    config = json.loads((folder / "config.json").read_bytes())
    assert (config["model_type"], config[VERSION]) == (FAMILY, 1)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: jprep" in card and "`AutoModel` does not load this folder" in card
    assert "`jprep-gated-linear`" in card and "from transformers import" not in card
    assert transformers.AutoTokenizer.from_pretrained(folder)("日本").input_ids
    with pytest.raises(ValueError, match=FAMILY):
        transformers.AutoModelForCausalLM.from_pretrained(folder)


def test_an_exported_model_continues_and_scores(
    bench: SuiteRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = exported(tmp_path, "clm", monkeypatch)
    loaded, ids = load_model(folder), list(ROW)
    for _ in range(6):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    assert predict(loaded, Generate(ids=ROW, tokens=6)).ids == ids[len(ROW) :]
    shares = model(torch.tensor([ROW])).logits[0].detach().double().log_softmax(-1)
    expected = sum(float(shares[at - 1, ROW[at]]) for at in range(2, len(ROW)))
    assert predict(loaded, Score([ROW, ROW[:3]], [2, 1])).scores[0] == pytest.approx(expected, rel=1e-5)


def test_an_exported_classifier_tells_classes(
    bench: SuiteRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = exported(tmp_path, "classify", monkeypatch)
    expected = model(torch.tensor([ROW])).logits[0].double().softmax(-1)
    assert predict(load_model(folder), Classify(ids=ROW)).scores == pytest.approx(expected.tolist(), rel=1e-5)


class SmallJob(NamedTuple):
    """What `ModelWithLoss` reads of a job."""

    train: TrainConfig
    model: dict[str, Any]
    class_weights: tuple[float, ...] = ()


def loss_and_gradients(model: ModelWithLoss, batches: list[ModelInputs]) -> tuple[float, dict[str, torch.Tensor]]:
    model.zero_grad()
    losses = [model(batch)[0] for batch in batches]
    torch.stack(losses).sum().backward()
    return float(sum(losses)), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_documents_are_as_in_rows_of_their_own(bench: SuiteRunner) -> None:
    rows, model = rows_of_documents(), small_model()
    job: Any = SmallJob(TrainConfig(task="clm", steps=1), model.config.to_dict())
    whole = ModelWithLoss(model, job).eval()
    ids, labels, documents = (torch.from_numpy(each) for each in rows)
    lengths = (documents >= 0).sum(1)
    together = ModelInputs(ids, labels, lengths, full=False, types=None, documents=documents)
    apart = [
        ModelInputs(*map(torch.from_numpy, each), torch.tensor([each[0].shape[1]]), full=True, types=None)
        for each in rows.alone()
    ]
    first, second = loss_and_gradients(whole, [together]), loss_and_gradients(whole, apart)
    assert first[0] == pytest.approx(second[0], rel=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in second[1].values())
    for name, gradient in second[1].items():
        assert torch.allclose(first[1][name], gradient, rtol=1e-4, atol=1e-5 * largest), name
    joined = together._replace(documents=documents.clamp_max(0))
    assert loss_and_gradients(whole, [joined])[0] != pytest.approx(second[0], rel=5e-5), "documents must matter"


@pytest.mark.parametrize("tied", [True, False])
def test_recomputed_layers_have_the_same_gradients(tied: bool, bench: SuiteRunner) -> None:
    ids = torch.tensor([ROW])
    models = [small_model(tie_word_embeddings=tied) for _ in range(2)]
    models[1].gradient_checkpointing_enable({"use_reentrant": False})
    for model in models:
        model(ids).logits.square().sum().backward()
    for name, weight in models[0].named_parameters():
        assert torch.equal(weight.grad, models[1].get_parameter(name).grad), name
    assert hasattr(models[0], "lm_head") and tied == (models[0].lm_head.weight is models[0].model.embed_tokens.weight)


class WrongShape(nn.Module):
    """A model whose weights are not those of the family."""

    def __init__(self, config: Any, ids: int) -> None:
        super().__init__()
        self.layers, self.embed_tokens = nn.ModuleList(), nn.Embedding(ids, config.hidden_size)


class WithoutLayers(nn.Module):
    """A model that does not say which its layers are."""

    def __init__(self, config: Any, ids: int) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("wrong", "what"),
    [(WrongShape, "not at all, and the family as"), (WithoutLayers, "no nn.ModuleList `layers`")],
)
def test_another_model_than_the_family_describes_is_refused(
    wrong: type, what: str, bench: SuiteRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_model, "load_class", lambda reference: wrong)
    with pytest.raises(ConfigError, match=what):
        small_model()


def test_xla_needs_the_family_s_word(bench: SuiteRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = bench.prepare(CASE)
    job = msgspec.structs.replace(prepared.job, options=msgspec.to_builtins(Options(device="xla")))
    assert Torch().plan(job, prepared.run, prepared.host).env["PJRT_DEVICE"]
    monkeypatch.setattr(type(plugin_model.FAMILIES[FAMILY].plugin), "features", ())
    with pytest.raises(ConfigError, match=f"device xla cannot train a {FAMILY}"):
        Torch().plan(job, prepared.run, prepared.host)
