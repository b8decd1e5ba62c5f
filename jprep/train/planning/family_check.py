"""Check, before anything starts, that a backend can train the model family of a plugin."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jprep.errors import ConfigError, MachineError
from jprep.plugins import plugins
from jprep.train.backend import Backend
from jprep.train.launcher.environments import pip_requirements
from jprep.train.launcher.import_probe import ImportTimeoutError, probe_output
from jprep.train.models import FAMILIES
from jprep.train.models.registry import VERSION

_WHERE = "train.model.config.model_type"
_CODE = "from jprep.train.models import FAMILIES; print(FAMILIES[{name!r}].fixed[{key!r}])"


def check_family(backend: Backend, model: Mapping[str, Any], options: Any, python: Path) -> None:
    """Check that a backend has the model of a plugin's family, and its environment the plugin.

    Args:
        backend: the backend.
        model: the config of the job's model.
        options: the backend's options.
        python: the interpreter of its environment; one that does not exist yet is not checked.

    Raises:
        ConfigError: the family has no model for the backend's framework.
        MachineError: the plugin is not installed in the environment, or in another version.
    """
    name = model["model_type"]
    plugin = FAMILIES[name].plugin
    if plugin is None:
        return
    if backend.framework not in plugin.models:
        able = ", ".join(sorted(plugin.models)) or "none"
        what = f"the model family {name!r} has no model for the backend {backend.name}; it has models for: {able}"
        raise ConfigError(what, where=_WHERE, fix="use a backend for one of these (torch also serves deepspeed)")
    if python != Path(sys.executable) and python.exists():
        _check_environment(backend, name, options, python)


def _check_environment(backend: Backend, name: str, options: Any, python: Path) -> None:
    wanted = str(FAMILIES[name].fixed[VERSION])
    try:
        printed = probe_output(python, _CODE.format(name=name, key=VERSION)).split()
    except ImportTimeoutError:
        raise
    except MachineError as error:
        what = f"the environment of the backend {backend.name} has no model family {name!r}: {error.what}"
        raise MachineError(what, where=str(python), fix=_install(backend, name, options)) from error
    found = printed[-1] if printed else "none"  # a library may print at its import
    if found != wanted:
        what = f"the environment of the backend {backend.name} has version {found} of the model family {name!r}"
        fix = _install(backend, name, options)
        raise MachineError(f"{what}, and jprep's own has version {wanted}", where=str(python), fix=fix)


def _install(backend: Backend, name: str, options: Any) -> str:
    """Return the command that installs the plugin in the backend's environment."""
    distribution = plugins().distribution("model", name).partition(" ")[0]
    source = " ".join(pip_requirements(distribution)) if distribution else "the plugin's distribution"
    return f"jprep backends install {backend.environment(options).install} --restart -- {source}"
