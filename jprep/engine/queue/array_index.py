"""Find a share's number in the variables that schedulers give the elements of an array."""

from __future__ import annotations

from collections.abc import Mapping

_INDEXES = {"SLURM_ARRAY_TASK_ID": 0, "PBS_ARRAY_INDEX": 0, "SGE_TASK_ID": 1, "JOB_COMPLETION_INDEX": 0}
"""The variables, with the first number of an array; the last one is of Kubernetes' indexed jobs."""

_COUNTS = ("SLURM_ARRAY_TASK_COUNT", "SGE_TASK_LAST")


def array_index(environment: Mapping[str, str]) -> int | None:
    """Return the number of this element, from 0; None outside arrays."""
    for name, first in _INDEXES.items():
        if (value := environment.get(name, "")).isdigit():
            return int(value) - first
    return None


def array_size(environment: Mapping[str, str]) -> int | None:
    """Return the number of elements; None where the scheduler does not say."""
    return next((int(environment[name]) for name in _COUNTS if environment.get(name, "").isdigit()), None)
