"""Who else receives messages that the library prints to the user, such as a log file of the command line."""

from __future__ import annotations

from collections.abc import Callable

listeners: list[Callable[[str], None]] = []
"""Called with each message, not escaped. A listener raises nothing."""
