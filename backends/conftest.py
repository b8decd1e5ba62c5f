"""Leave part of the backend suite to `make soak`: each training starts a process that imports a framework.

The daily tests take some of the parameters of the tests in `REPEATED`. In all others torch has every case; other
backends leave out cases whose model and task they have in another case.
"""

from __future__ import annotations

from collections import Counter

import pytest

REPEATED = {
    "test_a_killed_run_ends_like_an_uninterrupted_one": 2,
    "test_equivalent_options_make_the_same_steps": 2,
    "test_every_weight_is_exported": 4,
    "test_mixed_precision_learns_as_well": 2,
    "test_transformers_computes_the_same_loss": 3,
    "test_two_processes_make_the_same_steps": 2,
}
"""Test of the suite → n: the daily tests have the first of n parameters, and then every n-th."""

CASES = {
    "deepspeed": ("bert-mlm", "electra-mlm", "llama-clm", "roberta-regress"),  # its models are those of torch
    "flax": ("bert-mlm", "electra-mlm", "roberta-regress"),
    "keras": ("bert-mlm", "roberta-regress"),
}
"""Backend → cases that are left to `make soak`."""


@pytest.hookimpl(tryfirst=True)  # before tests marked `soak` are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that are not daily ones as `soak`."""
    seen = Counter[tuple[object, str]]()
    for item in items:
        name, _, parameters = item.name.partition("[")
        seen[item.parent, name] += 1
        repeated = name in REPEATED and seen[item.parent, name] % REPEATED[name] != 1
        if repeated or parameters.removesuffix("]") in CASES.get(item.path.parents[1].name, ()):
            item.add_marker("soak")
