"""References to classes: `module:Class` strings that are imported when they are needed, not before."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from jprep.errors import ConfigError


def load_class(reference: str | type) -> Any:
    """Import what `module:Class` names; a class is returned as it is.

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


def suggest_name(name: str, known: Iterable[str]) -> str:
    """`did you mean X?`, or the list of what there is."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(choices) or 'none'}"
