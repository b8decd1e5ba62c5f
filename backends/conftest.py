"""Leave part of the backends' tests to `make soak`: each training starts a process that imports a framework.

Torch trains every case of the suite daily. Other backends train those in `CASES`, without the tests in `TORCH_ONLY` and
`LONG`. Of the tests in `REPEATED`, every backend runs some parameters daily.
"""

from __future__ import annotations

from collections import Counter

import pytest

REPEATED = {
    "test_a_killed_run_ends_like_an_uninterrupted_one": 2,
    "test_equivalent_options_make_the_same_steps": 4,
    "test_every_weight_is_exported": 4,
    "test_losses_outputs_and_gradients_are_those_of_transformers": 3,
    "test_mixed_precision_learns_as_well": 2,
    "test_transformers_computes_the_same_loss": 3,
    "test_outputs_losses_and_gradients_are_those_of_transformers": 3,
    "test_a_run_resumes_on_another_mesh": 3,
    "test_documents_are_as_in_rows_of_their_own": 3,
    "test_steps_read_nothing_from_the_device": 2,
    "test_two_processes_make_the_same_steps": 3,
}
"""Test → n: the daily tests have the first of n parameters, and then every n-th."""

CASES = {
    "deepspeed": ("gpt2-clm", "roberta-mlm", "qwen3-moe-clm", "llama-documents"),
    "flax": (
        "gpt2-clm",
        "llama-clm",
        "roberta-mlm",
        "electra-rtd",
        "modernbert-mlm",
        "llama-documents",
        "bert-weighted",
    ),
    "keras": ("gpt2-clm", "roberta-mlm", "bert-classify", "roberta-regress", "llama-documents"),
    "fairseq_xla": ("gpt2-clm", "roberta-mlm", "roberta-documents"),
}
"""Backend → its daily cases."""

CURVE_ONLY = (
    "qwen3-clm", "modernbert-mlm", "deberta-mlm", "qwen3-moe-clm", "llama-documents", "roberta-documents",
    "gpt2-stages", "gpt2-muon", "gpt2-sft", "bert-weighted",
)  # fmt: skip
"""Cases of which every backend computes the curve daily, and nothing else."""

CURVE = "test_the_curve_is_the_golden_one"

TORCH_ONLY = {
    "test_a_loss_hook_equal_to_the_task_s_loss_makes_the_same_steps",
    "test_a_micro_batch_of_two_makes_the_same_steps",
    "test_a_padded_vocabulary_makes_the_same_steps",
    "test_a_stopped_run_saves_and_resumes",
    "test_an_exported_model_has_the_measured_loss",
    "test_hooks_do_not_depend_on_processes_and_interruptions",
    "test_mixed_precision_learns_as_well",
    "test_replaced_tokens_do_not_depend_on_the_division",
    "test_sentence_pairs_do_not_depend_on_the_division",
    "test_weight_decay_of_all_tensors_includes_norms",
}
"""Tests of the suite that are daily ones with torch only."""

LONG = {
    # A test of DeepSpeed's own kills one of two ranks.
    "deepspeed": {
        "test_a_killed_run_ends_like_an_uninterrupted_one",
        "test_a_killed_run_ends_with_the_same_bytes",
        "test_a_profile_has_a_trace_and_shares",
        "test_a_run_of_torch_is_continued",
        "test_stage_1_in_bf16_learns_as_well",
        "test_equivalent_options_make_the_same_steps",
    },
    "fairseq_xla": {
        "test_a_killed_run_of_the_recipe_has_the_losses_of_an_uninterrupted_one",
        "test_a_profile_has_a_trace_and_shares",
        "test_memory_does_not_grow_with_the_corpus",
    },
    "keras": {
        "test_a_profile_has_a_trace_and_the_time_of_the_program",
        "test_a_run_of_another_backend_resumes",
        "test_documents_do_not_depend_on_the_division",
        "test_equivalent_options_make_the_same_steps",
        "test_hooks_do_not_depend_on_the_engine",
    },
}
"""Backend → further tests that are no daily ones."""


@pytest.hookimpl(tryfirst=True)  # before tests marked `soak` are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that are not daily ones as `soak`."""
    seen = Counter[tuple[object, str]]()
    for item in items:
        backend, (name, _, parameters) = item.path.parents[1].name, item.name.partition("[")
        seen[item.parent, name] += 1
        repeated = name in REPEATED and seen[item.parent, name] % REPEATED[name] != 1
        if repeated or _is_left_out(backend, name, parameters.removesuffix("]")):
            item.add_marker("soak")


def _is_left_out(backend: str, name: str, case: str) -> bool:
    """Return whether a test is not a daily one of a backend."""
    # Not imported before the suite's assertions are registered to be rewritten.
    from jprep.testing.backend_suite.cases import CASES as ALL_CASES

    if case in CURVE_ONLY and name != CURVE:
        return True
    if backend not in CASES:
        return False
    other_case = case in ALL_CASES and case not in CASES[backend]
    return other_case or name in TORCH_ONLY or name in LONG.get(backend, ())
