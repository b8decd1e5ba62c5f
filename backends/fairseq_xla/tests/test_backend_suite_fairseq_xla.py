"""jprep-fairseq-xla keeps what every backend owes."""

from __future__ import annotations

from jprep.testing.backend_suite import BackendSuite

CASES = ("roberta-mlm", "gpt2-clm", "bert-mlm")


class TestFairseqOnACpu(BackendSuite):
    backend = "fairseq-xla"
    options = {"device": "cpu", "threads": 1}
    cases = CASES
    few_rows = {"rows": 2}
    two_processes = {"processes": 2}
    half = ("bf16",)
