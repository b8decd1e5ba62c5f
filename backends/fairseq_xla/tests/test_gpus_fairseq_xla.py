"""The path of `device = "cuda"`: two processes of a GPU plan, with the device replaced, and a machine without GPUs.

Not run on a GPU.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
import torch

from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner
from jprep.train.backend import Host
from jprep_fairseq_xla.backend import FairseqXla
from jprep_fairseq_xla.worker.__main__ import main

pytestmark = [
    pytest.mark.skipif(bool(find_spec("torch_xla")), reason="plain fairseq has an environment of its own"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
]


def trained_on_two(bench: SuiteRunner) -> FinishedRun:
    """Train with the plan for two GPUs, on a CPU."""
    prepared = bench.prepare("roberta-mlm", {"device": "cuda", "processes": 2}, checkpoint={"every_steps": 4})
    host = Host(prepared.host.python, 2, prepared.host.memory, ("a GPU", "a GPU"), 80 << 30)
    plan = FairseqXla().plan(prepared.job, prepared.run, host)
    settings = json.dumps(dict(plan.settings) | {"cpu": True})
    argv = list(plan.argv)
    argv[argv.index("--device") + 1], argv[argv.index("--settings") + 1] = "cpu", settings
    return bench.train(prepared._replace(plan=msgspec.structs.replace(plan, argv=tuple(argv))))


def test_two_processes_of_a_gpu_plan_give_the_golden_curve(tmp_path: Path) -> None:
    trained = trained_on_two(SuiteRunner(tmp_path, "fairseq-xla", {"device": "cpu", "threads": 1}))
    assert trained.code == 0, trained.messages
    expected = golden_curve("roberta-mlm").train
    assert trained.losses() == pytest.approx(dict(enumerate(expected, 1)), abs=1e-4)


def test_a_machine_without_gpus_is_an_error_before_any_work(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "fairseq-xla", {"device": "cuda", "processes": 1})
    trained = bench.train(bench.prepare("roberta-mlm"))
    assert trained.code == 3 and "PyTorch finds no GPU" in trained.messages


def test_a_full_gpu_ends_the_run_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """fairseq would skip the batch: a real worker with a real exception, raised where a GPU raises it."""
    from jprep_fairseq_xla.worker.patches import import_fairseq

    import_fairseq("cpu")
    from jprep_fairseq_xla.models.task import JprepTask

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
        )

    monkeypatch.setattr(JprepTask, "train_step", full)
    prepared = SuiteRunner(tmp_path, "fairseq-xla", {"device": "cpu", "threads": 1}).prepare("roberta-mlm")
    argv = prepared.plan.argv
    assert main(list(argv[argv.index("train") :])) == 3
    said = capsys.readouterr().err
    assert "device memory is full, 2.15 GB asked for" in said and "out of memory at step 1" in said
