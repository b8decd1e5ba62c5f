"""Replaced-token detection: sizes of Clark et al. (2020), names of both halves, exports, figures, and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.corpus.config import CorpusConfig
from jprep.errors import ConfigError
from jprep.io.safetensors_file import TensorFiles, read_header
from jprep.pipeline.unused_keys import find_unused_keys
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.exporting import export, export_of
from jprep.train.exporting.manifest import read_export
from jprep.train.inference.pipeline import InferencePipeline
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, ModelConfig, TrainConfig, parse_train_config
from jprep.train.job.rtd import RtdConfig
from jprep.train.models import (
    TokenizerInfo,
    half_names,
    model_config,
    parameter_count,
    parameters,
    training_memory,
)
from jprep.train.models.electra import half_config
from jprep.train.models.flops import flops_per_token
from jprep.train.models.initial_weights import check_init_weights, write_initial_weights
from jprep.train.planning.published import published_warnings
from jprep.train.pretrained.start import describe_init
from jprep.train.run.directory import read_job
from jprep.train.worker.rtd_figures import SUMS, rtd_figures
from tests.fakes.trained_run import model_of, trained_run
from tests.unit.train.test_build_job import Parts

ABOUT = TokenizerInfo(vocab_size=30522, length=128, pad=0, labels=("a", "b"))
SIZES = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "embedding_size")


def config_of(preset: str, task: Any = "rtd", **rtd: Any) -> dict[str, Any]:
    return model_config(ModelConfig(preset=preset), task, ABOUT, rtd=RtdConfig(**rtd))


# Table 6 of the paper, and the layers of google-research/electra: as many as the discriminator's.
@pytest.mark.parametrize(
    ("preset", "discriminator", "generator", "millions"),
    [
        ("electra-small", [256, 1024, 4, 12, 128], [64, 256, 1, 12, 128], 14),
        ("electra-base", [768, 3072, 12, 12, 768], [256, 1024, 4, 12, 768], 110),
        ("electra-large", [1024, 4096, 16, 24, 1024], [256, 1024, 4, 24, 1024], 335),
    ],
)
def test_presets_have_the_published_sizes(
    preset: str, discriminator: list[int], generator: list[int], millions: int
) -> None:
    config = config_of(preset)
    assert [config[key] for key in SIZES] == discriminator
    assert [config["generator"][key] for key in SIZES] == generator
    assert config["architectures"] == ["ElectraForPreTraining"]
    assert config["generator"]["architectures"] == ["ElectraForMaskedLM"]
    own = [config[key] for key in ("max_position_embeddings", "type_vocab_size", "layer_norm_eps", "hidden_act")]
    assert own == [512, 2, 1e-12, "gelu"]
    shapes = parameters(config, "rtd")
    weights = sum(shapes[name].size for name in half_names(config, "discriminator"))
    assert round(weights / 1e6) == pytest.approx(millions, abs=1)


def test_the_generator_can_have_other_sizes() -> None:
    assert config_of("electra-small", generator_size=1.0)["generator"]["hidden_size"] == 256
    small = config_of("electra-tiny")["generator"]
    assert [small[key] for key in SIZES] == [32, 128, 1, 2, 64]
    wide = {"hidden_size": 96, "num_hidden_layers": 1, "num_attention_heads": 3}
    assert [config_of("electra-tiny", generator=wide)["generator"][key] for key in SIZES] == [96, 128, 3, 1, 64]


def test_both_halves_have_the_names_of_transformers_and_share_embeddings() -> None:
    config = config_of("electra-tiny")
    stored = parameters(config, "rtd")
    generator = parameters(half_config(config, "generator"), "mlm")
    names = half_names(config, "generator")
    assert {name: stored[source].shape for name, source in names.items()} == {
        name: tensor.shape for name, tensor in generator.items()
    }
    discriminator = half_names(config, "discriminator")
    assert set(discriminator.values()) | set(names.values()) == set(stored)
    shared = set(discriminator.values()) & set(names.values())
    assert shared == {name for name in stored if name.startswith("electra.embeddings.")}
    assert "generator.electra.embeddings_project.weight" in stored
    base = parameters(config_of("electra-tiny", "classify"), "classify")
    assert {name for name in base if name.startswith("electra.")} <= set(discriminator)


def test_memory_and_operations_count_both_halves() -> None:
    config = config_of("electra-small")
    single = config_of("electra-small", "mlm")
    count = parameter_count(config, "rtd")
    assert training_memory(config, "rtd", 0, 128, "fp32") == 16 * count > 16 * parameter_count(single, "mlm")
    kept, of_one = (
        training_memory(model, task, 8, 128, "fp32", fused=True) - training_memory(model, task, 0, 128, "fp32")
        for model, task in ((config, "rtd"), (single, "mlm"))
    )
    assert kept == of_one * (256 + 64) // 256
    assert flops_per_token(config, count, 128) - 6 * count == 12 * 12 * (256 + 64) * 128


def test_a_discriminator_is_the_start_of_a_classifier(tmp_path: Path) -> None:
    config, path = config_of("electra-tiny"), tmp_path / "model.safetensors"
    write_initial_weights(config, "rtd", 3, path)
    found = check_init_weights(config_of("electra-tiny", "classify"), "classify", path)
    assert set(found) == {name for name in parameters(config, "rtd") if name.startswith("electra.")}


def test_pretraining_starts_from_both_halves_only(run: Path) -> None:
    config, checkpoint = read_job(run).model, run / "checkpoints/step-00000010/model.safetensors"
    assert set(check_init_weights(config, "rtd", checkpoint)) == set(parameters(config, "rtd"))
    with pytest.raises(ConfigError, match=r"no tensor 'generator\.") as caught:
        check_init_weights(config, "rtd", export(run) / "model.safetensors")
    assert "both halves" in caught.value.fix


def test_pretraining_starts_from_two_folders(tmp_path: Path, copying: None) -> None:
    """An export of each half, as google/electra-small-discriminator and -generator are."""
    run = trained_run(tmp_path, "rtd", "electra", rtd={"generator": {"hidden_size": 8, "num_attention_heads": 2}})
    discriminator, generator = export(run), export(run, generator=True)
    begun = prepare_from(tmp_path, discriminator, generator)
    before = read_job(run)
    assert begun.model == before.model and begun.train.rtd.generator == {}
    path = tmp_path / "init.safetensors"
    write_initial_weights(begun.model, "rtd", 99, path, discriminator, None, generator)
    expected = TensorFiles([run / "checkpoints/step-00000010/model.safetensors"])
    found = TensorFiles([path])
    assert set(found) == set(expected)
    for name in found:
        np.testing.assert_array_equal(found[name], expected[name], name)


def test_a_job_from_two_folders_depends_on_the_weights_and_not_on_their_place(tmp_path: Path, run: Path) -> None:
    discriminator, generator = export(run), export(run, generator=True)
    first = prepare_from(tmp_path, discriminator, generator)
    moved = Path(shutil.copytree(generator, tmp_path / "moved"))
    assert prepare_from(tmp_path, discriminator, moved).fingerprint == first.fingerprint
    earlier = export(run, tmp_path / "earlier", which="5", generator=True)
    assert prepare_from(tmp_path, discriminator, earlier).fingerprint != first.fingerprint
    assert "generator_init" in first.made_from and first.train.rtd.generator_init == str(generator.resolve())
    assert describe_init(first, tmp_path) == f"from {discriminator}; no tensor starts from the seed"


def test_two_folders_that_are_no_halves_of_one_electra_are_refused(tmp_path: Path, run: Path) -> None:
    discriminator, generator = export(run), export(run, generator=True)
    with pytest.raises(ConfigError, match=r"hidden_size is 12 in train\.rtd\.generator, but 4") as caught:
        prepare_from(tmp_path, discriminator, generator, generator={"hidden_size": 12})
    assert "remove it" in caught.value.fix
    with pytest.raises(ConfigError, match="both generator_init and generator_size"):
        prepare_from(tmp_path, discriminator, generator, generator_size=0.5)
    with pytest.raises(ConfigError, match="there is no folder"):
        prepare_from(tmp_path, discriminator, tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="no tensor 'generator_predictions"):
        prepare_from(tmp_path, discriminator, discriminator)
    config = json.loads((generator / "config.json").read_text())
    (generator / "config.json").write_text(json.dumps(config | {"embedding_size": 8}))
    with pytest.raises(ConfigError, match=r"embedding_size is 8 in the generator's config\.json, but 128"):
        prepare_from(tmp_path, discriminator, generator)
    (generator / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    with pytest.raises(ConfigError, match="a model of type 'bert', not the generator"):
        prepare_from(tmp_path, discriminator, generator)
    with pytest.raises(ConfigError, match="generator_init is for half of an ELECTRA"):
        parse_train_config(SECTION | {"rtd": {"generator_init": "x"}}, "here")


def prepare_from(folder: Path, large: Path, small: Path, **rtd: Any) -> Job:
    section = SECTION | {"model": {"init": str(large)}, "rtd": {"generator_init": str(small), **rtd}}
    return build_job(
        parse_train_config(section, "here"), "again", "torch", {}, folder / "tokenizer", folder / "dataset"
    )


def test_shared_parts_of_the_tasks_begin_with_the_same_weights(tmp_path: Path) -> None:
    for task in ("rtd", "classify"):
        write_initial_weights(config_of("electra-tiny", task), task, 3, tmp_path / task)
    name = "electra.encoder.layer.0.output.dense.weight"
    entries = [read_header(tmp_path / task)[name] for task in ("rtd", "classify")]
    found = [(tmp_path / task).read_bytes() for task in ("rtd", "classify")]
    assert len({data[one.start :][: one.bytes] for data, one in zip(found, entries, strict=True)}) == 1


SECTION = {"task": "rtd", "model": model_of("electra"), "batch": 4, "length": 32, "steps": 10}


@pytest.mark.parametrize(
    ("section", "what", "fix"),
    [({"rtd": {"generator_size": 2}}, "generator_size must be from 0 to 1", "0.25"),
     ({"rtd": {"discriminator_weight": 0}}, "discriminator_weight must be above 0", "50"),
     ({"rtd": {"generator": {"embedding_size": 8}}}, "no key 'embedding_size'", "hidden_size"),
     ({"rtd": {"generator_sise": 1}}, "generator_sise", "generator_size"),
     ({"masking": {"rate": 0}}, "train.masking.rate is 0", "0.15"),
     ({"data": ["rows.jsonl"]}, "rtd trains on the dataset", "remove `data`")],
)  # fmt: skip
def test_errors_in_the_table_name_the_fix(section: dict[str, Any], what: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_train_config(SECTION | section, "here")
    assert what in caught.value.what and fix in caught.value.fix


def test_a_job_needs_an_electra_and_a_mask_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'bert' does not support the task 'rtd'") as caught:
        Parts(tmp_path / "bert", "bert").job(**SECTION | {"model": {"preset": "bert-tiny"}})
    assert "electra-small" in caught.value.fix
    with pytest.raises(ConfigError, match="rtd needs a mask token"):
        Parts(tmp_path / "gpt", "gpt").job(**SECTION)
    bad = {"generator": {"hidden_size": 9, "num_attention_heads": 2}}
    with pytest.raises(ConfigError, match="9 cannot be divided among 2 heads") as caught:
        Parts(tmp_path / "heads", "bert").job(**SECTION | {"rtd": bad})
    assert caught.value.where == "train.rtd.generator"


def test_the_fingerprint_covers_the_table_only_where_it_is_used(tmp_path: Path) -> None:
    parts = Parts(tmp_path, "bert")
    electra = {"model": model_of("electra")}
    assert parts.job(**electra, rtd={}).fingerprint == parts.job(**electra).fingerprint
    first = parts.job(**SECTION).fingerprint
    for rtd in ({"generator_size": 0.5}, {"discriminator_weight": 25.0}, {"generator": {"num_hidden_layers": 1}}):
        assert parts.job(**SECTION, rtd=rtd).fingerprint != first


def test_the_table_without_the_task_is_reported() -> None:
    train = TrainConfig(task="mlm", steps=1, rtd=RtdConfig(generator_size=0.5))
    [found] = find_unused_keys(CorpusConfig(), TokenizerConfig(), train)
    assert found.startswith("train.rtd has no effect: it is for the task rtd, and the task is mlm")
    rtd = TrainConfig(task="rtd", steps=1, rtd=RtdConfig(generator_size=0.5))
    assert not list(find_unused_keys(CorpusConfig(), TokenizerConfig(), rtd))


def test_another_mask_rate_than_the_published_one_is_reported(tmp_path: Path) -> None:
    large = SECTION | {"model": {"preset": "electra-large"}}
    parts = Parts(tmp_path, "bert")
    [found] = published_warnings(parts.job(**large))
    assert "25% of the tokens" in found and "--set train.masking.rate=0.25" in found
    assert published_warnings(parts.job(**large, masking={"rate": 0.25})) == []
    assert published_warnings(parts.job(**SECTION)) == []
    for preset in ("modernbert-base", "modernbert-tiny"):
        encoder = {"task": "mlm", "model": {"preset": preset}, "rtd": {}}
        [found] = published_warnings(parts.job(**SECTION | encoder))
        assert "30% of the tokens" in found and "--set train.masking.rate=0.3" in found


def test_figures_are_shares_of_sums() -> None:
    sums = dict(zip(SUMS, [6.0, 4, 1, 5.0, 20, 3, 5, 2], strict=True))
    found = rtd_figures(list(sums.values()), 50)
    assert found == pytest.approx(
        {
            "loss": 1.5 + 50 * 0.25, "generator_loss": 1.5, "discriminator_loss": 0.25, "generator_accuracy": 0.25,
            "discriminator_accuracy": 16 / 20, "replaced": 0.15, "precision": 0.4, "recall": 2 / 3,
        }
    )  # fmt: skip
    assert set(rtd_figures([0.0] * len(SUMS), 50).values()) == {0.0}


@pytest.fixture
def run(tmp_path: Path, copying: None) -> Path:
    return trained_run(tmp_path, "rtd", "electra")


def test_both_halves_are_exported(run: Path) -> None:
    job = read_job(run)
    discriminator, generator = export(run), export(run, generator=True)
    assert (discriminator, generator) == (run / "export", run / "generator")
    for folder, task, served in (
        (discriminator, "rtd", "ElectraForPreTraining"),
        (generator, "mlm", "ElectraForMaskedLM"),
    ):
        about, config = read_export(folder), json.loads((folder / "config.json").read_bytes())
        header = read_header(folder / "model.safetensors")
        assert (about.task, about.job, config["architectures"]) == (task, job.fingerprint, [served])
        assert "generator" not in config and not any(name.startswith("generator.") for name in header)
        assert about.parameters == sum(entry.bytes // 4 for entry in header.values()) < job.parameters
        assert served in (folder / "README.md").read_text(encoding="utf-8")
    assert json.loads((generator / "config.json").read_bytes())["hidden_size"] == 4
    assert (export_of(run), export_of(run, generator=True)) == (discriminator, generator)


def test_a_discriminator_answers_no_text(run: Path) -> None:
    with pytest.raises(ConfigError, match="makes no predictions") as caught:
        InferencePipeline(export(run))
    assert "--generator" in caught.value.fix


def test_other_runs_have_no_generator(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'mlm' has no generator"):
        export(trained_run(tmp_path), generator=True)
