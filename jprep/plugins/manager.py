"""Load plugins, isolate those that fail, and resolve registered names to classes."""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec
import pluggy

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.io.safe_names import check_name
from jprep.plugins import hookspecs
from jprep.plugins.files import BASES, load_file_class, parse_reference

PLUGIN_KINDS = ("reader", "normalizer", "splitter", "filter", "signal", "segmenter", "executor", "backend", "model")


class PluginInfo(msgspec.Struct, frozen=True):
    """A plugin that an entry point names.

    Attributes:
        name: the entry point's name.
        value: the module or object that it points at.
        version: its distribution's name and version.
        error: why it could not be loaded, or "".
        steps: `kind name` of each class that it registers.
    """

    name: str
    value: str
    version: str
    error: str
    steps: tuple[str, ...]


class PluginRegistry:
    """The plugins of this environment.

    Args:
        points: entry points to load; by default those of the group `jprep`.

    Attributes:
        found: every plugin, those that failed to load included.
    """

    def __init__(self, points: list[EntryPoint] | None = None) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._named: dict[str, dict[str, str | type]] = {kind: {} for kind in PLUGIN_KINDS}
        self.found: list[PluginInfo] = []
        known = list(entry_points(group="jprep")) if points is None else points
        # Built-in steps come first: no plugin can take their names.
        for point in sorted(known, key=lambda p: (p.name != "builtin", p.name)):
            self.found.append(self._load(point))

    def _load(self, point: EntryPoint) -> PluginInfo:
        version = f"{point.dist.name} {point.dist.version}" if point.dist else ""
        try:
            steps = self._register(point.name, point.load())
            error = ""
        except Exception as fault:  # importing a plugin can raise anything, and must not stop the others
            steps, error = (), f"{type(fault).__name__}: {fault}"
        return PluginInfo(point.name, point.value, version, error, steps)

    def _register(self, name: str, plugin: object) -> tuple[str, ...]:
        self._manager.register(plugin, name)
        try:
            self._manager.check_pending()  # a misspelt hook is an error
            added = {kind: self._call_hook(kind, plugin) for kind in PLUGIN_KINDS}
            for kind, named in added.items():
                self._check_names(kind, named, name)
        except Exception:
            self._manager.unregister(plugin)
            raise
        for kind, named in added.items():
            self._named[kind].update(named)
        return tuple(f"{kind} {step}" for kind, named in added.items() for step in sorted(named))

    def _check_names(self, kind: str, named: dict[str, str | type], plugin: str) -> None:
        for name in named:
            check_name(name, what=f"a {kind}", where=f"plugin {plugin!r}", fix="register it by another name")
        if taken := sorted(named.keys() & self._named[kind].keys()):
            raise ConfigError(f"{kind} {taken[0]!r} is registered by another plugin")

    def _call_hook(self, kind: str, plugin: object) -> dict[str, str | type]:
        """Return the names that one plugin registers for a kind, with their classes."""
        others = [p for p in self._manager.get_plugins() if p is not plugin]
        answers = self._manager.subset_hook_caller(f"jprep_{kind}s", remove_plugins=others)()
        return {name: ref for answer in answers for name, ref in answer.items()}

    def names(self, kind: str) -> list[str]:
        """Return the names registered for a kind, sorted."""
        return sorted(self._named[kind])

    def distribution(self, kind: str, name: str) -> str:
        """Return name and version of the distribution that registers a name; "" if none does."""
        return next((found.version for found in self.found if f"{kind} {name}" in found.steps), "")

    def get(self, kind: str, name: str) -> Any:
        """Import and return the class registered under a name, or one that a user's file defines (`FILE.py:NAME`).

        Raises:
            ConfigError: there is no such name; the message suggests a similar one, or says which plugins failed to
                load. For a file, see `jprep.plugins.files.load_file_class`.
        """
        named = self._named[kind]
        if name in named:
            return load_class(named[name])
        if kind in BASES and (reference := parse_reference(name)):
            found = load_file_class(kind, reference)
            if found.name in named:
                fix = f'give it another name: `name = "my_{found.name}"`'
                raise ConfigError(
                    f"the class {reference.name} has the name of the registered {kind} {found.name!r}",
                    where=name,
                    fix=fix,
                )
            return found
        failed = "".join(f"; plugin {f.name!r} failed to load ({f.error})" for f in self.found if f.error)
        raise ConfigError(f"no {kind} is called {name!r}{failed}", fix=suggest_name(name, named))


def load_class(reference: str | type) -> Any:
    """Import the class that a `module:Class` string names; return a class as it is.

    Raises:
        ConfigError: the module cannot be imported or has no such name.
    """
    if isinstance(reference, type):
        return reference
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"cannot load {reference}: {error}", fix="install what it needs") from error
    except Exception as error:  # of a plugin's module
        what = f"cannot load {reference}: {type(error).__name__}: {error}"
        raise ConfigError(what, fix="correct or uninstall the plugin") from error


@functools.cache
def plugins() -> PluginRegistry:
    """Return the plugins of this environment, loaded once per process."""
    return PluginRegistry()
