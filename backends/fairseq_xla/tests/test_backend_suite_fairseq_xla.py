"""jprep-fairseq-xla passes the backend suite: with plain fairseq, and on XLA."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.cases import SAVED
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.testing.backend_suite.suite import DOCUMENTS, _takes_the_same_steps


@pytest.mark.skipif(bool(find_spec("torch_xla")), reason="plain fairseq has an environment of its own")
class TestFairseqOnACpu(BackendSuite):
    backend = "fairseq-xla"
    options = {"device": "cpu", "threads": 1}
    cases = ("roberta-mlm", "gpt2-clm", "bert-mlm", "roberta-documents", "gpt2-sft")
    micro_batch_of_two = {"micro_batch": 2}
    two_processes = {"processes": 2}
    precisions = ("bf16",)


@pytest.mark.skipif(not find_spec("torch_xla"), reason="torch_xla is not here")
class TestFairseqOnXla(BackendSuite):
    backend = "fairseq-xla"
    options = {"device": "xla", "threads": 1}
    cases = ("roberta-mlm", "gpt2-clm", "roberta-documents", "gpt2-sft")
    micro_batch_of_two = {"micro_batch": 2}
    equivalent_options = {
        "four devices": {"devices": 4},
        "four devices, one row at a time": {"devices": 4, "micro_batch": 1},
    }
    precisions = ("bf16",)

    def test_documents_do_not_depend_on_the_division(self, bench: SuiteRunner) -> None:
        """Four devices with one row each at a time, killed once, give the steps of one device, and the golden curve."""
        options = {"devices": 4, "micro_batch": 1}
        trained = bench.train(bench.prepare(DOCUMENTS, options), JPREP_FAILPOINT="run.committed@2")
        assert [event.step for event in trained.events() if event.kind == "start"] == [0, SAVED]
        _takes_the_same_steps(bench, DOCUMENTS, trained)
