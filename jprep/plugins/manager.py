"""Finds plugins, keeps one that fails to load from harming the others, and resolves names to classes."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec
import pluggy

from jprep.errors import ConfigError
from jprep.io.safe_names import check_name
from jprep.plugins import hookspecs, references

PLUGIN_KINDS = ("reader", "normalizer", "splitter", "filter", "segmenter", "executor", "backend")


class PluginInfo(msgspec.Struct, frozen=True):
    """One plugin that an entry point names.

    Attributes:
        name: the entry point's name.
        value: what it points at.
        version: its distribution's name and version.
        error: why it could not be loaded, or "".
        steps: `kind name` of each thing it registers.
    """

    name: str
    value: str
    version: str
    error: str
    steps: tuple[str, ...]


class PluginRegistry:
    """The plugins of this environment."""

    def __init__(self, points: list[EntryPoint] | None = None) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._named: dict[str, dict[str, str | type]] = {kind: {} for kind in PLUGIN_KINDS}
        self.found: list[PluginInfo] = []
        known = list(entry_points(group="jprep")) if points is None else points
        # Ours first: a name is the built-in one's before it is anyone else's.
        for point in sorted(known, key=lambda p: (p.name != "builtin", p.name)):
            self.found.append(self._load(point))

    def _load(self, point: EntryPoint) -> PluginInfo:
        version = f"{point.dist.name} {point.dist.version}" if point.dist else ""
        try:
            steps = self._register(point.name, point.load())
            error = ""
        except Exception as fault:  # a stranger's import can raise anything, and must not stop the others
            steps, error = (), f"{type(fault).__name__}: {fault}"
        return PluginInfo(point.name, point.value, version, error, steps)

    def _register(self, name: str, plugin: object) -> tuple[str, ...]:
        self._manager.register(plugin, name)
        try:
            self._manager.check_pending()  # a misspelt hook is an error, not silence
            added = {kind: self._ask(kind, plugin) for kind in PLUGIN_KINDS}
            for kind, named in added.items():
                for each in named:
                    check_name(each, what=f"a {kind}", where=f"plugin {name!r}", fix="register it by another name")
                if taken := sorted(named.keys() & self._named[kind].keys()):
                    raise ConfigError(f"{kind} {taken[0]!r} is registered by another plugin")
        except Exception:
            self._manager.unregister(plugin)
            raise
        for kind, named in added.items():
            self._named[kind].update(named)
        return tuple(f"{kind} {step}" for kind, named in added.items() for step in sorted(named))

    def _ask(self, kind: str, plugin: object) -> dict[str, str | type]:
        others = [p for p in self._manager.get_plugins() if p is not plugin]
        answers = self._manager.subset_hook_caller(f"jprep_{kind}s", remove_plugins=others)()
        return {name: ref for answer in answers for name, ref in answer.items()}

    def names(self, kind: str) -> list[str]:
        """Names registered for a kind of step, sorted."""
        return sorted(self._named[kind])

    def get(self, kind: str, name: str) -> Any:
        """The class registered as `name`, imported now.

        Raises:
            ConfigError: there is no such name; the message gives the nearest one, or why its plugin failed to load.
        """
        named = self._named[kind]
        if name in named:
            return references.load_class(named[name])
        failed = "".join(f"; plugin {f.name!r} failed to load ({f.error})" for f in self.found if f.error)
        raise ConfigError(f"no {kind} is called {name!r}{failed}", fix=references.suggest_name(name, named))


@functools.cache
def plugins() -> PluginRegistry:
    """This process's plugins, found once."""
    return PluginRegistry()
