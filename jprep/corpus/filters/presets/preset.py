"""The filter `preset`: the rules of a data file."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import msgspec

from jprep.config import ConfigSection, parse_config, suggest_name
from jprep.corpus.config import StepRef, make_step
from jprep.corpus.filters.rules import Rule, RulesFilter
from jprep.corpus.step import StepConfig
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError

_SUFFIX = ".toml"


class PresetSource(ConfigSection, frozen=True):
    """Where the rules of a preset were published.

    Attributes:
        repository: address of the repository.
        commit: the commit.
        file: path of the file in it.
    """

    repository: str = ""
    commit: str = ""
    file: str = ""


class Preset(ConfigSection, frozen=True):
    """A filter set.

    Attributes:
        rules: the rules, in order; a document is dropped by the first one that fails.
        signals: signals with their options; a column that none of them has is one of the corpus's signals, or of a
            signal with default options.
        source: where the rules were published.
        notes: what differs from the original.
    """

    rules: list[Rule]
    signals: list[StepRef] = []
    source: PresetSource = PresetSource()
    notes: str = ""


def preset_names() -> list[str]:
    """Return the names of the presets, sorted."""
    found = (file.name for file in files(__package__).iterdir())
    return sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))


def load_preset(name: str) -> Preset:
    """Return a preset.

    Raises:
        ConfigError: there is no such preset.
    """
    known = preset_names()
    if name not in known:
        fix = suggest_name(name, known) if name else 'e.g. { preset = "NAME" }'
        raise ConfigError(f"there is no preset {name!r}", where="filter 'preset'", fix=fix)
    raw = tomllib.loads((files(__package__) / f"{name}{_SUFFIX}").read_text(encoding="utf-8"))
    preset = parse_config(raw, Preset, where=f"preset {name!r}")
    for rule in preset.rules:
        rule.check(f"preset {name!r}")
    return preset


class PresetFilter(RulesFilter):
    """Drops documents by the rules of a preset. In a recipe: `{ preset = "NAME" }`."""

    name = "preset"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the filter `preset`.

        Attributes:
            preset: name of the preset.
        """

        preset: str = ""

    def __init__(self, config: Any = None) -> None:
        config = self.Config() if config is None else config
        self.preset = load_preset(config.preset)
        super().__init__(config, self.preset.rules, [make_step("signal", ref) for ref in self.preset.signals])

    @property
    def label(self) -> str:
        """The name of the preset."""
        return str(self.config.preset)

    def provenance(self) -> dict[str, str]:
        """Return the hash of the rules: they are data, which can change without the version."""
        return {"rules": fingerprint({"rules": msgspec.to_builtins(self.preset.rules)})}
