"""A TPU slice of two hosts, simulated on this machine: each process computes everything, and the first one writes.

PJRT joins the devices of hosts on TPUs only.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from jprep.errors import MachineError
from jprep.testing.backend_suite.cases import SAVED, golden_curve
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.testing.backend_suite.two_hosts import train_on_two_hosts
from jprep_torch.worker.distributed.context import DistributedContext

pytestmark = pytest.mark.skipif(not find_spec("torch_xla"), reason="torch_xla is not here")


@pytest.mark.parametrize("backend", ["fairseq-xla", pytest.param("torch", marks=pytest.mark.soak)])
def test_two_hosts_take_the_steps_of_one_and_resume_together(backend: str, tmp_path: Path) -> None:
    if backend == "torch" and not find_spec("transformers"):
        pytest.skip("transformers is not here")
    bench = SuiteRunner(tmp_path, backend, {"device": "xla", "devices": 1, "threads": 1})
    trained = train_on_two_hosts(bench, "roberta-mlm", {"hosts": 2})
    kinds = [(event.kind, event.step) for event in trained.events() if event.kind in ("start", "end")]
    assert kinds == [("start", 0), ("start", SAVED), ("end", 50)]
    assert list(trained.losses().values()) == pytest.approx(golden_curve("roberta-mlm").train, rel=1e-4)
    assert trained.losses("validation") == pytest.approx(golden_curve("roberta-mlm").validation, rel=1e-4)
    assert sorted(path.name for path in trained.checkpoint().iterdir()) == [
        "COMMIT.json", "model.safetensors", "optimizer.safetensors", "state.json"
    ]  # fmt: skip


def test_missing_hosts_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_xla import runtime

    found = {"use_spmd": lambda: None, "global_runtime_device_count": lambda: 8, "process_count": lambda: 2}
    for name, answer in found.items():
        monkeypatch.setattr(runtime, name, answer)
    with pytest.raises(MachineError, match="8 devices in 2 processes, but the plan has 32") as caught:
        DistributedContext("xla", devices=32)
    assert "devices = 4 and hosts = 2" in caught.value.fix and "each host" in caught.value.fix
