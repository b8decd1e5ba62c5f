"""The filter `preset`: the rules of a data file."""

from __future__ import annotations

import functools
import logging
import tomllib
from importlib.resources import files
from typing import Any

import msgspec

from jprep.config import ConfigSection, parse_config, suggest_name
from jprep.corpus.config import StepRef, make_step
from jprep.corpus.document import Verdict
from jprep.corpus.filters.rules import Rule, RulesFilter
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import StepConfig
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError

_SUFFIX = ".toml"

_log = logging.getLogger("jprep.recipe")


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


class OptionalRules(ConfigSection, frozen=True):
    """Rules that need a file or a library, which not everybody has. They run if the recipe asks for them.

    Attributes:
        needs: what they need, in a sentence.
        signal: the signal that they compare, with its options.
        rules: the rules, which follow those of the preset.
        file: option of the signal that takes the path of the file; "" if they need a library.
        many: whether that option takes a list of paths.
    """

    needs: str
    signal: dict[str, Any]
    rules: list[Rule]
    file: str = ""
    many: bool = False


class Preset(ConfigSection, frozen=True):
    """A filter set.

    Attributes:
        rules: the rules, in order; a document is dropped by the first one that fails.
        signals: signals with their options; a column that none of them has is one of the corpus's signals, or of a
            signal with default options.
        optional: rules that run if the recipe asks for them, by the name that it uses.
        not_run: what the original does and this preset cannot do: the reason, by the name of the rule.
        source: where the rules were published.
        notes: what differs from the original.
    """

    rules: list[Rule]
    signals: list[StepRef] = []
    optional: dict[str, OptionalRules] = {}
    not_run: dict[str, str] = {}
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
    for rule in (*preset.rules, *(rule for each in preset.optional.values() for rule in each.rules)):
        rule.check(f"preset {name!r}")
    return preset


class PresetFilter(RulesFilter):
    """Drops documents by the rules of a preset. In a recipe: `{ preset = "NAME" }`.

    Rules of the original that are not run are named in a warning and in the manifest. Each counts the documents that it
    did not judge as `PRESET.not_run.RULE`.
    """

    name = "preset"
    version = 1
    local = frozenset({"files"})  # the signals that read them record their hashes

    class Config(StepConfig, frozen=True):
        """Options of the filter `preset`.

        Attributes:
            preset: name of the preset.
            files: files for optional rules, by the name of the rules.
            also: names of optional rules that need a library.
        """

        preset: str = ""
        files: dict[str, str] = {}
        also: list[str] = []

    def __init__(self, config: Any = None) -> None:
        config = self.Config() if config is None else config
        self.preset = load_preset(config.preset)
        chosen = {name: self._choose(name, config) for name in (*config.also, *config.files)}
        rules = [*self.preset.rules, *(rule for name in chosen for rule in self.preset.optional[name].rules)]
        signals = [make_step("signal", ref) for ref in (*self.preset.signals, *chosen.values())]
        super().__init__(config, rules, signals)
        self.not_run = sorted({*self.preset.optional, *self.preset.not_run} - {*chosen})
        _warn(config.preset, tuple(self.not_run))

    def _choose(self, name: str, config: Any) -> dict[str, Any]:
        """Return the signal of some optional rules, with the file that the recipe gives."""
        where, known = f"filter 'preset' ({config.preset})", self.preset.optional
        if name not in known:
            fix = suggest_name(name, list(known)) if known else "leave it out"
            raise ConfigError(f"the preset has no optional rules {name!r}", where=where, fix=fix)
        rules = known[name]
        if bool(rules.file) != (name in config.files):
            fix = f'files = {{ {name} = "PATH" }}' if rules.file else f'also = ["{name}"]'
            raise ConfigError(f"the rules {name!r} need {rules.needs}", where=where, fix=fix)
        if not rules.file:
            return rules.signal
        path = config.files[name]
        return rules.signal | {rules.file: [path] if rules.many else path}

    @property
    def label(self) -> str:
        """The name of the preset."""
        return str(self.config.preset)

    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return whether to keep each document of a batch, and count those that a rule could not judge."""
        for name in self.not_run:
            self.tally[f"{self.label}.not_run.{name}"] += len(batch)
        return super().judge_all(batch)

    def provenance(self) -> dict[str, str]:
        """Return the hash of the rules, which are data and can change without the version, and the rules not run."""
        not_run = {"not_run": ", ".join(self.not_run)} if self.not_run else {}
        return {"rules": fingerprint({"rules": msgspec.to_builtins(self.rules)})} | not_run


@functools.cache
def _warn(preset: str, names: tuple[str, ...]) -> None:
    """Name the rules that are not run, once in a process."""
    if names:
        _log.warning("the preset %s does not run %s of the original: see docs/presets.md", preset, ", ".join(names))
