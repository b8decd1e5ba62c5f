"""How the jobs of several runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from jprep.engine.fingerprint import plain
from jprep.train.job.config import Job

ABSENT = "–"
"""What a table shows for a key that a job lacks."""

_COMPARED = ("backend", "train", "model", "options", "parameters", "steps", "samples", "made_from", "jprep")


def job_differences(jobs: Sequence[Job]) -> list[tuple[str, list[str]]]:
    """Return the keys in which jobs differ, each with the value of every job as JSON, or `ABSENT`."""
    leaves = [dict(_leaves({name: value for name, value in plain(job).items() if name in _COMPARED})) for job in jobs]
    names = sorted(set().union(*leaves))
    rows = [(name, [found.get(name, ABSENT) for found in leaves]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _leaves(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the leaves of nested tables under dotted names; lists as JSON."""
    found: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found += _leaves(value, f"{prefix}{key}.")
        else:
            shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            found.append((f"{prefix}{key}", shown))
    return found
