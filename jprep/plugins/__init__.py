"""Steps, executors, backends and model families of other distributions, registered through hooks."""

from jprep.plugins.hookspecs import hookimpl
from jprep.plugins.manager import PluginRegistry, plugins

__all__ = ["PluginRegistry", "hookimpl", "plugins"]
