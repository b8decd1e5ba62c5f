"""Options of steps in the recipes of this process: a corpus does not record some of them, such as paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

_options: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)


def register_recipe_options(kind: str, name: str, ref: str | Mapping[str, Any]) -> None:
    """Add how a recipe refers to a step, if it gives options."""
    known = _options[kind, name]
    if not isinstance(ref, str) and ref not in known:
        known.append(ref)


def recipe_options(kind: str, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the references to a step in the recipes of this process, as tables."""
    return _options[kind, name]
