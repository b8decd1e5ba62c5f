"""Where steps, executors and backends of other distributions join in."""

from jprep.plugins.hookspecs import hookimpl
from jprep.plugins.manager import Plugins, plugins

__all__ = ["Plugins", "hookimpl", "plugins"]
