"""jprep-fairseq-xla passes the backend suite: with plain fairseq, and on XLA."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from jprep.testing.backend_suite import BackendSuite


@pytest.mark.skipif(bool(find_spec("torch_xla")), reason="plain fairseq has an environment of its own")
class TestFairseqOnACpu(BackendSuite):
    backend = "fairseq-xla"
    options = {"device": "cpu", "threads": 1}
    cases = ("roberta-mlm", "gpt2-clm", "bert-mlm")
    micro_batch_of_two = {"micro_batch": 2}
    two_processes = {"processes": 2}
    precisions = ("bf16",)


@pytest.mark.skipif(not find_spec("torch_xla"), reason="torch_xla is not here")
class TestFairseqOnXla(BackendSuite):
    backend = "fairseq-xla"
    options = {"device": "xla", "threads": 1}
    cases = ("roberta-mlm", "gpt2-clm")
    micro_batch_of_two = {"micro_batch": 2}
    equivalent_options = {
        "four devices": {"devices": 4},
        "four devices, one row at a time": {"devices": 4, "micro_batch": 1},
    }
    precisions = ("bf16",)
