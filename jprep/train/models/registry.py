"""Model families and presets by name: the built-in ones, and those of plugins, which are loaded when needed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from jprep.config import parse_config, suggest_name
from jprep.errors import ConfigError, JprepError
from jprep.train.models.model_family import ModelFamily, TransformersConfig
from jprep.train.models.plugin_family import EMBEDDING, FEATURES, Family

VERSION = "family_version"
"""The key of a config with the version of a plugin's family."""

_KIND = "model"
_IDS = 5  # of a small vocabulary, to try a family with
_TAKEN = frozenset({
    "architectures", "bos_token_id", "classifier_pooling", "decoder_bias", "dtype", "eos_token_id", "generator",
    "head_parameters", "id2label", "label2id", "model_type", "n_embd", "n_layer", "num_experts", "num_labels",
    "pad_token_id", "problem_type", "router_aux_loss_coef", "type_vocab_size", "vocab_size", VERSION,
})  # fmt: skip
"""Keys with a meaning outside of families, so that no plugin's config may have them."""

_SUFFIXES = {
    "clm": "ForCausalLM",
    "mlm": "ForMaskedLM",
    "classify": "ForSequenceClassification",
    "regress": "ForSequenceClassification",
}
"""Task → the end of the name of a model's class in `config.json`."""


def is_plugin_model(model: TransformersConfig) -> bool:
    """Return whether a model is of a plugin's family. That of a family that is not installed has its version."""
    return VERSION in model


class FamilyTable(Mapping[str, ModelFamily]):
    """`model_type` → the model family.

    Args:
        built_in: the families of jprep.
    """

    def __init__(self, built_in: Mapping[str, ModelFamily]) -> None:
        self._built_in = built_in

    def __getitem__(self, name: str) -> ModelFamily:
        """Return a family.

        Raises:
            KeyError: there is no such family.
            ConfigError: that of a plugin cannot be loaded, or is incomplete.
        """
        if name in self._built_in:
            return self._built_in[name]
        if name not in self:
            raise KeyError(name)
        return load_family(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a family of this name, which need not be loaded for it."""
        return name in self._built_in or name in _registered_names()

    def plugin_of(self, name: str) -> Family | None:
        """Return a plugin's description of a family; None for a built-in or unknown one.

        Raises:
            ConfigError: it cannot be loaded, or is incomplete.
        """
        return self[name].plugin if name in self else None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, those of plugins last."""
        return iter(dict.fromkeys([*self._built_in, *_registered_names()]))

    def __len__(self) -> int:
        """Return the number of families."""
        return len(list(iter(self)))


class PresetTable(Mapping[str, TransformersConfig]):
    """Preset → the values of its config, `model_type` among them.

    Args:
        built_in: the presets of jprep.
        families: the model families.
    """

    def __init__(self, built_in: Mapping[str, TransformersConfig], families: FamilyTable) -> None:
        self._built_in, self._families = built_in, families

    def __getitem__(self, name: str) -> TransformersConfig:
        """Return a preset.

        Raises:
            KeyError: there is no such preset.
            ConfigError: the family of a plugin that it belongs to cannot be loaded.
        """
        if name in self._built_in:
            return self._built_in[name]
        for kind in _registered_names():
            plugin = self._families[kind].plugin if name.startswith(f"{kind}-") else None
            if plugin and name in plugin.presets:
                return {"model_type": kind, **plugin.presets[name]}
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names. Those of a plugin that cannot be loaded are left out; using it says why."""
        yield from self._built_in
        for kind in _registered_names():
            try:
                plugin = self._families[kind].plugin
            except ConfigError:
                continue
            yield from plugin.presets if plugin else ()

    def __len__(self) -> int:
        """Return the number of presets."""
        return len(list(iter(self)))


@functools.cache
def load_family(name: str) -> ModelFamily:
    """Return a plugin's family, checked.

    Raises:
        ConfigError: its class cannot be imported, or is incomplete.
    """
    from jprep.plugins import plugins

    kind = plugins().get(_KIND, name)
    if isinstance(kind, ModelFamily):
        return kind
    if not (isinstance(kind, type) and issubclass(kind, Family)):
        raise _faulty(
            name, "does not derive from Family", "derive its class from jprep.train.models.plugin_family.Family"
        )
    if inspect.isabstract(kind):
        raise _faulty(name, f"does not define {', '.join(sorted(kind.__abstractmethods__))}", "add the method")
    missing = [key for key in ("name", "version", "architecture", "models") if not hasattr(kind, key)]
    if missing or kind.name != name:
        fix = f"set {missing[0]}" if missing else f'register it as "{kind.name}"'
        raise _faulty(name, f"has no {missing[0]}" if missing else f"is called {kind.name!r}", fix)
    try:
        return _model_family(kind())
    except JprepError:
        raise
    except Exception as error:  # whatever the plugin's code raises
        raise _faulty(name, f"raised {type(error).__name__}: {error}", "correct its description") from error


def _model_family(family: Any) -> ModelFamily:
    """Return what the core knows of a family, after a check of its attributes."""
    _check_names(family, "tasks", _SUFFIXES)
    _check_names(family, "features", FEATURES)
    if {"clm", "mlm"} <= set(family.tasks):
        raise _faulty(family.name, "has the tasks clm and mlm", "name one: a causal model, or one that sees both sides")
    if taken := _TAKEN & set(family.Config.__struct_fields__):
        fix = "give it another name"
        raise _faulty(family.name, f"has the key {min(taken)!r} in its Config, which jprep uses itself", fix)
    for preset, values in family.presets.items():
        if not preset.startswith(f"{family.name}-"):
            raise _faulty(family.name, f"has the preset {preset!r}", f"call it {family.name}-{preset}")
        parse_config(dict(values), family.Config, where=f"preset {preset}")
        family.read_config(values, f"preset {preset}")
    config = family.Config()
    embedding = family.weights(config, _IDS).get(EMBEDDING)
    if embedding is None or embedding.shape != (_IDS, config.hidden_size):
        raise _faulty(family.name, f"has no {EMBEDDING} of shape (ids, hidden_size)", "name the token embedding so")
    return ModelFamily(
        {task: family.architecture + _SUFFIXES[task] for task in family.tasks},
        family.defaults(),
        fixed={VERSION: family.version},
        plugin=family,
    )


def _check_names(family: Any, key: str, known: Mapping[str, Any] | tuple[str, ...]) -> None:
    for each in getattr(family, key):
        if each not in known:
            raise _faulty(family.name, f"names {each!r} in {key}", suggest_name(each, known))


def _registered_names() -> list[str]:
    from jprep.plugins import plugins

    return plugins().names(_KIND)


def _faulty(name: str, what: str, fix: str) -> ConfigError:
    return ConfigError(f"the model family {name!r} of a plugin {what}", where=f"model_type {name}", fix=fix)


def check_version(config: Mapping[str, Any], family: ModelFamily, where: str) -> None:
    """Check that a model is of the version of the family that is installed.

    Args:
        config: the config of the model, or of its job.
        family: its family.
        where: its place, for errors.

    Raises:
        ConfigError: it is of another version.
    """
    if family.plugin is None:
        return
    wanted, found = family.fixed[VERSION], config.get(VERSION)
    if found != wanted:
        what = (
            f"this model is of version {found} of the family {family.plugin.name!r}, and version {wanted} is installed"
        )
        raise ConfigError(what, where=where, fix="install the version of the plugin that the model was made with")


def unknown_family(kind: str, config: Mapping[str, Any], families: Mapping[str, Any]) -> str:
    """Return how to make a model of an unknown type known: the plugin that it needs, or a similar name."""
    if VERSION in config:
        return f"install the plugin with the model family {kind!r}, here and in the backend's environment"
    return suggest_name(kind, families)
