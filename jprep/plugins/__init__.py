"""Where steps, executors and backends of other distributions join in."""

from jprep.plugins.hookspecs import hookimpl
from jprep.plugins.manager import PluginRegistry, plugins

__all__ = ["PluginRegistry", "hookimpl", "plugins"]
