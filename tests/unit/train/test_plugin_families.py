"""Model families of plugins: found by name, checked, planned, and refused where they have no model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from jprep.config import parse_config
from jprep.errors import ConfigError, MachineError
from jprep.pipeline.starter.choices import check_model as check_starter_model
from jprep.pipeline.steps import summarize_steps
from jprep.plugins import PluginRegistry
from jprep.plugins.manager import plugins
from jprep.train.backend import Environment
from jprep.train.exporting.plugin_model import is_plugin_export, loading_note
from jprep.train.job.config import ModelConfig, parse_train_config
from jprep.train.job.features import check_documents
from jprep.train.models import FAMILIES, PRESETS, TokenizerInfo, check_model, max_positions, model_config, parameters
from jprep.train.models import registry as tables
from jprep.train.models.flops import flops_per_token
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.models.memory import training_memory
from jprep.train.models.plugin_family import Family, FamilyConfig
from jprep.train.models.registry import VERSION
from jprep.train.models.weights import TensorSpec, TensorSpecs
from jprep.train.planning import family_check
from jprep.train.pretrained import names
from jprep.train.pretrained.config import read_pretrained_config, with_pretrained_config
from tests.fakes.guide_family import FAMILY, installed_family

ABOUT = TokenizerInfo(vocab_size=100, length=64, bos=1, eos=2, pad=3)


@pytest.fixture(scope="module", autouse=True)
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed_family(tmp_path_factory.mktemp("family")):
        yield


def small(**more: Any) -> ModelConfig:
    return ModelConfig(preset=f"{FAMILY}-tiny", config=more)


def config_of(task: Any = "clm", labels: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return model_config(small(**more), task, ABOUT._replace(labels=labels))


def test_a_family_and_its_presets_are_found_beside_the_built_in_ones() -> None:
    assert FAMILY in FAMILIES and "gpt2" in FAMILIES and "gtp2" not in FAMILIES
    assert next(iter(FAMILIES)) == "gpt2" and [*FAMILIES][-1] == FAMILY and len(FAMILIES) == len([*FAMILIES])
    assert f"{FAMILY}-small" in PRESETS and {*PRESETS} >= {"gpt2-small", f"{FAMILY}-tiny"}
    assert PRESETS[f"{FAMILY}-tiny"]["model_type"] == FAMILY
    assert PRESETS.get(f"{FAMILY}-huge") is None
    with pytest.raises(KeyError):
        FAMILIES["gtp2"]
    listed = {plugin.name: plugin for plugin in plugins().found}[FAMILY]
    assert listed.steps == (f"model {FAMILY}",) and listed.version == "jprep-gated-linear 1.0"
    assert plugins().distribution("model", FAMILY) == "jprep-gated-linear 1.0"


def test_the_built_in_families_are_registered() -> None:
    registry = PluginRegistry()
    built_in = [name for name in registry.names("model") if name != FAMILY]
    assert sorted(name for name in FAMILIES if FAMILIES[name].plugin is None) == built_in
    assert all(registry.get("model", name) is FAMILIES[name] for name in built_in)


def test_the_config_is_complete_and_has_the_version() -> None:
    config = config_of(taps=4)
    assert config["model_type"] == FAMILY and config["architectures"] == ["GatedLinearForCausalLM"]
    assert (config["taps"], config["num_heads"], config["vocab_size"], config[VERSION]) == (4, 2, 100, 1)
    assert config["max_position_embeddings"] == 2048 == max_positions(config)
    longer = model_config(small(), "clm", ABOUT._replace(length=5000))
    assert longer["max_position_embeddings"] == 5000
    assert config_of("classify", ("a", "b"))["architectures"] == ["GatedLinearForSequenceClassification"]


@pytest.mark.parametrize(
    ("values", "what", "where"),
    [
        ({"tap": 3}, "unknown key 'tap'", "train.model.config.tap"),
        ({"taps": "many"}, "taps", "train.model.config"),
        ({"num_heads": 3}, "128 cannot be divided among 3 heads", "train.model.config"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0", "train.model.config.num_hidden_layers"),
        ({"vocab_size": 7}, "vocab_size cannot be set", "train.model.config.vocab_size"),
        ({VERSION: 2}, "unknown key", f"train.model.config.{VERSION}"),
        ({"max_position_embeddings": 8}, "rows need 64 positions", "train.model.config.max_position_embeddings"),
    ],
)
def test_wrong_values_are_refused_by_key(values: dict[str, Any], what: str, where: str) -> None:
    with pytest.raises(ConfigError, match=what) as error:
        config_of(**values)
    assert error.value.where == where
    if "max_position_embeddings" not in values:
        with pytest.raises(ConfigError, match=what):
            check_model(small(**values), "clm")


@pytest.mark.parametrize("task", ["mlm", "rtd"])
def test_tasks_that_it_does_not_have_are_refused(task: Any) -> None:
    with pytest.raises(ConfigError, match=f"does not support the task '{task}'"):
        config_of(task)


def test_weights_have_the_prefix_and_the_heads_of_jprep() -> None:
    tied, untied = config_of(), config_of(tie_word_embeddings=False)
    names = parameters(tied, "clm")
    assert names["model.embed_tokens.weight"].shape == (100, 128) and names["model.layers.1.taps"].shape == (3, 128)
    assert parameters(untied, "clm").keys() - names.keys() == {"lm_head.weight"}
    classes = parameters(config_of("classify", ("a", "b", "c")), "classify")
    assert classes.keys() - names.keys() == {"score.weight"}
    assert classes["score.weight"] == TensorSpec((3, 128), std=0.02, head=True)


def test_initial_weights_depend_on_seed_and_name_only(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_initial_weights(config_of(), "clm", seed, tmp_path / name)
    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again != other


def test_names_that_were_those_of_norms_in_old_files_may_be_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = parameters(config_of(), "clm") | {"model.layers.0.norm.gamma": TensorSpec((128,))}
    monkeypatch.setattr(names, "parameters", lambda config, task: tensors)
    stored: dict[str, Any] = dict.fromkeys(tensors)
    assert names.match_tensors(config_of(), "clm", stored, "here").keys() == tensors.keys()


def test_plans_get_figures() -> None:
    config = config_of()
    count = sum(tensor.size for tensor in parameters(config, "clm").values())
    assert flops_per_token(config, count, 64) == 6 * count + 12 * 2 * 128 * 64
    few, many = (training_memory(config, "clm", rows, 64, "fp32") for rows in (1, 9))
    assert 16 * count < few < many


def test_a_given_model_is_of_the_version_that_is_installed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config_of(taps=5)))
    given = read_pretrained_config(tmp_path)
    section = with_pretrained_config(ModelConfig(init="x"), given, "clm")
    assert section.config["taps"] == 5 and model_config(section, "clm", ABOUT)["taps"] == 5
    with pytest.raises(ConfigError, match="taps is 3"):
        with_pretrained_config(ModelConfig(init="x", config={"taps": 3}), given, "clm")
    assert (
        with_pretrained_config(ModelConfig(config={"max_position_embeddings": 9000}), given, "clm").config[
            "max_position_embeddings"
        ]
        == 9000
    )
    path.write_text(json.dumps(config_of() | {VERSION: 2}))
    with pytest.raises(ConfigError, match="version 2 of the family 'gated-linear', and version 1 is installed"):
        read_pretrained_config(tmp_path)
    path.write_text(json.dumps(config_of() | {"model_type": "gated-liner"}))
    with pytest.raises(ConfigError, match="gated-liner") as error:
        read_pretrained_config(tmp_path)
    assert "install the plugin" in error.value.fix


@pytest.mark.parametrize("use", [max_positions, lambda config: parameters(config, "clm")])
def test_a_model_whose_plugin_is_missing_is_refused(use: Any) -> None:
    with pytest.raises(ConfigError, match="'gone'") as error:
        use(config_of() | {"model_type": "gone"})
    assert error.value.fix == "install the plugin with the model family 'gone', here and in the backend's environment"


def test_documents_are_a_feature_of_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    train = parse_train_config({"steps": 5, "document_masks": True}, "recipe.toml")
    check_documents(train, FAMILY)
    monkeypatch.setattr(type(FAMILIES[FAMILY].plugin), "features", ())
    with pytest.raises(ConfigError, match="do not keep the documents of a row apart"):
        check_documents(train, FAMILY)


def backend(framework: str) -> Any:
    environment = Environment(name="mine", distribution="jprep-mine", install="mine")
    return SimpleNamespace(name="mine", framework=framework, environment=lambda options: environment)


def test_a_backend_without_a_model_of_the_family_is_refused() -> None:
    here = Path(sys.executable)
    family_check.check_family(backend("torch"), config_of(), None, here)
    family_check.check_family(backend(""), {"model_type": "gpt2"}, None, here)
    with pytest.raises(ConfigError, match="no model for the backend mine; it has models for: flax, torch"):
        family_check.check_family(backend(""), config_of(), None, here)


def test_an_environment_without_the_plugin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    family_check.check_family(backend("torch"), config_of(), None, tmp_path / "not installed yet")
    family_check.check_family(backend("torch"), config_of(), None, other)
    monkeypatch.setitem(FAMILIES[FAMILY].fixed, VERSION, 3)
    with pytest.raises(MachineError, match="version 1 of the model family 'gated-linear', and jprep's own"):
        family_check.check_family(backend("torch"), config_of(), None, other)
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(MachineError, match="the environment of the backend mine has no model family") as error:
        family_check.check_family(backend("torch"), config_of(), None, other)
    assert error.value.fix == "jprep backends install mine --restart -- jprep-gated-linear==1.0"


class Plain(Family):
    """A family that is complete."""

    name: ClassVar[str] = "plain"
    version: ClassVar[int] = 1
    architecture: ClassVar[str] = "Plain"
    models: ClassVar[dict[str, str]] = {"torch": "nowhere:Model"}

    def weights(self, config: Any, ids: int) -> TensorSpecs:
        return {"embed_tokens.weight": TensorSpec((ids, config.hidden_size))}


class _WithoutDefault(FamilyConfig, frozen=True, kw_only=True):
    size: int


class _Taken(FamilyConfig, frozen=True):
    vocab_size: int = 5


def test_a_plain_family_has_defaults() -> None:
    found = tables._model_family(Plain())
    assert found.causal and not found.rotary and found.classes["classify"] == "PlainForSequenceClassification"
    assert found.defaults["hidden_size"] == 768


@pytest.mark.parametrize(
    ("faults", "what"),
    [
        ({"name": "plane"}, "is called 'plane'"),
        ({"tasks": ("clm", "mlm")}, "has the tasks clm and mlm"),
        ({"tasks": ("clmm",)}, "names 'clmm' in tasks"),
        ({"features": ("documents",)}, "names 'documents' in features"),
        ({"presets": {"tiny": {}}}, "has the preset 'tiny'"),
        ({"presets": {"plain-tiny": {"width": 3}}}, "unknown field `width`"),
        ({"Config": _WithoutDefault}, "raised TypeError: Missing required argument 'size'"),
        ({"Config": _Taken}, "has the key 'vocab_size' in its Config"),
        ({"weights": lambda self, config, ids: {}}, "has no embed_tokens.weight of shape"),
        ({"weights": lambda self, config, ids: 1 / 0}, "raised ZeroDivisionError"),
    ],
)
def test_an_incomplete_family_is_refused(faults: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = type("Faulty", (Plain,), faults)
    monkeypatch.setattr(plugins(), "get", lambda kind, name: faulty)
    tables.load_family.cache_clear()
    with pytest.raises(ConfigError) as error:
        tables.load_family("plain")
    assert what in error.value.what
    tables.load_family.cache_clear()


@pytest.mark.parametrize(
    ("faulty", "what"), [(int, "does not derive from Family"), (Family, "does not define weights")]
)
def test_what_is_no_family_is_refused(faulty: type, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins(), "get", lambda kind, name: faulty)
    tables.load_family.cache_clear()
    with pytest.raises(ConfigError, match=what):
        tables.load_family("plain")
    tables.load_family.cache_clear()


def test_a_section_is_typed() -> None:
    with pytest.raises(ConfigError, match="hidden_size"):
        parse_config({"hidden_size": "wide"}, FamilyConfig, where="here")


def test_starter_recipes_say_that_they_do_not_know_it() -> None:
    with pytest.raises(ConfigError, match="starter recipes know no settings for gated-linear-tiny"):
        check_starter_model("torch", f"{FAMILY}-tiny")
    with pytest.raises(ConfigError, match="there is no model 'gated-linear-huge'"):
        check_starter_model("torch", f"{FAMILY}-huge")


def test_a_run_and_its_result_promise_no_transformers(tmp_path: Path) -> None:
    for model, reader in ((f"{FAMILY}-tiny", "for jprep"), ("gpt2-tiny", "for transformers")):
        recipe: Any = SimpleNamespace(
            train=SimpleNamespace(model=ModelConfig(preset=model)),
            tokenizer=None,
            dataset=None,
            corpus=SimpleNamespace(sources=[]),
        )
        assert dict(summarize_steps(recipe, ["export"], "torch")) == {"export": reader}
    for name, config in (("ours", config_of()), ("theirs", {"model_type": "gpt2"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    assert is_plugin_export(tmp_path / "ours") and not is_plugin_export(tmp_path / "theirs")
    assert not is_plugin_export(tmp_path) and "`jprep infer`" in loading_note(config_of())
    assert loading_note({"model_type": "gpt2"}) == ""
    assert "infer" not in (said := loading_note(config_of() | {"head_parameters": {}})) and "train.model.init" in said
