"""Checks of backends, by their own `check`, and of plugins."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from jprep.doctor.time_limit import run_with_limit
from jprep.errors import JprepError
from jprep.io.environments import read_stamp
from jprep.plugins import plugins
from jprep.plugins.manager import PluginInfo
from jprep.train.backend import Backend, Finding
from jprep.train.backend_loading import install_command, load_backend, load_backend_and_options
from jprep.train.launcher.environments import environment_path, worker_python
from jprep.train.launcher.import_probe import NotInstalledError


def check_backends() -> list[Finding]:
    """Return the findings of each backend with its default options, and where it is installed."""
    names = plugins().names("backend")
    if not names:
        fix = f"{install_command('torch')} && jprep backends install torch"
        what = "none is installed: jprep can build corpora, tokenizers and datasets, but train no models"
        return [Finding(what, "note", fix)]
    return [finding for name in names for finding in run_with_limit(partial(_default, name), name)]


def check_backend(name: str, overrides: Iterable[str] = ()) -> list[Finding]:
    """Return the findings of a backend, and where it is installed.

    Args:
        name: the backend's.
        overrides: `option=value` settings of its options.

    Raises:
        ConfigError: there is no such backend, it has no such option, or a value is of the wrong type.
    """
    return run_with_limit(partial(_backend, *load_backend_and_options(name, overrides)), name)


def check_plugins() -> list[Finding]:
    """Return the plugins, with the errors of those that failed to load."""
    return [_plugin(plugin) for plugin in plugins().found]


def _plugin(found: PluginInfo) -> Finding:
    if not found.error:
        return Finding(f"{found.name} ({found.version})")
    fix = f"pip install --upgrade {found.version.partition(' ')[0] or found.name}"
    return Finding(f"{found.name} cannot be loaded: {found.error}", "error", fix)


def _default(name: str) -> list[Finding]:
    """Return the findings of a backend with default options; one that is not installed is a note, not an error."""
    backend = load_backend(name)
    found = _backend(backend, backend.Options())
    try:
        worker_python(backend)
    except NotInstalledError:
        return [Finding(each.what, "note" if each.level == "error" else each.level, each.fix) for each in found]
    except JprepError:  # the findings say why
        pass
    return found


def _backend(backend: Backend, options: Any) -> list[Finding]:
    environment = backend.environment(options)
    stamps = ((path, read_stamp(path)) for path in map(environment_path, (environment.name, *environment.also)))
    own = next(([Finding(f"in {path}, with Python {stamp.python}")] for path, stamp in stamps if stamp), [])
    return [_named(backend.name, finding) for finding in (*own, *backend.check(options))]


def _named(name: str, finding: Finding) -> Finding:
    return Finding(f"{name}: {finding.what}", finding.level, finding.fix)
