"""The options of a comparison."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError

_UNITS = {"s": 1, "min": 60, "h": 3600}
_BUDGET = re.compile(r"(?:(cpu|gpu):)?(\d+(?:\.\d+)?)(s|min|h)")


class Budget(NamedTuple):
    """How long a comparison may take.

    Attributes:
        text: as the user wrote it.
        seconds: wall-clock seconds.
        device: `cpu` or `gpu`.
    """

    text: str
    seconds: float
    device: str


class CompareOptions(NamedTuple):
    """The options of a comparison.

    Attributes:
        budget: how long it may take.
        seeds: seeds of each arm; 0 chooses from the budget.
        size: name of the models' size; "" chooses from the budget.
        characters: characters of text that each model sees; 0 chooses from the budget.
        backend: the backend that trains.
        tasks: files of tasks.
        held_out: files of held-out texts; none takes them from the recipes' common sources.
        overrides: `a.b=value` settings for all recipes.
        workers: processes; None for as many as there are cores.
    """

    budget: Budget
    seeds: int = 0
    size: str = ""
    characters: int = 0
    backend: str = "torch"
    tasks: tuple[Path, ...] = ()
    held_out: tuple[Path, ...] = ()
    overrides: tuple[str, ...] = ()
    workers: int | None = None


def parse_budget(text: str) -> Budget:
    """Return a budget from text such as `20min`, `2h` or `gpu:30min`.

    Raises:
        ConfigError: it is not a time.
    """
    found = _BUDGET.fullmatch(text.strip())
    seconds = float(found[2]) * _UNITS[found[3]] if found else 0
    if not found or seconds <= 0:
        fix = "give a number with s, min or h: 20min, 2h, gpu:30min"
        raise ConfigError(f"invalid budget {text!r}", where="--budget", fix=fix)
    return Budget(text.strip(), seconds, found[1] or "cpu")
